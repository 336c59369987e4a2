package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata/layout"
)

// Who a bookie is and where clients dial it, from its three settings.
func TestBookieID(t *testing.T) {
	for _, c := range []struct {
		listen, advertise, id string
		wantID                bk.BookieID
		wantHost              string
		wantPort              int
	}{
		{"127.0.0.1:3181", "", "", "127.0.0.1:3181", "127.0.0.1", 3181},
		{"0.0.0.0:3181", "b1.example:3181", "", "b1.example:3181", "b1.example", 3181},
		{"0.0.0.0:3181", "", "b1.example:3182", "b1.example:3182", "b1.example", 3182},
		{"127.0.0.1:3181", "", "bookie-1", "bookie-1", "127.0.0.1", 3181},
		{":3181", "h:4", "bookie-1", "bookie-1", "h", 4},
		{":3181", "h:4", "g:5", "g:5", "h", 4},
	} {
		id, info, err := bookieID(BookieOptions{Listen: c.listen, Advertise: c.advertise, ID: c.id})
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.wantID, id)
		require.Equal(t, []layout.Endpoint{{ID: "bookie", Host: c.wantHost, Port: c.wantPort, Protocol: layout.ProtocolBookie}}, info.Endpoints)
	}
	for _, c := range []struct {
		listen, advertise, id string
		want                  error
	}{
		{"0.0.0.0:3181", "", "", ErrOptions},
		{"[::]:3181", "", "bookie-1", ErrOptions},
		{":3181", "", "", bk.ErrInvalidBookieID},
		{"h:0", "", "", bk.ErrInvalidBookieID},
		{"h:1", "nowhere", "", bk.ErrInvalidBookieID},
		{"h:1", "", "a/b", bk.ErrInvalidBookieID},
		{"h:1", "", "readonly", bk.ErrInvalidBookieID},
	} {
		_, _, err := bookieID(BookieOptions{Listen: c.listen, Advertise: c.advertise, ID: c.id})
		require.ErrorIs(t, err, c.want, "%+v", c)
	}
}
