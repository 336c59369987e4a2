package ledger_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

func replayTwoRecoveries(t *testing.T, _ observation, m []string) {
	require.Equal(t, m[1], m[2])
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 2)
		got := make(chan *ledger.Reader)
		for range 2 {
			c := w.client(ledger.Options{})
			go func() { got <- w.open(c, wr.ID(), ledger.Recover) }()
		}
		a, b := <-got, <-got
		require.Equal(t, m[1], a.LAC().String())
		require.Equal(t, a.LAC(), b.LAC())
		require.Equal(t, a.Length(), b.Length())
		require.Equal(t, a.Metadata().Segments, b.Metadata().Segments)
	})
}

// Entry 1, that no writer was told of, is on one bookie: the recovery that hears
// it there keeps it.
func replayUnacked(t *testing.T, _ observation, _ []string) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 1)
		synctest.Wait()
		ens := w.ensemble(wr.ID())
		for _, b := range ens[1:] {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				if r.Op == wire.OpAdd && !r.Recovery {
					return fakebookie.Silent()
				}
				if r.Op == wire.OpRead && r.Entry == 1 {
					return fakebookie.Late(time.Millisecond) // the copy is heard first
				}
				return fakebookie.Pass()
			})
		}
		wr.Go(w.ctx, payload(1), func(bk.EntryID, error) {})
		synctest.Wait()
		require.NotNil(t, ens[0].Entry(wr.ID(), 1))
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		require.Equal(t, bk.EntryID(1), r.LAC())
		w.readAll(r, 1)
		require.NoError(t, wr.Abort())
	})
}

func replayFirstAsked(t *testing.T, _ observation, _ []string) {
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 2, 2, 3)
		ens := w.ensemble(id)
		for e := range bk.EntryID(3) {
			for _, b := range w.Bookies {
				b.Forget()
			}
			_, err := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery).Read(w.ctx, e)
			require.NoError(t, err)
			for p, b := range ens {
				if p == int(e) {
					require.Len(t, b.Seen(), 1)
				} else {
					require.Empty(t, b.Seen())
				}
			}
		}
	})
}

func replayRead(t *testing.T, _ observation, m []string) {
	inWorld(t, 2, ledger.Options{ReadTimeout: time.Second, SpeculativeReadTimeout: 2 * time.Second}, func(w *world) {
		id := w.closedLedger(2, 2, 2, 1)
		for p, b := range w.ensemble(id) {
			v := scripted(t, m[1+p])
			if m[1+p] == "EUNKNOWNLEDGERSTATE" {
				v = scripted(t, "107")
			}
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return v })
		}
		c := w.client(ledger.Options{ReadTimeout: time.Second})
		_, err := w.open(c, id, ledger.NoRecovery).Read(w.ctx, 0)
		requireJava(t, m[3], err)
	})
}

func replayClosed(t *testing.T, o observation, _ []string) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2, ledger.WithPassword([]byte("secret")))
		for range 6 {
			_, err := wr.Append(w.ctx, []byte{1, 2})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.NoError(t, wr.Close(w.ctx))
		for _, b := range w.Bookies {
			b.Forget()
		}
		c := w.client(ledger.Options{})
		switch {
		case strings.HasPrefix(o.title, "opening a closed ledger"):
			r := w.open(c, wr.ID(), ledger.NoRecovery)
			require.Equal(t, bk.EntryID(5), r.LAC())
			require.Equal(t, int64(12), r.Length())
		case strings.HasPrefix(o.title, "reading beyond"):
			r := w.open(c, wr.ID(), ledger.NoRecovery)
			_, err := r.Read(w.ctx, 6)
			require.ErrorIs(t, err, bk.ErrReadPastLAC)
			_, err = r.ReadUnconfirmed(w.ctx, 6)
			require.ErrorIs(t, err, bk.ErrReadPastLAC)
		case strings.HasPrefix(o.title, "open with wrong password"):
			for _, mode := range []ledger.OpenMode{ledger.NoRecovery, ledger.Recover} {
				_, err := c.Open(w.ctx, wr.ID(), mode, ledger.WithOpenPassword([]byte("Secret")))
				require.ErrorIs(t, err, bk.ErrUnauthorized)
			}
		case strings.HasPrefix(o.title, "open with other digest type"):
			r, err := c.Open(w.ctx, wr.ID(), ledger.NoRecovery, ledger.WithOpenDigest(bk.DigestHMAC))
			require.NoError(t, err)
			ent, err := r.Read(w.ctx, 5)
			require.NoError(t, err)
			require.Equal(t, []byte{1, 2}, ent.Payload)
			return
		case strings.HasPrefix(o.title, "open deleted"):
			require.NoError(t, c.Delete(w.ctx, wr.ID()))
			_, err := c.Open(w.ctx, wr.ID(), ledger.NoRecovery)
			require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		}
		for _, b := range w.Bookies {
			require.Empty(t, b.Seen(), "traffic 0")
		}
	})
}

// Six entries striped over six bookies; the last-entry reads of some fail.
func replaySix(t *testing.T, _ observation, m []string) {
	inWorld(t, 8, ledger.Options{}, func(w *world) {
		wr := w.create(6, 2, 2)
		w.append(wr, 6)
		synctest.Wait()
		for p, b := range w.ensemble(wr.ID()) {
			bad := strings.ContainsRune(m[1], rune('0'+p))
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				switch {
				case !r.Fence || r.Entry != bk.InvalidEntryID:
					return fakebookie.Pass()
				case bad:
					return fakebookie.Refuse(bk.StatusIO)
				}
				return fakebookie.Late(time.Millisecond) // the bad ones answer first
			})
		}
		r, err := w.client(ledger.Options{}).Open(w.ctx, wr.ID(), ledger.Recover)
		requireJava(t, m[2], err)
		if err == nil {
			require.Equal(t, "closed at "+r.LAC().String(), m[2])
			w.readAll(r, 5)
		}
	})
}
