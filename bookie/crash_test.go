package bookie

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

var (
	crashSeed   = flag.Uint64("crash.seed", 1, "seed of the crash sweep")
	crashStride = flag.Int("crash.stride", defaultStride, "cut at every n-th file-system call only")
)

type entryKey struct {
	l bk.LedgerID
	e bk.EntryID
}

// acked is what a bookie has acknowledged: what it may never lose.
type acked struct {
	entries map[entryKey][]byte
	deleted map[bk.LedgerID]bool // from the metadata; the entries of those are not above
	fenced  map[bk.LedgerID]bool
	lac     map[bk.LedgerID]bk.EntryID // of explicit LACs
}

// story runs a bookie and keeps what was acknowledged.
type story struct {
	mu   sync.Mutex // guards now
	now  acked
	sent map[uint64][]byte // of the driver, and read by sinks: guarded by mu
	tag  uint64
	wg   sync.WaitGroup
}

func newStory() *story {
	return &story{now: acked{map[entryKey][]byte{}, map[bk.LedgerID]bool{}, map[bk.LedgerID]bool{}, map[bk.LedgerID]bk.EntryID{}}, sent: map[uint64][]byte{}}
}

func (s *story) AddsDone(rs []AddResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rs {
		if r.Status == bk.StatusOK {
			body := s.sent[r.Tag]
			s.now.entries[entryKey{bk.BodyLedger(body), bk.BodyEntry(body)}] = body
		}
		delete(s.sent, r.Tag)
		s.wg.Done()
	}
}

func (s *story) add(b *Bookie, flags AddFlags, bodies ...[]byte) {
	adds := make([]Add, len(bodies))
	s.mu.Lock()
	for i, body := range bodies {
		s.tag++
		s.sent[s.tag] = body
		adds[i] = Add{Ledger: bk.BodyLedger(body), Entry: bk.BodyEntry(body), MasterKey: testKey, Body: body, Flags: flags, Tag: s.tag}
	}
	s.mu.Unlock()
	s.wg.Add(len(adds))
	b.AddBatch(s, adds)
}

func (s *story) fence(b *Bookie, l bk.LedgerID) {
	if b.Fence(context.Background(), l, testKey) == bk.StatusOK {
		s.mu.Lock()
		s.now.fenced[l] = true
		s.mu.Unlock()
	}
}

func (s *story) writeLAC(b *Bookie, l bk.LedgerID, lac bk.EntryID) {
	if b.WriteLAC(context.Background(), l, testKey, testDigest.AppendLAC(nil, l, lac)) == bk.StatusOK {
		s.mu.Lock()
		s.now.lac[l] = lac
		s.mu.Unlock()
	}
}

// remove deletes a ledger from the metadata: nothing of it has to stay.
func (s *story) remove(l bk.LedgerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.deleted[l] = true
	for k := range s.now.entries {
		if k.l == l {
			delete(s.now.entries, k)
		}
	}
}

// collectOptions has the garbage collection see the metadata as they are now.
func (a acked) collectOptions(o Options) Options {
	m := &someLedgers{}
	for l := range a.deleted {
		m.remove(l)
	}
	o.Collect = CollectOptions{Ledgers: m, MajorRatio: 0.9, BytesPerSec: 1 << 40}
	return o
}

func (s *story) snapshot() acked {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := acked{map[entryKey][]byte{}, map[bk.LedgerID]bool{}, map[bk.LedgerID]bool{}, map[bk.LedgerID]bk.EntryID{}}
	for k, v := range s.now.entries {
		c.entries[k] = v
	}
	for k, v := range s.now.deleted {
		c.deleted[k] = v
	}
	for k, v := range s.now.fenced {
		c.fenced[k] = v
	}
	for k, v := range s.now.lac {
		c.lac[k] = v
	}
	return c
}

// verify compares a bookie with what was acknowledged.
func (a acked) verify(b *Bookie) error {
	for k, want := range a.entries {
		got, s := b.Read(k.l, k.e, nil)
		if s != bk.StatusOK || !bytes.Equal(got, want) {
			return fmt.Errorf("acknowledged entry %d of ledger %d: %v, %d bytes", k.e, k.l, s, len(got))
		}
		if _, s := b.Read(k.l, bk.InvalidEntryID, nil); s != bk.StatusOK {
			return fmt.Errorf("last entry of ledger %d: %v", k.l, s)
		}
	}
	for l := range a.fenced {
		if s := add(b, 0, body(l, 1_000_000, "late"))[0]; s != bk.StatusFenced {
			return fmt.Errorf("fence of ledger %d is forgotten: a plain add got %v", l, s)
		}
	}
	for l, lac := range a.lac {
		text, _, s := b.ReadLAC(l)
		if s != bk.StatusOK || text == nil {
			return fmt.Errorf("explicit LAC of ledger %d: %v", l, s)
		}
		if got, err := testDigest.VerifyLAC(text, l); err != nil || got < lac {
			return fmt.Errorf("explicit LAC of ledger %d: %d, %v; acknowledged was %d", l, got, err, lac)
		}
		if got, s := b.LAC(l); s != bk.StatusOK || got < lac {
			return fmt.Errorf("LAC of ledger %d: %d, %v; acknowledged was %d", l, got, s, lac)
		}
	}
	return nil
}

// cut is a crash at one file-system call.
type cut struct {
	n    int
	op   string
	want acked
	fs   map[string]*vfs.MemFS // by what becomes of data that was not synced
}

func crashOptions(fs vfs.FS) Options {
	o := smallOptions(fs)
	o.JournalDirs = []string{"/data/j0", "/data/j1"}
	o.LedgerDirs = []string{"/data/l0", "/data/l1"}
	o.JournalFileBytes = 64 << 10
	o.WriteCacheBytes = 96 << 10
	o.EntryLogBytes = 96 << 10
	return o
}

// crashStory adds, fences, writes explicit LACs, flushes, rolls and recycles
// journals, restarts, and does it again.
func crashStory(t *testing.T, fs vfs.FS, s *story, rng *rand.Rand) {
	next := map[bk.LedgerID]bk.EntryID{}
	lac := bk.InvalidEntryID
	for round := range 3 {
		m := &someLedgers{}
		o := s.snapshot().collectOptions(crashOptions(fs))
		o.Collect.Ledgers = m
		b := open(t, o)
		for step := range 14 {
			var batch [][]byte
			for range 1 + rng.IntN(6) {
				l := bk.LedgerID(1 + rng.IntN(8))
				e := next[l]
				next[l] += bk.EntryID(1 + rng.IntN(2)) // gaps, as in a striped ledger
				batch = append(batch, body(l, e, fmt.Sprintf("%d/%d %0*d", l, e, 1+rng.IntN(2500), e)))
			}
			if step%7 < 4 {
				gone := bk.LedgerID(200 + 2*round + step/7)
				batch = append(batch, body(gone, bk.EntryID(step), fmt.Sprintf("%0*d", 1+rng.IntN(5000), step)))
			}
			s.add(b, AddFlags(rng.IntN(2))*AddRecovery, batch...)
			switch step % 7 {
			case 2:
				lac += bk.EntryID(1 + rng.IntN(3)) // rising: a bookie keeps the last body, whatever it says
				s.writeLAC(b, bk.LedgerID(1+rng.IntN(8)), lac)
			case 3:
				s.fence(b, bk.LedgerID(1+rng.IntN(12)))
			case 5:
				s.wg.Wait()
				require.NoError(t, b.Flush())
			case 6: // all of a ledger is stored; it goes, others stay in the same logs
				s.wg.Wait()
				gone := bk.LedgerID(200 + 2*round + step/7)
				s.remove(gone)
				m.remove(gone)
				require.NoError(t, b.Flush())
				_, err := b.Collect(t.Context(), true)
				require.NoError(t, err)
			}
			if rng.IntN(2) == 0 {
				s.wg.Wait() // a group of its own
			}
		}
		s.wg.Wait()
		require.NoError(t, b.Close())
	}
}

func TestCrashSweep(t *testing.T) {
	seed := *crashSeed
	t.Logf("seed %d; replay: go test ./bookie -run TestCrashSweep -crash.seed=%d", seed, seed)
	mem := vfs.NewCrashableMem()
	s := newStory()
	cuts := make(chan cut, 4)
	var mu sync.Mutex // guards n, ops and rng
	n := 0
	ops := map[string]int{} // by operation and kind of file
	rng := rand.New(rand.NewPCG(seed, 2))
	hook := &hookFS{FS: mem, before: func(op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		ops[op+" "+path.Ext(name)]++
		if n%*crashStride != 0 {
			return nil
		}
		c := cut{n: n, op: op + " " + name, want: s.snapshot(), fs: map[string]*vfs.MemFS{}}
		c.fs["lost"] = mem.CrashClone(vfs.CrashCloneCfg{})
		c.fs["kept"] = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		c.fs["torn"] = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		cuts <- c
		return nil
	}}
	var checkers sync.WaitGroup
	var failed sync.Once
	for range 2 {
		checkers.Go(func() {
			for c := range cuts {
				for name, fs := range c.fs {
					if err := reopen(fs, c, rand.New(rand.NewPCG(seed, uint64(c.n)))); err != nil {
						failed.Do(func() { t.Errorf("cut %d, before %s, unsynced data %s: %v", c.n, c.op, name, err) })
					}
				}
			}
		})
	}
	crashStory(t, hook, s, rand.New(rand.NewPCG(seed, 1)))
	close(cuts)
	checkers.Wait()
	a := s.snapshot()
	t.Logf("%d cut points, each with unsynced data lost, kept and torn; %d entries, %d fences and %d LACs acknowledged",
		n / *crashStride, len(a.entries), len(a.fenced), len(a.lac))
	require.Greater(t, len(a.entries), 50)
	require.Greater(t, len(a.fenced), 2)
	require.NotEmpty(t, a.lac)
	for _, op := range []string{"rename .journal", "sync data .journal", "create .log", "sync data .log", "create .sst", "remove .log"} {
		require.Positive(t, ops[op], "the run must have a %q", op)
	}
}

// verifyCollected has what is not in the metadata collected: all of it goes, and
// nothing else.
func (a acked) verifyCollected(b *Bookie) error {
	if err := b.Flush(); err != nil {
		return err
	}
	if err := b.Flush(); err != nil { // what is dropped was not changed since a flush
		return err
	}
	if _, err := b.Collect(context.Background(), true); err != nil {
		return err
	}
	for l := range a.deleted {
		if _, s := b.Read(l, bk.InvalidEntryID, nil); s != bk.StatusNoLedger {
			return fmt.Errorf("deleted ledger %d after a collection: %v", l, s)
		}
	}
	for _, s := range b.shards {
		logs, err := s.logs.Logs()
		if err != nil {
			return err
		}
		for _, log := range logs {
			if s.isCurrent(log) {
				continue
			}
			live, err := s.liveIn(log)
			if err != nil {
				return err
			}
			if float64(live.bytes) < 0.9*float64(live.size) {
				return fmt.Errorf("entry log %d of %s: %d of %d bytes are live after a collection", log, s.dir, live.bytes, live.size)
			}
		}
	}
	return a.verify(b)
}

// reopen opens what a crash left and compares; at some cuts it crashes again
// after more adds, or closes and opens once more.
func reopen(fs *vfs.MemFS, c cut, rng *rand.Rand) error {
	b, err := Open(context.Background(), c.want.collectOptions(crashOptions(fs)))
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	if err := c.want.verify(b); err != nil {
		return err
	}
	if c.n%3 == 0 {
		if err := c.want.verifyCollected(b); err != nil {
			return fmt.Errorf("collected: %w", err)
		}
	}
	if c.n%5 != 0 {
		return nil
	}
	for _, l := range []bk.LedgerID{101, 102, 103} {
		e := body(l, 0, fmt.Sprintf("after the crash %0*d", rng.IntN(3000), l))
		if s := add(b, 0, e)[0]; s != bk.StatusOK {
			return fmt.Errorf("add after the crash: %v", s)
		}
		c.want.entries[entryKey{l, 0}] = e
	}
	if s := b.Fence(context.Background(), 103, testKey); s != bk.StatusOK {
		return fmt.Errorf("fence after the crash: %v", s)
	}
	again := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
	b2, err := Open(context.Background(), crashOptions(again))
	if err != nil {
		return fmt.Errorf("second crash: %w", err)
	}
	defer func() { _ = b2.Close() }()
	if err := c.want.verify(b2); err != nil {
		return fmt.Errorf("second crash: %w", err)
	}
	if s := add(b2, 0, body(103, 1, "late"))[0]; s != bk.StatusFenced {
		return fmt.Errorf("second crash: fence of ledger 103 is forgotten: %v", s)
	}
	for _, l := range []bk.LedgerID{101, 102, 103} {
		delete(c.want.entries, entryKey{l, 0})
	}
	return nil
}
