package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie/bk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waiter is a Waiter that a test waits for.
type waiter chan error

func (w waiter) Done(err error) { w <- err }

const testFileBytes = 64 << 10

func openJournal(t testing.TB, fs vfs.FS) *Journal {
	t.Helper()
	require.NoError(t, fs.MkdirAll("/j", 0o755))
	j, err := Open(Options{FS: fs, Dir: "/j", FileBytes: testFileBytes, QueueBytes: 1 << 20})
	require.NoError(t, err)
	return j
}

func start(t testing.TB, fs vfs.FS) *Journal {
	t.Helper()
	j := openJournal(t, fs)
	require.NoError(t, j.Replay(0, 0, func(LSN, Type, []byte) error { return nil }))
	require.NoError(t, j.Start())
	return j
}

func appendWait(t testing.TB, j *Journal, recs ...Record) {
	t.Helper()
	w := make(waiter, 1)
	require.NoError(t, j.Append(w, recs))
	require.NoError(t, <-w)
}

// record is what a replay gave.
type record struct {
	Type Type
	Body string
}

func replayAll(fs vfs.FS, from, synced LSN) ([]record, error) {
	j, err := Open(Options{FS: fs, Dir: "/j", FileBytes: testFileBytes, QueueBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	var got []record
	err = j.Replay(from, synced, func(_ LSN, t Type, body []byte) error {
		got = append(got, record{t, string(body)})
		return nil
	})
	return got, err
}

// testRecord is the n-th of a mix of adds, keys, fences and LACs.
func testRecord(n int) Record {
	b := binary.BigEndian.AppendUint64(nil, uint64(n%5))
	switch t := Type(1 + n%4); t {
	case TypeFence:
		return Record{t, b}
	default:
		return Record{t, append(b, fmt.Sprintf("record %d %0*d", n, n%300, n)...)}
	}
}

func TestReplayGivesBackWhatWasAppended(t *testing.T) {
	fs := vfs.NewMem()
	j := start(t, fs)
	var want []record
	for n := range 400 {
		r := testRecord(n)
		appendWait(t, j, r)
		want = append(want, record{r.Type, string(r.Body)})
	}
	tail := j.Tail()
	require.NoError(t, j.Close())
	got, err := replayAll(fs, 0, j.Synced())
	require.NoError(t, err)
	require.Equal(t, want, got)

	got, err = replayAll(fs, tail, j.Synced())
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestReplayFromTheMiddle(t *testing.T) {
	fs := vfs.NewMem()
	j := start(t, fs)
	var at []LSN
	for n := range 60 {
		at = append(at, j.Tail())
		appendWait(t, j, testRecord(n), testRecord(n))
	}
	require.NoError(t, j.Close())
	for n, lsn := range at {
		got, err := replayAll(fs, lsn, j.Synced())
		require.NoError(t, err)
		require.Len(t, got, 2*(60-n))
	}
}

func TestRecycledFilesAreUsedAgain(t *testing.T) {
	fs := vfs.NewMem()
	j := start(t, fs)
	for n := range 200 {
		appendWait(t, j, testRecord(n))
		if n%10 == 9 {
			require.NoError(t, j.Recycle(j.Tail()))
		}
	}
	require.LessOrEqual(t, j.Bytes(), int64(2*testFileBytes))
	from := j.Tail()
	appendWait(t, j, testRecord(1000))
	require.NoError(t, j.Close())
	names, err := fs.List("/j")
	require.NoError(t, err)
	require.LessOrEqual(t, len(names), spareMax+3)
	got, err := replayAll(fs, from, j.Synced())
	require.NoError(t, err)
	require.Equal(t, []record{{testRecord(1000).Type, string(testRecord(1000).Body)}}, got)
}

func TestGroupFormsWhileTheLastOneSyncs(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan struct{}, 10)
	fs := &faultFS{FS: vfs.NewMem(), fault: func(op, name string) error {
		if op == "sync data" {
			entered <- struct{}{}
			<-gate
		}
		return nil
	}}
	j := openJournal(t, fs)
	var mu sync.Mutex
	var groups []int
	j.o.Settled = func(ws []Waiter, g Group, err error) {
		mu.Lock()
		groups = append(groups, g.Records)
		mu.Unlock()
		for _, w := range ws {
			w.Done(err)
		}
	}
	require.NoError(t, j.Start())
	w := make(waiter, 100)
	require.NoError(t, j.Append(w, []Record{testRecord(0)}))
	<-entered
	for n := range 20 {
		require.NoError(t, j.Append(w, []Record{testRecord(n)}))
	}
	close(gate)
	for range 21 {
		require.NoError(t, <-w)
	}
	require.NoError(t, j.Close())
	require.Equal(t, []int{1, 20}, groups)
}

func TestWaitRoomIsBounded(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan struct{}, 10)
	fs := &faultFS{FS: vfs.NewMem(), fault: func(op, name string) error {
		if op == "sync data" {
			entered <- struct{}{}
			<-gate
		}
		return nil
	}}
	j := openJournal(t, fs)
	j.o.QueueBytes = 1000
	require.NoError(t, j.Start())
	w := make(waiter, 10)
	big := Record{TypeAdd, make([]byte, 900)}
	require.NoError(t, j.Append(w, []Record{big}))
	<-entered
	require.True(t, j.WaitRoom(900, time.Second), "an empty queue takes anything")
	require.NoError(t, j.Append(w, []Record{big}))
	require.False(t, j.WaitRoom(900, time.Millisecond))
	close(gate)
	require.True(t, j.WaitRoom(900, time.Minute))
	require.NoError(t, j.Close())
}

// TestR16FailedWriteOrSyncEndsTheJournal makes the journal fail at each kind of
// call: nothing is acknowledged any more, everybody is answered at once, and
// nothing is tried again.
func TestR16FailedWriteOrSyncEndsTheJournal(t *testing.T) {
	for _, op := range []string{"write at", "sync data"} {
		t.Run(op, func(t *testing.T) {
			disk := errors.New("disk error")
			var mu sync.Mutex
			armed, calls := false, 0
			fs := &faultFS{FS: vfs.NewMem()}
			fs.fault = func(o, name string) error {
				mu.Lock()
				defer mu.Unlock()
				if !armed || o != op {
					return nil
				}
				calls++
				return disk
			}
			failed := make(chan error, 2)
			j := openJournal(t, fs)
			j.o.Failed = func(err error) { failed <- err }
			require.NoError(t, j.Start())
			appendWait(t, j, testRecord(1))
			mu.Lock()
			armed = true
			mu.Unlock()
			w := make(waiter, 1000)
			n, err := 0, error(nil)
			for ; err == nil && n < 900; n++ {
				err = j.Append(w, []Record{{TypeAdd, make([]byte, 3000)}})
			}
			require.ErrorIs(t, <-failed, disk)
			require.ErrorIs(t, j.Append(w, []Record{testRecord(2)}), disk)
			require.ErrorIs(t, j.Err(), disk)
			require.NoError(t, j.Close())
			require.LessOrEqual(t, calls, 2, "a failed call must not be tried again")
			for range n - 1 {
				require.ErrorIs(t, <-w, disk)
			}
		})
	}
}

// TestR12TornTailAtEveryByte cuts a journal at every byte of its last three
// records, in four ways.
func TestR12TornTailAtEveryByte(t *testing.T) {
	fs := vfs.NewMem()
	j := start(t, fs)
	var want []record
	for n := range 50 {
		r := testRecord(n)
		if n < 47 {
			appendWait(t, j, r)
		} else if n == 47 { // the last three: one group of two, and one of one
			appendWait(t, j, r, testRecord(48))
		} else if n == 49 {
			appendWait(t, j, r)
		}
		want = append(want, record{r.Type, string(r.Body)})
	}
	require.NoError(t, j.Close())
	names := journalFiles(t, fs)
	last := names[len(names)-1]
	data := readFile(t, fs, last)
	info, err := openInfo(fs, "/j", last)
	require.NoError(t, err)
	starts, end := recordOffsets(t, data, info)
	n := len(starts)
	require.Equal(t, 3, n-max(0, n-3))
	stale := staleFile(info)
	require.Len(t, stale, len(data))

	cuts := 0
	for off := starts[n-3] - groupHeaderSize; off < end; off++ {
		if padding(data, off) && off%61 != 0 {
			continue // all cuts between two groups are alike
		}
		complete := len(want)
		for _, s := range starts[n-3:] {
			if s >= off || recordEnd(data, s) > off {
				complete--
			}
		}
		for name, tail := range map[string][]byte{"cut": nil, "zeros": make([]byte, len(data)-int(off)), "stale": stale[off:]} {
			damaged := vfs.NewMem()
			copyJournal(t, fs, damaged, last, append(append([]byte{}, data[:off]...), tail...))
			got, err := replayAll(damaged, 0, 0)
			require.NoError(t, err, "%s at %d", name, off)
			require.Equal(t, want[:complete], got, "%s at %d", name, off)
			cuts++
		}
		// Below a known sync point the same damage is corruption.
		damaged := vfs.NewMem()
		copyJournal(t, fs, damaged, last, append([]byte{}, data[:off]...))
		_, err := replayAll(damaged, 0, j.Synced())
		require.ErrorIs(t, err, bk.ErrCorrupt, "cut at %d below the sync point", off)
	}
	damaged := vfs.NewMem()
	copyJournal(t, fs, damaged, last, nil)
	_, err = replayAll(damaged, 0, 0)
	require.NoError(t, err, "a file of no length was never started")
	t.Logf("%d cuts", cuts)
}

// TestR12DamageBeforeALaterGroupIsCorruption flips each byte of a middle group.
func TestR12DamageBeforeALaterGroupIsCorruption(t *testing.T) {
	fs := vfs.NewMem()
	j := start(t, fs)
	var before int
	for n := range 9 {
		appendWait(t, j, testRecord(n), testRecord(n+1))
		if n < 4 {
			before += 2
		}
	}
	require.NoError(t, j.Close())
	name := journalFiles(t, fs)[0]
	data := readFile(t, fs, name)
	info, err := openInfo(fs, "/j", name)
	require.NoError(t, err)
	starts, _ := recordOffsets(t, data, info)
	from := starts[8] - groupHeaderSize
	for off := from; off < recordEnd(data, starts[9]); off++ {
		damaged := vfs.NewMem()
		bad := append([]byte{}, data...)
		bad[off] ^= 0x40
		copyJournal(t, fs, damaged, name, bad)
		got, err := replayAll(damaged, 0, 0)
		require.ErrorIs(t, err, bk.ErrCorrupt, "byte %d", off)
		require.GreaterOrEqual(t, len(got), before)
		require.Less(t, len(got), before+2)
		// What lies below the mark is in the entry logs: its damage is no loss.
		_, err = replayAll(damaged, info.lsn(starts[10]), 0)
		require.NoError(t, err, "byte %d, mark behind it", off)
	}
}

func TestMissingFileIsCorruption(t *testing.T) {
	fs := vfs.NewMem()
	j := start(t, fs)
	for n := range 100 {
		appendWait(t, j, testRecord(n))
	}
	require.NoError(t, j.Close())
	names := journalFiles(t, fs)
	require.Greater(t, len(names), 3)
	require.NoError(t, fs.Remove("/j/"+names[1]))
	_, err := replayAll(fs, 0, 0)
	require.ErrorIs(t, err, bk.ErrCorrupt)
	// All files of a journal that was in use are gone.
	for _, n := range names {
		if n != names[1] {
			require.NoError(t, fs.Remove("/j/"+n))
		}
	}
	_, err = replayAll(fs, 0, j.Synced())
	require.ErrorIs(t, err, bk.ErrCorrupt)
}

func TestLostHeaderIsCorruption(t *testing.T) {
	fs := vfs.NewMem()
	j := start(t, fs)
	for n := range 4 {
		appendWait(t, j, testRecord(n))
	}
	require.NoError(t, j.Close())
	name := journalFiles(t, fs)[0]
	data := readFile(t, fs, name)
	for _, off := range []int{0, 8, 17, fileHeaderSize - 1} {
		bad := append([]byte{}, data...)
		bad[off] ^= 1
		damaged := vfs.NewMem()
		copyJournal(t, fs, damaged, name, bad)
		_, err := replayAll(damaged, 0, 0)
		require.ErrorIs(t, err, bk.ErrCorrupt, "byte %d", off)
	}
}

// TestRestartsNeverUseAnLSNTwice restarts after random tears.
func TestRestartsNeverUseAnLSNTwice(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	fs := vfs.NewCrashableMem()
	var tail LSN
	require.NoError(t, fs.MkdirAll("/j", 0o755))
	for range 20 {
		j := openJournal(t, fs)
		require.NoError(t, j.Replay(0, 0, func(LSN, Type, []byte) error { return nil }))
		require.NoError(t, j.Start())
		require.Greater(t, j.Tail(), tail)
		for n := range rng.IntN(30) {
			appendWait(t, j, testRecord(n))
		}
		w := make(waiter, 1)
		require.NoError(t, j.Append(w, []Record{testRecord(1)}))
		next := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		tail = j.Tail()
		require.NoError(t, j.Close())
		fs = next
	}
}
