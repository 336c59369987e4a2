package namespace

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type bindingVectors struct {
	Bindings []struct {
		Name     string `json:"name"`
		ZnodeHex string `json:"znode_hex"`
	} `json:"bindings"`
	ParseOnly []struct {
		Name         string `json:"name"`
		ZnodeText    string `json:"znode_text"`
		Reserialized string `json:"reserialized"`
		First        int64  `json:"firstLogSegmentSeqNo"`
		Sanity       bool   `json:"sanityCheckTxnID"`
		Region       bool   `json:"encodeRegionID"`
		Federated    bool   `json:"federated"`
		Error        string `json:"error"`
	} `json:"parse_only"`
}

func loadBindings(t *testing.T) bindingVectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/bindings.json")
	require.NoError(t, err)
	var v bindingVectors
	require.NoError(t, json.Unmarshal(raw, &v))
	require.NotEmpty(t, v.Bindings)
	require.NotEmpty(t, v.ParseOnly)
	return v
}

func TestGoldenBindingsBothDirections(t *testing.T) {
	for _, c := range loadBindings(t).Bindings {
		t.Run(c.Name, func(t *testing.T) {
			want, err := hex.DecodeString(c.ZnodeHex)
			require.NoError(t, err)
			b, err := ParseBinding(want, "unused:1")
			require.NoError(t, err)
			require.Equal(t, string(want), string(b.Marshal()))
		})
	}
}

func TestGoldenBindingsParse(t *testing.T) {
	for _, c := range loadBindings(t).ParseOnly {
		t.Run(c.Name, func(t *testing.T) {
			b, err := ParseBinding([]byte(c.ZnodeText), "uriservers:2181")
			if c.Error != "" {
				require.ErrorIs(t, err, ErrBadBinding)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "1\nBKDL\n"+c.Reserialized, string(b.Marshal()))
			require.Equal(t, c.First, b.First())
			require.Equal(t, c.Sanity, !b.SkipTxIDCheck)
			require.Equal(t, c.Region, b.EncodeRegionID)
			require.Equal(t, c.Federated, b.Federated)
		})
	}
}

func TestBindingFieldByField(t *testing.T) {
	text := loadBindings(t).Bindings[1].ZnodeHex
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	b, err := ParseBinding(raw, "")
	require.NoError(t, err)
	require.Equal(t, Binding{
		ClusterServers: "bkw:2181", ClusterScope: "/bk/ledgers", SkipTxIDCheck: true, EncodeRegionID: true,
		ClusterReaderServers: "bkr:2181", StreamServers: "dlw:2181", StreamReaderServers: "dlr:2181",
		ACLRoot: ".acl", FirstSegment: 5,
	}, b)
}

func TestBindingRefusesBadText(t *testing.T) {
	for _, text := range []string{
		"", "1", "1\nBKDL", "1\nBKDL\n", "1\nBKDL\n[]", "1\nBKDL\n{\"1\":7}", "1\nBKDL\n{\"1\":{\"i64\":7},\"2\":{\"str\":\"/l\"}}",
		"1\nBKDL\n{\"1\":{\"str\":\"a\"},\"2\":{\"str\":\"/l\"},\"9\":{\"i64\":-3}}",
		"1\nBKDL\n{\"1\":{\"str\":\"a\"},\"2\":{\"str\":\"/l\"},\"3\":{\"tf\":\"x\"}}",
		"1\nBKDL\n" + strings.Repeat("{\"1\":", 100),
	} {
		_, err := ParseBinding([]byte(text), "")
		require.ErrorIs(t, err, ErrBadBinding, "%q", text)
	}
}

func TestBindingQuotes(t *testing.T) {
	in := Binding{ClusterServers: "a\"b\\c\n\x01é", ClusterScope: "/l", ClusterReaderServers: "r", StreamServers: "s", StreamReaderServers: "t"}
	out, err := ParseBinding(in.Marshal(), "")
	require.NoError(t, err)
	require.Equal(t, in, out)
}
