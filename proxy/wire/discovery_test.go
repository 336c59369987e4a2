package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocations(t *testing.T) {
	l, err := ParseLocation("1;0;10.0.0.1:8000")
	require.NoError(t, err)
	require.Equal(t, Location{0, "10.0.0.1:8000"}, l)
	for _, bad := range []string{"", "1;0", "2;0;h:1", "1;x;h:1", "1;0;h", "1;0;:1", "1;0;h:99999", "1;0;h:1;2", "1;0;[::1]:80", "1;0;h:-1"} {
		_, err := ParseLocation(bad)
		require.ErrorIs(t, err, ErrProtocol, "%q", bad)
	}
	o := Owner{Location: Location{3, "h:1"}, Epoch: 17}
	require.Equal(t, "1;3;h:1;17", string(o.Marshal()))
	back, err := ParseOwner(o.Marshal())
	require.NoError(t, err)
	require.Equal(t, o, back)
	for _, bad := range []string{"", "1;3;h:1", "1;3;h:1;0", "1;3;h:1;x", "1;3;h;4"} {
		_, err := ParseOwner([]byte(bad))
		require.ErrorIs(t, err, ErrProtocol, "%q", bad)
	}
}

func TestMemberText(t *testing.T) {
	m, err := NewMember("10.0.0.1:8000", 2)
	require.NoError(t, err)
	b, err := m.Marshal()
	require.NoError(t, err)
	require.JSONEq(t, `{"serviceEndpoint":{"host":"10.0.0.1","port":8000},
		"additionalEndpoints":{"thrift":{"host":"10.0.0.1","port":8000}},"status":"ALIVE","shard":2}`, string(b))
	// as a Java proxy writes it: clients use the thrift endpoint
	m, err = ParseMember([]byte(`{"serviceEndpoint":{"host":"h","port":1},"additionalEndpoints":{"thrift":{"host":"h","port":4181},
		"service":{"host":"h","port":2},"stats":{"host":"h","port":3},"aurora":{"host":"h","port":4}},"status":"ALIVE","shard":5}`))
	require.NoError(t, err)
	require.Equal(t, "h:4181", m.Endpoint().Addr())
	require.Equal(t, 5, m.Shard)
	for _, bad := range []string{"", "{}", `{"serviceEndpoint":{"host":"h","port":0}}`, `{"serviceEndpoint":{"host":"h","port":70000}}`, `[1]`} {
		_, err := ParseMember([]byte(bad))
		require.ErrorIs(t, err, ErrProtocol, "%q", bad)
	}
}

func TestOwnerKeysDoNotNestR40(t *testing.T) {
	require.Equal(t, "/ns/.write_proxy_owners/a%2Fb", OwnerKey("/ns", "a/b"))
	require.NotEqual(t, OwnerKey("/ns", "a/b"), OwnerKey("/ns", "a%2Fb"))
	require.NotEqual(t, EpochKey("/ns", "a"), OwnerKey("/ns", "a.epoch"))
	require.True(t, IsMember(MemberKey("/ns")+"0000000012"))
	require.False(t, IsMember("/ns/.write_proxy/other"))
}

func TestAddressTexts(t *testing.T) {
	require.Equal(t, "/10.0.0.1:8000", JavaAddress("10.0.0.1:8000"))
	require.Equal(t, "proxy-1:8000", JavaAddress("proxy-1:8000"))
	require.True(t, SameAddress("proxy-1/10.0.0.1:8000", "proxy-1:8000"))
	require.True(t, SameAddress("proxy-1/10.0.0.1:8000", "10.0.0.1:8000"))
	require.True(t, SameAddress("/10.0.0.1:8000", "10.0.0.1:8000"))
	require.False(t, SameAddress("/10.0.0.1:8000", "10.0.0.1:8001"))
	require.False(t, SameAddress("x", "y"))
}
