package segment

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// beforeList has something happen before the first listing.
type beforeList struct {
	metadata.Store
	happen func()
}

func (s *beforeList) List(ctx context.Context, key string, opts metadata.ListOptions) (metadata.Page, error) {
	if f := s.happen; f != nil {
		s.happen = nil
		f()
	}
	return s.Store.List(ctx, key, opts)
}

// TestR20OvertakenClaimFencesNobody: a claim that a newer one overtook before it
// looked at the segments leaves the newer one's ledger alone.
func TestR20OvertakenClaimFencesNobody(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	mustPut(t, start(t, claim(t, s), 1), rec{txid: 1, payload: "a"})
	var w2 *Writer
	slow := w.client()
	slow.opts.Store = &beforeList{Store: w.store, happen: func() {
		w2 = start(t, claim(t, w.stream("s")), 1)
		mustPut(t, w2, rec{txid: 2, payload: "b"})
	}}
	old, err := slow.Stream("s")
	require.NoError(t, err)
	_, err = old.Claim(t.Context())
	require.ErrorIs(t, err, stream.ErrFenced)
	mustPut(t, w2, rec{txid: 3, payload: "c"})
	require.Equal(t, []string{"1:0:0 1 a", "2:0:0 2 b", "2:1:0 3 c"}, records(t, s))
}
