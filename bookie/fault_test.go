package bookie

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

var faultStride = flag.Int("fault.stride", 2+2*defaultStride, "fail every n-th file-system call only")

var faultCall = flag.Int("fault.call", 0, "fail this file-system call only, 0: each in turn")

// faultStory is a short life of a bookie that may fail anywhere: every result
// counts as it comes.
func faultStory(b *Bookie, s *story, base bk.LedgerID, rng *rand.Rand) (flushErrs []error) {
	next := map[bk.LedgerID]bk.EntryID{}
	for step := range 12 {
		var batch [][]byte
		for range 1 + rng.IntN(4) {
			l := base + bk.LedgerID(1+rng.IntN(5))
			batch = append(batch, body(l, next[l], fmt.Sprintf("%d/%d %0*d", l, next[l], 1+rng.IntN(5000), step)))
			next[l]++
		}
		s.add(b, AddFlags(rng.IntN(2))*(AddRecovery|AddHighPriority), batch...)
		switch step {
		case 2, 8:
			s.writeLAC(b, base+2, bk.EntryID(step))
		case 3, 9:
			s.fence(b, base+bk.LedgerID(step/2))
		case 4, 7, 10:
			s.wg.Wait()
			flushErrs = append(flushErrs, b.Flush())
		}
		s.wg.Wait()
	}
	return flushErrs
}

// failOnce runs the story over mem with the n-th call failing; it tells how
// many calls there were, and which one failed.
func failOnce(t *testing.T, n int) (calls int, failed string) {
	const seed = 3
	var mu sync.Mutex // guards calls and failed
	mem := vfs.NewCrashableMem()
	hook := &hookFS{FS: mem, before: func(op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == n {
			failed = op + " " + name
			return &vfsError{op, name, syscall.EIO}
		}
		return nil
	}}
	s := newStory()
	check := func(fs vfs.FS, what string, want acked) {
		t.Helper()
		b, err := Open(t.Context(), crashOptions(fs))
		require.NoError(t, err, what)
		require.NoError(t, want.verify(b), what)
		require.NoError(t, b.Close(), what)
	}
	for life := range 2 {
		b, err := Open(t.Context(), crashOptions(hook))
		if err != nil {
			require.ErrorIs(t, err, syscall.EIO)
			continue // the operator starts it again
		}
		flushErrs := faultStory(b, s, bk.LedgerID(10*life), rand.New(rand.NewPCG(seed, uint64(life))))
		want := s.snapshot()
		for k, v := range want.entries {
			got, status := b.Read(k.l, k.e, nil)
			require.Equal(t, bk.StatusOK, status)
			require.Equal(t, v, got)
		}
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		lost := mem.CrashClone(vfs.CrashCloneCfg{})
		torn := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		for b.State() == ReadOnly { // a retry is due within a second
			<-time.After(10 * time.Millisecond)
		}
		mu.Lock()
		over := failed != ""
		mu.Unlock()
		if state := b.State(); state != Writable {
			require.Equal(t, Failed, state, "one error passes, or is final")
		} else if got := add(b, 0, body(bk.LedgerID(500+life), 0, "goes on"))[0]; over {
			require.Equal(t, bk.StatusOK, got)
		}
		closeErr := b.Close()
		for _, err := range append(flushErrs, closeErr) {
			if err != nil && n == 0 {
				t.Fatal(err)
			}
		}
		if n%2 == life { // each call with one of the two, to save time
			check(lost, "crash, unsynced data lost", want)
			check(torn, "crash, unsynced data torn", want)
		}
	}
	check(mem, "after Close", s.snapshot())
	return calls, failed
}

// TestEIOAtEveryCall fails each file-system call once: the bookie goes on, or
// fails for good, or does not open; what it acknowledged is there whatever
// comes next, and nothing hangs.
func TestEIOAtEveryCall(t *testing.T) {
	first, last := *faultCall, *faultCall
	if last == 0 {
		last, _ = failOnce(t, 0)
		first = 1 + int(*crashSeed)%*faultStride
	}
	ops := map[string]int{}
	for n := first; n <= last; n += *faultStride {
		failed := ""
		ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
			_, failed = failOnce(t, n)
		})
		if !ok {
			t.Fatalf("call %d, %s; replay: go test ./bookie -run TestEIOAtEveryCall -fault.call=%d", n, failed, n)
		}
		ops[failed]++
	}
	t.Logf("every %d-th of %d calls failed, each once, at %d places", *faultStride, last, len(ops))
	if *faultCall == 0 {
		require.Greater(t, len(ops), 10)
	}
}
