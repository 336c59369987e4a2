package ledger_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/storetest"
)

var (
	stressSeed = flag.Uint64("stress.seed", 1, "first seed of TestStress")
	stressN    = flag.Int("stress.n", 8, "number of seeds of TestStress")
)

// TestStress has writers, recoverers and tailing readers work on real bookies
// while bookies, network and metadata fail at random, in virtual time, and
// checks the histories that they saw:
//
//   - entries complete once each, in order, and none after a failure
//   - what was acknowledged is in the closed ledger, with the right bytes, on Qa
//     bookies that its metadata name (I1, I6)
//   - all recoveries and readers agree on the end; the length fits it (I2)
//   - LAC only rises, and nothing past the end is delivered (I4)
//   - once faults stop, all work ends within a minute (I7)
func TestStress(t *testing.T) {
	for seed := *stressSeed; seed < *stressSeed+uint64(*stressN); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Logf("replay: go test ./ledger -run 'TestStress$' -stress.seed %d -stress.n 1 -v", seed)
			synctest.Test(t, func(t *testing.T) { stressOnce(t, seed) })
		})
	}
}

// stress is one run.
type stress struct {
	t     *testing.T
	ctx   context.Context
	b     *bookietest.Cluster
	store *storetest.Faulty
	seed  uint64
	wg    sync.WaitGroup // of all that work on ledgers

	mu   sync.Mutex // guards all below
	rng  *rand.Rand
	calm bool // faults are over
}

// logged is the history of one ledger.
type logged struct {
	s  *stress
	id bk.LedgerID
	q  bk.Quorum

	mu     sync.Mutex // guards all below
	pushed bk.EntryID // last one
	acked  bk.EntryID // last one
	failed bool
	closed bool       // by its writer, without an error, at the last one acknowledged
	read   bk.EntryID // the furthest that any reader got
	ends   []string   // what recoveries and readers say of the end
}

var stressQuorums = []bk.Quorum{
	{Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 3, Write: 2, Ack: 2},
	{Ensemble: 4, Write: 3, Ack: 2}, {Ensemble: 3, Write: 3, Ack: 3}, {Ensemble: 2, Write: 2, Ack: 1}, {Ensemble: 5, Write: 3, Ack: 2},
}

func stressOnce(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	s := &stress{t: t, ctx: ctx, seed: seed, rng: rand.New(rand.NewPCG(seed, 7))}
	s.b = bookietest.Start(t, 5+s.intn(2), bookietest.Options{Bookie: bookietest.Small(), Seed: seed})
	s.store = storetest.NewFaulty(s.b.Store)
	s.disturb()
	stop := make(chan struct{})
	var nemesis sync.WaitGroup
	nemesis.Go(func() { s.nemesis(stop) })

	shared := s.client()
	var ledgers []*logged
	for range 1 + s.intn(3) {
		l := &logged{s: s, pushed: bk.InvalidEntryID, acked: bk.InvalidEntryID, read: bk.InvalidEntryID}
		ledgers = append(ledgers, l)
		c := shared
		if s.intn(2) == 0 {
			c = s.client()
		}
		s.wg.Go(func() { l.live(c) })
	}
	<-time.After(time.Duration(2+s.intn(15)) * time.Second)
	close(stop)
	nemesis.Wait()
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	s.store.HealWatches()

	healed := time.Now()
	s.wg.Wait()
	require.Less(t, time.Since(healed), 90*time.Second, "work ends soon after the faults")
	for _, l := range ledgers {
		l.check(s.client())
	}
}

func (s *stress) intn(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *stress) pause(most time.Duration) {
	<-time.After(time.Duration(s.intn(int(most))))
}

// oneIn is true once in n times, while there are faults.
func (s *stress) oneIn(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.calm && n > 0 && s.rng.IntN(n) == 0
}

func (s *stress) client() *ledger.Client {
	for {
		cluster, err := layout.Open(s.ctx, s.store, "/bk")
		if err != nil {
			s.pause(time.Second)
			continue
		}
		c, err := ledger.New(cluster, ledger.Options{
			Dial: s.b.Dial, Seed: uint64(s.intn(1e9)) + 1, DialTimeout: 2 * time.Second, AddTimeout: time.Second, ReadTimeout: time.Second,
			SpeculativeReadTimeout: 300 * time.Millisecond, MetadataTimeout: 3 * time.Second, LongPollTimeout: 2 * time.Second,
			BytesInFlight: 256 << 10,
		})
		require.NoError(s.t, err)
		s.t.Cleanup(func() { require.NoError(s.t, c.Close()) })
		return c
	}
}

// disturb has single frames and metadata calls fail, as rarely as the seed
// says.
func (s *stress) disturb() {
	drop, broken, late, meta := []int{0, 300, 3000}[s.intn(3)], []int{0, 2000}[s.intn(2)], []int{0, 20, 200}[s.intn(3)], []int{0, 5, 30}[s.intn(3)]
	s.b.Net.OnFrame(func(bookietest.Frame) bookietest.Verdict {
		switch {
		case s.oneIn(drop):
			return bookietest.Verdict{Drop: true}
		case s.oneIn(broken):
			return bookietest.Verdict{Break: true}
		case s.oneIn(late):
			return bookietest.Verdict{Delay: time.Duration(s.intn(int(300 * time.Millisecond)))}
		}
		return bookietest.Verdict{}
	})
	s.store.OnCall(func(ctx context.Context, _ storetest.Call) storetest.Fault {
		if !s.oneIn(meta) {
			return storetest.Pass
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(s.intn(int(500 * time.Millisecond)))):
		}
		return []storetest.Fault{storetest.Pass, storetest.Refuse, storetest.LoseRequest, storetest.LoseAnswer}[s.intn(4)]
	})
}

// nemesis has one thing after another fail, and ends with all of them well.
func (s *stress) nemesis(stop <-chan struct{}) {
	for {
		victim := s.intn(s.b.Len())
		heal := func() {}
		switch s.intn(6) {
		case 0:
			s.b.Crash(victim)
			heal = func() { s.b.Restart(victim) }
		case 1:
			s.b.Stall(victim, true)
			heal = func() { s.b.Stall(victim, false) }
		case 2:
			s.b.Partition(victim, true)
			heal = func() { s.b.Partition(victim, false) }
		case 3:
			s.b.Cut(victim)
		case 4:
			s.store.DropWatches()
			if s.intn(2) == 0 {
				heal = s.store.HealWatches
			}
		case 5:
			other := (victim + 1) % s.b.Len()
			s.b.Crash(victim)
			s.b.Stall(other, true)
			heal = func() { s.b.Stall(other, false); s.b.Restart(victim) }
		}
		select {
		case <-stop:
		case <-time.After(time.Duration(s.intn(int(3 * time.Second)))):
		}
		heal()
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(s.intn(int(time.Second)))):
		}
	}
}

// payload is what entry e of the ledger holds.
func (l *logged) payload(e bk.EntryID) []byte {
	r := rand.New(rand.NewPCG(l.s.seed^uint64(l.id)<<20, uint64(e)))
	n := r.IntN(200)
	if r.IntN(50) == 0 {
		n = r.IntN(40_000)
	}
	p := fmt.Appendf(nil, "%d/%d ", l.id, e)
	for len(p) < n {
		p = append(p, byte(len(p)))
	}
	return p
}

// live is the life of one ledger.
func (l *logged) live(c *ledger.Client) {
	s := l.s
	var w *ledger.Writer
	for w == nil {
		q := stressQuorums[s.intn(len(stressQuorums))]
		var err error
		if w, err = c.Create(s.ctx, q); err != nil {
			s.pause(500 * time.Millisecond)
		}
		l.q = q
	}
	l.id = w.ID()
	for range s.intn(3) {
		s.wg.Go(func() { l.tail(s.client()) })
	}
	recoverers := s.intn(3)
	for range recoverers {
		s.wg.Go(func() {
			s.pause(10 * time.Second)
			l.recover(s.client())
		})
	}
	n, most := 20+s.intn(1500), []time.Duration{time.Millisecond, 20 * time.Millisecond, 150 * time.Millisecond}[s.intn(3)]
	for i := 0; i < n && w.Err() == nil; i++ {
		l.mu.Lock()
		l.pushed++
		e := l.pushed
		l.mu.Unlock()
		w.Go(s.ctx, l.payload(e), l.completed)
		if s.intn(8) == 0 {
			s.pause(most)
		}
	}
	switch s.intn(3) {
	case 0:
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		if w.Close(ctx) == nil {
			l.mu.Lock()
			l.closed = true
			l.mu.Unlock()
		}
	case 1:
		if err := w.Abort(); err != nil {
			s.t.Error(err)
		}
	}
	if recoverers == 0 {
		l.recover(s.client())
	}
}

func (l *logged) completed(e bk.EntryID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed = true
	case l.failed || e != l.acked+1:
		l.s.t.Errorf("ledger %d: entry %d acknowledged after %d, failed %v", l.id, e, l.acked, l.failed)
	default:
		l.acked = e
	}
}

func (l *logged) end(r *ledger.Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, fmt.Sprintf("entry %d, %d bytes", r.LAC(), r.Length()))
}

// recover closes the ledger, however often it takes.
func (l *logged) recover(c *ledger.Client) {
	for {
		ctx, cancel := context.WithTimeout(l.s.ctx, time.Duration(1+l.s.intn(20))*time.Second)
		r, err := c.Open(ctx, l.id, ledger.Recover)
		cancel()
		if err == nil {
			l.end(r)
			return
		}
		l.s.pause(time.Second)
	}
}

// tail follows the ledger to its end.
func (l *logged) tail(c *ledger.Client) {
	s := l.s
	var r *ledger.Reader
	for r == nil {
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		r, _ = c.Open(ctx, l.id, ledger.NoRecovery) // nil then: again
		cancel()
	}
	lac := bk.InvalidEntryID
	for next := bk.EntryID(0); ; {
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(1+s.intn(int(4*time.Second))))
		var err error
		if r.LAC() > next && s.intn(2) == 0 {
			next, err = l.some(ctx, r, next)
		} else {
			var ent bk.Entry
			if ent, err = r.ReadNext(ctx, next-1); err == nil {
				l.delivered(ent, next)
				next++
			}
		}
		cancel()
		if now := r.LAC(); now < lac {
			s.t.Errorf("ledger %d: LAC went from %d to %d", l.id, lac, now)
		} else {
			lac = now
		}
		switch {
		case errors.Is(err, bk.ErrLedgerClosed):
			if next != r.LAC()+1 {
				s.t.Errorf("ledger %d: the end after %d entries, LAC %d", l.id, next, r.LAC())
			}
			l.end(r)
			return
		case errors.Is(err, bk.ErrNoSuchEntry), errors.Is(err, bk.ErrNoSuchLedger), errors.Is(err, bk.ErrCorrupt),
			errors.Is(err, bk.ErrReadPastLAC):
			s.t.Errorf("ledger %d: entry %d, confirmed, is not to be had: %v", l.id, next, err)
			return
		case err != nil:
			s.pause(100 * time.Millisecond)
		}
	}
}

// some reads a few entries at once.
func (l *logged) some(ctx context.Context, r *ledger.Reader, next bk.EntryID) (bk.EntryID, error) {
	for ent, err := range r.Entries(ctx, next, r.LAC()) {
		if err != nil {
			return next, err
		}
		l.delivered(ent, next)
		next++
		if l.s.intn(100) == 0 {
			break
		}
	}
	return next, nil
}

func (l *logged) delivered(ent bk.Entry, want bk.EntryID) {
	if ent.ID != want || !slices.Equal(ent.Payload, l.payload(want)) {
		l.s.t.Errorf("ledger %d: entry %d read as entry %d with %q", l.id, want, ent.ID, ent.Payload)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = max(l.read, want)
}

// check compares the history with the ledger as it is at the end.
func (l *logged) check(c *ledger.Client) {
	t := l.s.t
	r, err := c.Open(l.s.ctx, l.id, ledger.NoRecovery)
	require.NoError(t, err)
	require.True(t, r.Closed())
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	last := r.LAC()
	require.LessOrEqual(t, l.acked, last, "ledger %d: an acknowledged entry is lost", l.id)
	require.LessOrEqual(t, l.read, last, "ledger %d: an entry past the end was delivered", l.id)
	require.LessOrEqual(t, last, l.pushed)
	if l.closed {
		require.Equal(t, l.acked, last, "ledger %d: closed by its writer", l.id)
	}
	next, length := bk.EntryID(0), int64(0)
	for ent, err := range r.Entries(l.s.ctx, 0, last) {
		require.NoError(t, err)
		require.Equal(t, next, ent.ID)
		require.Equal(t, l.payload(next), ent.Payload)
		length += int64(len(ent.Payload))
		next++
	}
	require.Equal(t, last+1, next)
	for _, e := range l.ends {
		require.Equal(t, fmt.Sprintf("entry %d, %d bytes", last, length), e, "ledger %d", l.id)
	}
	l.checkCopies(r.Metadata(), last)
}

// checkCopies looks for the copies of each entry at the bookies that the
// metadata name.
func (l *logged) checkCopies(m *layout.LedgerMetadata, last bk.EntryID) {
	t := l.s.t
	at := map[bk.BookieID]int{}
	for i := range l.s.b.Len() {
		at[l.s.b.ID(i)] = i
	}
	for e := bk.EntryID(0); e <= last; e++ {
		seg := m.Segments[0]
		for _, s := range m.Segments {
			if s.First <= e {
				seg = s
			}
		}
		copies := 0
		for k := range l.q.Write {
			id := seg.Ensemble[(int(e)+k)%l.q.Ensemble]
			if _, status := l.s.b.Bookie(at[id]).Read(l.id, e, nil); status == bk.StatusOK {
				copies++
			}
		}
		require.GreaterOrEqual(t, copies, l.q.Ack, "ledger %d entry %d: copies where the metadata say, %v", l.id, e, m.Segments)
	}
}
