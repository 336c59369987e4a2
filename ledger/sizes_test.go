package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
)

// sized is a payload whose every byte depends on its length.
func sized(n int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8), 7}, n/3+1)[:n] }

// R28: payloads a byte apart around the limit, through the client, real bookies,
// a recovery that writes them back, and single and batch reads. Each is either
// taken and readable everywhere or refused at once; no connection is lost, and
// small entries go on.
func TestR28_EntrySizesAroundTheLimit(t *testing.T) {
	for _, digest := range []bk.DigestType{bk.DigestCRC32C, bk.DigestHMAC} {
		for _, span := range [][2]int{{-64, -62}, {-1, 64}} {
			from, to := span[0], span[1]
			t.Run(fmt.Sprintf("%v %d to %d", digest, from, to), func(t *testing.T) {
				onRealBookies(t, 3, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
					sizesAround(ctx, t, b, digest, from, to)
				})
			})
		}
	}
}

func sizesAround(ctx context.Context, t *testing.T, b *bookietest.Cluster, digest bk.DigestType, from, to int) {
	w, err := clientOf(t, b).Create(ctx, threeTwo, ledger.WithDigest(digest))
	require.NoError(t, err)
	limit := ledger.MaxPayload(digest)
	var want [][]byte
	add := func(p []byte, fits bool) {
		e, err := w.Append(ctx, p)
		if !fits {
			require.ErrorIs(t, err, bk.ErrPayloadTooLong, "%d bytes over the limit", len(p)-limit)
			return
		}
		require.NoError(t, err, "%d bytes from the limit", len(p)-limit)
		require.EqualValues(t, len(want), e)
		want = append(want, p)
	}
	for d := from; d <= to; d++ {
		if d == from || d >= 0 { // each is 5 MB; what is below the limit is like its neighbour
			add(sized(limit+d), d <= 0)
		}
		add([]byte{byte(d)}, true)
	}
	// The writer is gone; every entry behind its last LAC is written back.
	require.NoError(t, w.Abort())
	r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.Recover)
	require.NoError(t, err)
	require.EqualValues(t, len(want)-1, r.LAC())
	i := 0
	for ent, err := range r.Entries(ctx, 0, r.LAC()) {
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[i], ent.Payload), "entry %d", i)
		i++
	}
	require.Equal(t, len(want), i)
	for e := range want {
		ent, err := r.Read(ctx, bk.EntryID(e))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[e], ent.Payload), "entry %d", e)
	}
}

// R28, the formula: a payload at the limit fits one frame with every digest, in
// the largest of the requests and answers that carry an entry.
func TestR28_OverheadFormula(t *testing.T) {
	for _, digest := range []bk.DigestType{bk.DigestCRC32C, bk.DigestCRC32, bk.DigestHMAC, bk.DigestDummy} {
		body := ledger.MaxPayload(digest) + bk.HeaderSize + digest.Size()
		require.Equal(t, wire.MaxEntryBody, body)
		require.LessOrEqual(t, 4+4+bk.MasterKeySize+body, wire.MaxFrame, "v2 add")
		require.LessOrEqual(t, body+wire.BatchAnswerOverhead+wire.BatchEntryOverhead+4, wire.MaxFrame, "v2 batch read answer")
		require.LessOrEqual(t, body+200, wire.MaxFrame, "v3, with all its fields and tags")
	}
}

// R28: the last entry, at and just below the limit, is written back by a
// recovery to a bookie that never got it, and read from that one alone.
func TestR28_WriteBackAtTheLimit(t *testing.T) {
	onRealBookies(t, 3, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
		c, err := ledger.New(b.Cluster, ledger.Options{Dial: b.Dial, Seed: 1, LACDelay: -1})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		var ids []bk.LedgerID
		limit := ledger.MaxPayload(bk.DigestCRC32C)
		b.Partition(2, true)
		for d := range 2 {
			w, err := c.Create(ctx, threeTwo)
			require.NoError(t, err)
			_, err = w.Append(ctx, sized(limit-d))
			require.NoError(t, err)
			require.NoError(t, w.Abort())
			ids = append(ids, w.ID())
		}
		b.Partition(2, false)
		b.Partition(1, true) // now the ack quorum needs bookie 2
		for _, id := range ids {
			r, err := clientOf(t, b).Open(ctx, id, ledger.Recover)
			require.NoError(t, err)
			require.EqualValues(t, 0, r.LAC())
		}
		synctest.Wait()
		b.Stop(0)
		for d, id := range ids {
			r, err := clientOf(t, b).Open(ctx, id, ledger.NoRecovery)
			require.NoError(t, err)
			ent, err := r.Read(ctx, 0)
			require.NoError(t, err)
			require.True(t, bytes.Equal(sized(limit-d), ent.Payload))
		}
	})
}
