package ledger_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

func TestRule30MarksTheLedgerBeforeItFences(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		var mu sync.Mutex
		var states []layout.State
		for _, b := range w.Bookies {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				if r.Fence {
					m, _, err := w.Layout.Ledger(w.ctx, r.Ledger)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						states = append(states, m.State)
					}
				}
				return fakebookie.Pass()
			})
		}
		w.readAll(w.open(w.c, wr.ID(), ledger.Recover), 2)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Contains(t, states, layout.StateInRecovery)
		require.NotContains(t, states, layout.StateOpen)
	})
}

func TestRule31And34And36RequestsOfARecovery(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3) // LAC in the entries: 1
		synctest.Wait()
		for _, b := range w.Bookies {
			b.Forget()
		}
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		require.True(t, r.Closed())
		require.Equal(t, bk.EntryID(2), r.LAC())
		synctest.Wait()
		for _, b := range w.Bookies {
			require.True(t, b.Fenced(wr.ID()))
			var lastReads, written int
			for _, q := range b.Seen() {
				switch {
				case q.Op == wire.OpAdd:
					require.True(t, q.Recovery)
					require.Equal(t, bk.EntryID(2), q.Entry)
					written++
				case q.Entry == bk.InvalidEntryID:
					require.True(t, q.Fence)
					lastReads++
				case q.Entry > 1:
					require.True(t, q.Fence, "rule 34: reads behind the LAC fence too")
				}
				require.Equal(t, uint32(wire.V3RecoveryPriority), q.Priority)
			}
			require.Equal(t, 1, lastReads)
			require.Equal(t, 1, written, "rule 36: to the full write set")
			require.Equal(t, bk.EntryID(1), bk.BodyLAC(b.Entry(wr.ID(), 2)), "rule 36: with the recoverer's LAC")
		}
		_, err := wr.Append(w.ctx, nil)
		require.ErrorIs(t, err, bk.ErrFenced, "the old writer is out")
	})
}

func TestRule32CoverageOfTheFence(t *testing.T) {
	for name, test := range map[string]struct {
		verdicts [3]fakebookie.Verdict
		ok       bool
	}{
		"one silent":  {[3]fakebookie.Verdict{fakebookie.Silent(), {}, {}}, true},
		"one corrupt": {[3]fakebookie.Verdict{{}, fakebookie.Corrupt(), {}}, true},
		"two silent":  {[3]fakebookie.Verdict{fakebookie.Silent(), fakebookie.Silent(), {}}, false},
		"two EIO":     {[3]fakebookie.Verdict{fakebookie.Refuse(bk.StatusIO), {}, fakebookie.Refuse(bk.StatusIO)}, false},
		"two corrupt": {[3]fakebookie.Verdict{fakebookie.Corrupt(), {}, fakebookie.Corrupt()}, false},
		"one EUA":     {[3]fakebookie.Verdict{fakebookie.Refuse(bk.StatusUnauthorized), {}, {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				wr := w.create(3, 3, 2)
				w.append(wr, 3)
				synctest.Wait()
				gate := make(chan struct{})
				for i, b := range w.ensemble(wr.ID()) {
					v := test.verdicts[i]
					b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if !r.Fence || r.Entry != bk.InvalidEntryID {
							return fakebookie.Pass()
						}
						if v == fakebookie.Pass() {
							return fakebookie.Hold(gate) // the bad ones answer first
						}
						return v
					})
				}
				time.AfterFunc(time.Millisecond, func() { close(gate) })
				r, err := w.c.Open(w.ctx, wr.ID(), ledger.Recover)
				if test.ok {
					require.NoError(t, err)
					w.readAll(r, 2)
					return
				}
				require.ErrorIs(t, err, bk.ErrRecoveryFailed)
				var facts *bk.QuorumError
				require.ErrorAs(t, err, &facts)
				m, err := w.c.Metadata(w.ctx, wr.ID())
				require.NoError(t, err)
				require.Equal(t, layout.StateInRecovery, m.State, "to be tried again")

				for _, b := range w.Bookies {
					b.SetHook(nil)
				}
				w.readAll(w.open(w.c, wr.ID(), ledger.Recover), 2)
			})
		})
	}
}

func TestRule35OutcomesOfARecoveryRead(t *testing.T) {
	io := fakebookie.Refuse(bk.StatusIO)
	missing := fakebookie.Refuse(bk.StatusNoEntry)
	limbo := fakebookie.Refuse(bk.StatusUnknownLedgerState)
	for name, test := range map[string]struct {
		verdicts [3]fakebookie.Verdict
		last     bk.EntryID
		fails    bool
	}{
		"missing missing io":      {[3]fakebookie.Verdict{missing, missing, io}, 1, false},
		"io missing missing":      {[3]fakebookie.Verdict{io, missing, missing}, 1, false},
		"io io missing":           {[3]fakebookie.Verdict{io, io, missing}, 0, true},
		"silent silent missing":   {[3]fakebookie.Verdict{fakebookie.Silent(), fakebookie.Silent(), missing}, 0, true},
		"corrupt corrupt missing": {[3]fakebookie.Verdict{fakebookie.Corrupt(), fakebookie.Corrupt(), missing}, 0, true},
		"limbo missing io":        {[3]fakebookie.Verdict{limbo, missing, io}, 0, true},
		"missing valid io":        {[3]fakebookie.Verdict{missing, fakebookie.Pass(), io}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
				wr := w.create(3, 3, 2)
				w.append(wr, 3)
				synctest.Wait()
				for i, b := range w.ensemble(wr.ID()) {
					v := test.verdicts[i]
					b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if r.Op == wire.OpRead && r.Entry == 2 {
							return v
						}
						return fakebookie.Pass()
					})
				}
				r, err := w.c.Open(w.ctx, wr.ID(), ledger.Recover)
				if test.fails {
					require.ErrorIs(t, err, bk.ErrRecoveryFailed)
					return
				}
				require.NoError(t, err)
				require.Equal(t, test.last, r.LAC())
				w.readAll(r, min(test.last, 1))
			})
		})
	}
}

func TestRule37SegmentsOfARecoveryAppearAtTheClose(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		synctest.Wait()
		require.NoError(t, wr.Abort())
		ens := w.ensemble(wr.ID())
		ens[0].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op == wire.OpAdd {
				return fakebookie.Refuse(bk.StatusReadOnly)
			}
			return fakebookie.Pass()
		})
		c, store := w.onFaultyStore(ledger.Options{})
		var seen []int
		store.setFault(func(do func() (metadata.Result, error)) (metadata.Result, error) {
			res, err := do()
			m, _, merr := w.Layout.Ledger(w.ctx, wr.ID())
			if merr == nil {
				seen = append(seen, len(m.Segments))
			}
			return res, err
		})
		r := w.open(c, wr.ID(), ledger.Recover)
		w.readAll(r, 2)
		require.Len(t, seen, 2, "two metadata writes: in recovery, closed")
		require.Equal(t, 1, seen[0])
		m := r.Metadata()
		if len(m.Segments) > 1 { // the write-back may have its acks before the refusal
			require.NotContains(t, m.LastSegment().Ensemble, ens[0].ID)
		}
	})
}

func TestRule38LengthIsThatOfTheLastEntry(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 2)
		synctest.Wait()
		require.NoError(t, wr.Abort())
		// One bookie has entry 2 besides: it names LAC 1 but is itself never
		// confirmed.
		d, err := bk.NewDigester(bk.DigestCRC32C, nil)
		require.NoError(t, err)
		key := bk.MasterKey(nil)
		body := d.AppendEntry(nil, wr.ID(), 2, 1, 14+1000, make([]byte, 1000))
		ens := w.ensemble(wr.ID())
		ens[0].Put(wr.ID(), key[:], body)
		ens[0].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op == wire.OpRead && r.Entry == 2 {
				return fakebookie.Refuse(bk.StatusNoEntry) // lost since
			}
			return fakebookie.Pass()
		})
		ens[1].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Fence && r.Entry == bk.InvalidEntryID {
				return fakebookie.Silent() // so that the answer of ens[0] counts
			}
			return fakebookie.Pass()
		})
		r := w.open(w.c, wr.ID(), ledger.Recover)
		require.Equal(t, bk.EntryID(1), r.LAC())
		require.Equal(t, int64(14), r.Length())
	})
}

func TestRule38TwoRecoveriesAgree(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 50)
		got := make(chan *ledger.Reader)
		for range 4 {
			c := w.client(ledger.Options{})
			go func() { got <- w.open(c, wr.ID(), ledger.Recover) }()
		}
		for range 4 {
			r := <-got
			require.True(t, r.Closed())
			w.readAll(r, 49)
		}
		require.NoError(t, wr.Abort())
	})
}

// R04: a bookie that takes connections and never answers does not hold up a
// recovery.
func TestR04RecoveryWithOneHungBookie(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 10)
		w.Bookies[2].SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		start := time.Now()
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		require.Less(t, time.Since(start), 10*time.Second, "two read timeouts")
		w.readAll(r, 9)
	})
}

// R32: empty entries are entries.
func TestR32ZeroLengthEntries(t *testing.T) {
	for _, sizes := range [][]int{{0}, {0, 0, 0, 0}, {5}, {0, 1, 0}} {
		for _, kill := range []bool{false, true} {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				wr := w.create(3, 3, 2)
				total := 0
				for _, n := range sizes {
					_, err := wr.Append(w.ctx, make([]byte, n))
					require.NoError(t, err)
					total += n
				}
				last := bk.EntryID(len(sizes) - 1)
				mode := ledger.NoRecovery
				if kill {
					require.NoError(t, wr.Abort())
					mode = ledger.Recover
				} else {
					require.NoError(t, wr.Close(w.ctx))
				}
				r := w.open(w.c, wr.ID(), mode)
				require.Equal(t, last, r.LAC())
				require.Equal(t, int64(total), r.Length())
				i := 0
				for ent, err := range r.Entries(w.ctx, 0, last) {
					require.NoError(t, err)
					require.Len(t, ent.Payload, sizes[i])
					i++
				}
				require.Equal(t, len(sizes), i)
			})
		}
	}
}

// A takeover in the middle of a stream of adds: every acknowledged entry is in
// the closed ledger, and the old writer acknowledges nothing afterwards.
func TestR02TakeoverUnderLoad(t *testing.T) {
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		wr := w.create(4, 3, 2)
		acked := bk.InvalidEntryID
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
				}
				e, err := wr.Append(w.ctx, payload(wr.LastPushed()+1))
				if err != nil {
					return
				}
				acked = e
			}
		}()
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		close(stop)
		<-ended
		require.LessOrEqual(t, acked, r.LAC())
		w.readAll(r, r.LAC())
		_, err := wr.Append(w.ctx, nil)
		require.ErrorIs(t, err, bk.ErrFenced)
		require.LessOrEqual(t, wr.LAC(), r.LAC())
	})
}
