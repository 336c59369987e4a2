package bookietest

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = bk.MasterKey([]byte("pw"))

func addFrame(t *testing.T, l bk.LedgerID, e bk.EntryID) []byte {
	d, err := bk.NewDigester(bk.DigestCRC32C, []byte("pw"))
	require.NoError(t, err)
	body := d.AppendEntry(nil, l, e, e-1, 5, []byte("hello"))
	return append(wire.AppendAddRequest(nil, 0, &key, len(body)), body...)
}

// ask sends one version 2 request on a connection of its own.
func ask(t *testing.T, c *Cluster, i int, frame []byte, limit time.Duration) (wire.Response, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	nc, err := c.Dial(ctx, string(c.ID(i)))
	if err != nil {
		return wire.Response{}, err
	}
	defer nc.Close()
	require.NoError(t, nc.SetDeadline(time.Now().Add(limit)))
	if _, err := nc.Write(frame); err != nil {
		return wire.Response{}, err
	}
	fr := wire.NewFrameReader(nc)
	for {
		if err := fr.Fill(); err != nil {
			return wire.Response{}, err
		}
		p, err := fr.Next()
		require.NoError(t, err)
		if p != nil {
			var r wire.Response
			return r, wire.DecodeResponse(&r, p)
		}
	}
}

func requireAsk(t *testing.T, c *Cluster, i int, frame []byte, want bk.Status) {
	t.Helper()
	r, err := ask(t, c, i, frame, 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, want, r.Status)
}

func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	c := Start(t, 2, Options{Bookie: Small(), Seed: 4})
	list, err := c.Cluster.Bookies(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []bk.BookieID{c.ID(0), c.ID(1)}, list.Writable)
	for e := range bk.EntryID(20) {
		requireAsk(t, c, 0, addFrame(t, 1, e), bk.StatusOK)
	}
	requireAsk(t, c, 0, wire.AppendReadRequest(nil, wire.FlagFence, 2, bk.InvalidEntryID, &key), bk.StatusNoEntry)
	c.Crash(0)
	_, err = ask(t, c, 0, addFrame(t, 1, 20), time.Second)
	require.ErrorContains(t, err, "refused")
	requireAsk(t, c, 1, addFrame(t, 1, 0), bk.StatusOK)
	c.Restart(0)
	for e := range bk.EntryID(20) {
		requireAsk(t, c, 0, wire.AppendReadRequest(nil, 0, 1, e, nil), bk.StatusOK)
	}
	requireAsk(t, c, 0, addFrame(t, 2, 0), bk.StatusFenced)
	c.Stop(0)
	list, err = c.Cluster.Bookies(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bk.BookieID{c.ID(1)}, list.Writable)
	c.Restart(0)
	requireAsk(t, c, 0, wire.AppendReadRequest(nil, 0, 1, 19, nil), bk.StatusOK)
}

// A stalled bookie takes connections and answers nothing; what it was sent is
// answered once it goes on. Time is virtual.
func TestStallAndPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 1, Options{Bookie: Small()})
		defer c.Close()
		c.Stall(0, true)
		_, err := ask(t, c, 0, addFrame(t, 1, 0), time.Minute)
		require.ErrorContains(t, err, "i/o timeout")
		c.Stall(0, false)
		requireAsk(t, c, 0, addFrame(t, 1, 1), bk.StatusOK)
		c.Partition(0, true)
		_, err = ask(t, c, 0, addFrame(t, 1, 2), time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.Partition(0, false)
		requireAsk(t, c, 0, wire.AppendReadRequest(nil, 0, 1, 2, nil), bk.StatusNoEntry)
	})
}

func TestFrameVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 1, Options{Bookie: Small()})
		defer c.Close()
		verdict := Verdict{Drop: true}
		c.Net.OnFrame(func(f Frame) Verdict {
			if !f.ToBookie || f.Addr != string(c.ID(0)) {
				return Verdict{}
			}
			return verdict
		})
		_, err := ask(t, c, 0, addFrame(t, 1, 0), time.Minute)
		require.ErrorContains(t, err, "i/o timeout", "dropped")
		verdict = Verdict{Break: true}
		_, err = ask(t, c, 0, addFrame(t, 1, 0), time.Minute)
		require.Error(t, err)
		require.False(t, errors.Is(err, io.EOF))
		verdict = Verdict{Delay: 5 * time.Second}
		start := time.Now()
		requireAsk(t, c, 0, addFrame(t, 1, 0), bk.StatusOK)
		require.GreaterOrEqual(t, time.Since(start), 5*time.Second)
		c.Net.OnFrame(nil)
		c.Cut(0)
		requireAsk(t, c, 0, wire.AppendReadRequest(nil, 0, 1, 0, nil), bk.StatusOK)
	})
}
