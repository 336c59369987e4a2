package client

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ringVectors struct {
	Keys []struct {
		Key  string `json:"key"`
		Long int64  `json:"long"`
	} `json:"key_hashes"`
	Points []struct {
		Name string `json:"name"`
		Long int64  `json:"long"`
	} `json:"replica_hashes"`
	Owners []struct {
		Key   string `json:"key"`
		Order string `json:"order"`
	} `json:"owners_with_997_replicas_of_3_shards"`
}

func TestGoldenConsistentHash(t *testing.T) {
	raw, err := os.ReadFile("testdata/consistent_hash.json")
	require.NoError(t, err)
	var v ringVectors
	require.NoError(t, json.Unmarshal(raw, &v))
	require.Len(t, v.Keys, 6)
	require.Len(t, v.Points, 6)
	require.Len(t, v.Owners, 12)
	for _, k := range v.Keys {
		require.Equal(t, k.Long, hash(k.Key), "%q", k.Key)
	}
	for _, p := range v.Points {
		require.Equal(t, p.Long, hash(p.Name), "%s", p.Name)
	}
	require.Equal(t, v.Points[3].Name, pointName(1, 1, "/10.0.0.2:8000"))
	r := newRing(map[int]string{0: "10.0.0.1:8000", 1: "10.0.0.2:8000", 2: "10.0.0.3:8000"})
	for _, o := range v.Owners {
		want := strings.Split(strings.NewReplacer("[", "", "]", "", "/", "").Replace(o.Order), ", ")
		require.Equal(t, want, r.order(o.Key), "%s", o.Key)
	}
}

func TestRingOfNobody(t *testing.T) {
	require.Empty(t, newRing(nil).order("s"))
	require.Equal(t, []string{"h:1"}, newRing(map[int]string{7: "h:1"}).order("s"))
}
