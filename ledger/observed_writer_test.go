package ledger_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata/layout"
)

var (
	segmentsSeen = regexp.MustCompile(`(\d+):\[(\w+) (\w+) (\w+) \]`)
	resultsSeen  = regexp.MustCompile(`(-?\d+):rc=(-?\d+)`)
	addSeen      = regexp.MustCompile(`^\. (b\d) add (\d) lac=(-?\d+) len=(\d+)$`)
)

// replayWriter: E=3 Qw=3 Qa=2, entry 0 is confirmed, the bookie at position 1
// answers as scripted from entry 1 on; entries 1 to 3 come at once, then one
// more. Payloads: 1, 2, 2, 2 and 5 bytes.
func replayWriter(t *testing.T, o observation, m []string) {
	inWorld(t, 5, ledger.Options{AddTimeout: time.Second, LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		_, err := wr.Append(w.ctx, []byte("0"))
		require.NoError(t, err)
		synctest.Wait()
		ens := w.ensemble(wr.ID())
		for p, b := range ens {
			b.SetHook(scriptedAdds(scripted(t, m[1]), p == 1, m[1] == "EFENCED"))
		}
		errs := make([]error, 4)
		for e := 1; e <= 3; e++ {
			wr.Go(w.ctx, []byte("xx"), func(_ bk.EntryID, err error) { errs[e] = err })
		}
		<-time.After(100 * time.Millisecond) // before the timeout, as in the file
		synctest.Wait()
		for e, r := range resultsSeen.FindAllStringSubmatch(o.lines[0], -1) {
			if r[2] == "0" {
				require.NoError(t, errs[e+1])
				continue
			}
			require.Error(t, errs[e+1])
			require.True(t, errors.Is(errs[e+1], bk.ErrFenced) || errors.Is(errs[e+1], bk.ErrLedgerClosed))
		}
		names := w.checkSeen(t, wr.ID(), ens, o.lines[0][strings.Index(o.lines[0], "after:"):])
		_, err = wr.Append(w.ctx, []byte("entry"))
		for _, line := range o.lines {
			if !strings.HasPrefix(line, "next add") {
				continue
			}
			require.Equal(t, strings.HasPrefix(line, "next add OK"), err == nil, "%s: %v", line, err)
			w.checkSeen(t, wr.ID(), ens, line)
		}
		synctest.Wait()
		for _, line := range o.lines {
			if a := addSeen.FindStringSubmatch(line); a != nil {
				w.checkAdd(t, wr.ID(), names[a[1]], a)
			}
		}
	})
}

// scriptedAdds answers adds of entries from 1 on: those of the bad bookie as
// scripted, those of the others a little later. If others are to complete entry
// 1 first, the bad one is late, and entries after 1 are later still.
func scriptedAdds(v fakebookie.Verdict, bad, othersFirst bool) func(fakebookie.Request) fakebookie.Verdict {
	return func(r fakebookie.Request) fakebookie.Verdict {
		switch {
		case r.Op != wire.OpAdd || r.Entry == 0:
			return fakebookie.Pass()
		case bad && othersFirst:
			<-time.After(2 * time.Millisecond)
			return v
		case bad:
			return v
		case othersFirst && r.Entry > 1:
			return fakebookie.Late(20 * time.Millisecond)
		case othersFirst:
			return fakebookie.Late(time.Millisecond)
		}
		return fakebookie.Late(5 * time.Millisecond)
	}
}

// checkSeen compares the ledger with "OPEN last=-1 len=0 segs=0:[b3 b0 b4 ]
// 1:[b3 b1 b4 ]", and gives which bookie each of the names is.
func (w *world) checkSeen(t *testing.T, id bk.LedgerID, ens []*fakebookie.Bookie, want string) map[string]*fakebookie.Bookie {
	m, err := w.c.Metadata(w.ctx, id)
	require.NoError(t, err)
	state := regexp.MustCompile(`(OPEN|CLOSED) last=(-?\d+) len=(\d+)`).FindStringSubmatch(want)
	require.NotNil(t, state, want)
	require.Equal(t, state[1], m.State.String())
	if m.State == layout.StateClosed {
		require.Equal(t, state[2], m.LastEntry.String())
		require.Equal(t, state[3], strconv.FormatInt(m.Length, 10))
	}
	segs := segmentsSeen.FindAllStringSubmatch(want, -1)
	require.Len(t, m.Segments, len(segs), want)
	names := map[string]*fakebookie.Bookie{}
	for p, name := range segs[0][2:] {
		names[name] = ens[p]
	}
	for i, s := range segs {
		require.Equal(t, s[1], m.Segments[i].First.String())
		for p, name := range s[2:] {
			if names[name] == nil { // the replacement, whichever it is
				names[name] = w.Bookie(m.Segments[i].Ensemble[p])
				require.NotContains(t, ens, names[name])
			}
			require.Equal(t, names[name].ID, m.Segments[i].Ensemble[p])
		}
	}
	return names
}

// checkAdd checks that the entry of a line, "b4 add 1 lac=0 len=3", is at its
// bookie, and carries the LAC and the length that the Java client put in it.
func (w *world) checkAdd(t *testing.T, id bk.LedgerID, b *fakebookie.Bookie, a []string) {
	require.NotNil(t, b, a[0])
	e, err := strconv.ParseInt(a[2], 10, 64)
	require.NoError(t, err)
	body := b.Entry(id, bk.EntryID(e))
	require.NotNil(t, body, a[0])
	require.Equal(t, a[3], bk.BodyLAC(body).String(), a[0])
	require.Equal(t, a[4], strconv.FormatInt(bodyLength(body), 10), a[0])
}

func replayWriterOfClosed(t *testing.T, _ observation, _ []string) {
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 2)
		synctest.Wait()
		w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		for _, b := range w.Bookies {
			b.SetHook(refuseAdds(bk.StatusIO))
		}
		_, err := wr.Append(w.ctx, payload(2))
		require.ErrorIs(t, err, bk.ErrLedgerClosed)
	})
}

// replayWriterClose: a recovery has closed the ledger at another entry than the
// writer has confirmed, or at the same.
func replayWriterClose(t *testing.T, o observation, m []string) {
	inWorld(t, 5, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 1)
		synctest.Wait()
		same := strings.Contains(o.title, "same last entry")
		if !same { // entry 1 is at one bookie, unconfirmed, and recovered
			for p, b := range w.ensemble(wr.ID()) {
				if p > 0 {
					b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if r.Op == wire.OpAdd && !r.Recovery {
							return fakebookie.Silent()
						}
						return fakebookie.Late(time.Millisecond) // the one that has it is heard
					})
				}
			}
			var got error
			wr.Go(w.ctx, payload(1), func(_ bk.EntryID, err error) { got = err })
			defer func() {
				synctest.Wait()
				require.ErrorIs(t, got, bk.ErrLedgerClosed, "rc -11")
			}()
			synctest.Wait()
		}
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		err := wr.Close(w.ctx)
		if same {
			require.Contains(t, m[1], "OK")
			require.NoError(t, err)
			return
		}
		require.Contains(t, m[1], "BKMetadataVersionException(-17)")
		require.EqualValues(t, 1, r.LAC())
		require.ErrorIs(t, err, bk.ErrMetadataConflict)
	})
}

func replayDelete(t *testing.T, o observation, _ []string) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		require.NoError(t, wr.Close(w.ctx))
		synctest.Wait()
		for _, b := range w.Bookies {
			b.Forget()
		}
		require.NoError(t, w.c.Delete(w.ctx, wr.ID()))
		if strings.HasPrefix(o.title, "delete again") {
			require.NoError(t, w.c.Delete(w.ctx, wr.ID()))
		}
		synctest.Wait()
		for _, b := range w.Bookies {
			require.Empty(t, b.Seen(), "bookie traffic")
		}
	})
}
