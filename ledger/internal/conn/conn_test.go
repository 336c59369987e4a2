package conn_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is one fake bookie behind a pool, in virtual time.
type fixture struct {
	*testing.T
	b    *fakebookie.Bookie
	pool *conn.Pool
	opts conn.Options

	mu       sync.Mutex // guards all below
	resolved []string
	dials    []time.Duration
	refuse   bool
	addr     string
	conns    []net.Conn
	wg       sync.WaitGroup
}

func (f *fixture) dial(_ context.Context, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, time.Duration(time.Now().UnixNano()))
	f.resolved = append(f.resolved, addr)
	if f.refuse {
		return nil, fakebookie.ErrRefused
	}
	client, server := net.Pipe()
	f.conns = append(f.conns, server)
	f.wg.Add(1)
	go func() {
		defer f.wg.Done()
		f.b.Serve(server)
	}()
	return client, nil
}

func (f *fixture) resolve(context.Context, bk.BookieID) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.addr == "" {
		return "", bk.ErrBookieUnavailable
	}
	return f.addr, nil
}

func (f *fixture) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// cut closes all connections.
func (f *fixture) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

func (f *fixture) dialCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.dials)
}

func run(t *testing.T, test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, b: fakebookie.New("b0:1"), addr: "b0:1"}
		f.pool = conn.NewPool(conn.Options{
			Dial: f.dial, Resolve: f.resolve, DialTimeout: 10 * time.Second, Tick: 50 * time.Millisecond,
			QueueBytes: 1 << 20, StallTimeout: 5 * time.Second, BackoffMin: 100 * time.Millisecond, BackoffMax: time.Second,
		})
		defer func() {
			f.pool.Close()
			f.cut()
			f.wg.Wait()
		}()
		test(f)
	})
}

// call sends a call and waits for its end.
func (f *fixture) call(c conn.Call) *conn.Call {
	done := make(chan *conn.Call, 1)
	c.Done = func(c *conn.Call) { done <- c }
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	f.pool.Bookie("b0:1").Start(&c)
	return <-done
}

var key = bk.MasterKey(nil)

func body(t assert.TestingT, l bk.LedgerID, e bk.EntryID) []byte {
	d, err := bk.NewDigester(bk.DigestCRC32C, nil)
	assert.NoError(t, err)
	return d.AppendEntry(nil, l, e, e-1, int64(e), fmt.Append(nil, e))
}

// sink collects the answers to adds.
type sink struct {
	mu    sync.Mutex // guards all below
	acks  []conn.Ack
	lost  []bk.EntryID
	err   error
	calls int
}

func (s *sink) AddsDone(_ *conn.Adds, acks []conn.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = append(s.acks, acks...)
	s.calls++
}

func (s *sink) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *sink) AddsLost(_ *conn.Adds, first bk.EntryID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.err = append(s.lost, first), err
}

// send queues adds of entries from (included) to to (not included).
func (f *fixture) send(a *conn.Adds, l bk.LedgerID, from, to bk.EntryID) error {
	for e := from; e < to; e++ {
		b := body(f, l, e)
		c := f.pool.Chunks().Get(wire.AddRequestOverhead + len(b))
		frame := append(wire.AppendAddRequest(c.Tail(0), 0, &key, len(b)), b...)
		err := a.Send(e, c, 0, len(frame))
		c.Release()
		if err != nil {
			return err
		}
	}
	a.Flush()
	return nil
}

func TestEveryOperation(t *testing.T) {
	run(t, func(f *fixture) {
		s := &sink{}
		a := f.pool.Bookie("b0:1").Adds(7, time.Second, s)
		require.NoError(t, f.send(a, 7, 0, 10))
		synctest.Wait()
		require.Len(t, s.acks, 10)

		c := f.call(conn.Call{Op: conn.OpRead, Ledger: 7, Entry: 3})
		require.NoError(t, c.Failure())
		require.Equal(t, body(t, 7, 3), c.Body)
		c = f.call(conn.Call{Op: conn.OpRead, Ledger: 8, Entry: 3})
		require.ErrorIs(t, c.Failure(), bk.ErrNoSuchLedger)
		c = f.call(conn.Call{Op: conn.OpBatchRead, Ledger: 7, Entry: 2, Count: 3, MaxBytes: 1 << 20})
		require.NoError(t, c.Failure())
		first, _, err := wire.NextBatchEntry(c.Body)
		require.NoError(t, err)
		require.Equal(t, body(t, 7, 2), first)
		c.Free()

		c = f.call(conn.Call{Op: conn.OpLongPoll, Ledger: 7, Entry: 8, Wait: time.Second})
		require.NoError(t, c.Failure())
		require.Equal(t, bk.InvalidEntryID, c.Answer)
		require.Equal(t, bk.EntryID(8), c.MaxLAC)
		c = f.call(conn.Call{Op: conn.OpLongPoll, Ledger: 7, Entry: 5, Wait: time.Second})
		require.Equal(t, bk.EntryID(6), c.Answer)
		require.Equal(t, body(t, 7, 6), c.Body)
		d, err := bk.NewDigester(bk.DigestCRC32C, nil)
		require.NoError(t, err)
		lac := d.AppendLAC(nil, 7, 9)
		require.NoError(t, f.call(conn.Call{Op: conn.OpWriteLAC, Ledger: 7, Entry: 9, Key: &key, Payload: lac}).Failure())
		c = f.call(conn.Call{Op: conn.OpReadLAC, Ledger: 7})
		require.Equal(t, lac, c.LACBody)
		require.Equal(t, body(t, 7, 9), c.Body)
		require.NoError(t, f.call(conn.Call{Op: conn.OpForce, Ledger: 7}).Failure())

		require.NoError(t, f.call(conn.Call{Op: conn.OpFenceRead, Ledger: 7, Entry: bk.InvalidEntryID, Key: &key}).Failure())
		require.True(t, f.b.Fenced(7))
		c = f.call(conn.Call{Op: conn.OpDeferredAdd, Ledger: 7, Entry: 10, Key: &key, Payload: body(t, 7, 10)})
		require.ErrorIs(t, c.Failure(), bk.ErrFenced)
		c = f.call(conn.Call{Op: conn.OpRecoveryAdd, Ledger: 7, Entry: 10, Key: &key, Payload: body(t, 7, 10)})
		require.NoError(t, c.Failure())
		require.Equal(t, 2, f.dialCount(), "one connection a protocol version: they do not mix at a real bookie")
	})
}

func TestEqualReadsAreAnsweredInTurn(t *testing.T) {
	run(t, func(f *fixture) {
		f.b.Put(1, key[:], body(t, 1, 0))
		done := make(chan *conn.Call, 20)
		for i := range 20 {
			f.pool.Bookie("b0:1").Start(&conn.Call{
				Op: conn.OpRead, Ledger: 1, Entry: 0, Tag: i, Timeout: time.Second, Done: func(c *conn.Call) { done <- c },
			})
		}
		for i := range 20 {
			c := <-done
			require.NoError(t, c.Failure())
			require.Equal(t, i, c.Tag)
		}
	})
}

func TestRule10NoAnswerIsATimeout(t *testing.T) {
	run(t, func(f *fixture) {
		f.b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op == wire.OpAdd && r.Entry < 3 {
				return fakebookie.Pass()
			}
			return fakebookie.Silent()
		})
		s := &sink{}
		a := f.pool.Bookie("b0:1").Adds(1, 2*time.Second, s)
		require.NoError(t, f.send(a, 1, 0, 5))
		start := time.Now()
		c := f.call(conn.Call{Op: conn.OpReadLAC, Ledger: 1, Timeout: time.Second})
		require.ErrorIs(t, c.Failure(), bk.ErrTimeout)
		require.InDelta(t, time.Second, time.Since(start), float64(100*time.Millisecond))
		require.True(t, f.pool.Bookie("b0:1").Quarantined())
		require.Empty(t, s.lost)
		c = f.call(conn.Call{Op: conn.OpRead, Ledger: 1, Entry: 4, Timeout: 1200 * time.Millisecond})
		require.ErrorIs(t, c.Failure(), bk.ErrTimeout)
		synctest.Wait()
		require.Equal(t, []bk.EntryID{3}, s.lost, "the first without an answer")
		require.ErrorIs(t, s.err, bk.ErrTimeout)
		require.Len(t, s.acks, 3)
		require.Error(t, f.send(a, 1, 5, 6), "of no more use")
		require.Equal(t, 2, f.dialCount(), "the connections stand")
	})
}

func TestRule51LossFailsAllOutstandingAtOnceAndNothingIsSentAgain(t *testing.T) {
	run(t, func(f *fixture) {
		f.b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		s := &sink{}
		a := f.pool.Bookie("b0:1").Adds(1, time.Hour, s)
		idle := &sink{}
		quiet := f.pool.Bookie("b0:1").Adds(2, time.Hour, idle)
		require.NoError(t, f.send(a, 1, 0, 50))
		done := make(chan *conn.Call, 10)
		for e := range bk.EntryID(10) {
			f.pool.Bookie("b0:1").Start(&conn.Call{
				Op: conn.OpFenceRead, Ledger: 3, Entry: e, Key: &key, Timeout: time.Hour, Done: func(c *conn.Call) { done <- c },
			})
		}
		synctest.Wait()
		start := time.Now()
		f.cut()
		for range 10 {
			require.ErrorIs(t, (<-done).Failure(), bk.ErrBookieUnavailable)
		}
		synctest.Wait()
		require.Zero(t, time.Since(start))
		require.Equal(t, []bk.EntryID{0}, s.lost)
		require.ErrorIs(t, s.err, bk.ErrBookieUnavailable)

		f.b.SetHook(nil)
		f.b.Forget()
		require.NoError(t, f.send(quiet, 2, 0, 1), "who had nothing outstanding goes on")
		synctest.Wait()
		require.Len(t, idle.acks, 1)
		require.Len(t, f.b.Seen(), 1, "no automatic resend")
	})
}

func TestRule51RedialOnNextUseWithBackoff(t *testing.T) {
	run(t, func(f *fixture) {
		f.set(func() { f.refuse = true })
		start := time.Duration(time.Now().UnixNano())
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
			c := f.call(conn.Call{Op: conn.OpReadLAC, Ledger: 1, Timeout: time.Second})
			require.ErrorIs(t, c.Failure(), bk.ErrBookieUnavailable)
			<-time.After(10 * time.Millisecond)
		}
		var at []time.Duration
		for _, d := range f.dials {
			at = append(at, (d - start).Round(50*time.Millisecond))
		}
		require.LessOrEqual(t, len(at), 16)
		require.True(t, slices.IsSorted(at))
		require.LessOrEqual(t, at[len(at)-1]-at[len(at)-2], 1100*time.Millisecond, "at most BackoffMax apart")
		f.set(func() { f.refuse = false })
		// A request in the back-off waits for the dial instead of failing.
		require.ErrorIs(t, f.call(conn.Call{Op: conn.OpReadLAC, Ledger: 1}).Failure(), bk.ErrNoSuchEntry, "it answers again")
	})
}

func TestRule50IDIsResolvedAtEveryDial(t *testing.T) {
	run(t, func(f *fixture) {
		f.set(func() { f.addr = "" })
		require.ErrorIs(t, f.call(conn.Call{Op: conn.OpReadLAC, Ledger: 1}).Failure(), bk.ErrBookieUnavailable)
		require.Zero(t, f.dialCount())
		for i := range 3 {
			f.set(func() { f.addr = fmt.Sprintf("host%d:1", i) })
			<-time.After(2 * time.Second)
			f.call(conn.Call{Op: conn.OpReadLAC, Ledger: 1})
			f.cut()
			synctest.Wait()
		}
		require.Equal(t, []string{"host0:1", "host1:1", "host2:1"}, f.resolved)
	})
}

func TestAnswersComeInBatches(t *testing.T) {
	run(t, func(f *fixture) {
		gate := make(chan struct{})
		f.b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Hold(gate) })
		s, other := &sink{}, &sink{}
		a := f.pool.Bookie("b0:1").Adds(1, time.Hour, s)
		o := f.pool.Bookie("b0:1").Adds(2, time.Hour, other)
		require.NoError(t, f.send(a, 1, 0, 100))
		require.NoError(t, f.send(o, 2, 0, 100))
		synctest.Wait()
		close(gate)
		synctest.Wait()
		for _, s := range []*sink{s, other} {
			require.Len(t, s.acks, 100)
			seen := map[bk.EntryID]bool{}
			for _, k := range s.acks {
				require.False(t, seen[k.Entry])
				seen[k.Entry] = true
			}
		}
	})
}

// A bookie that takes bytes no more: the queue is bounded, the connection is
// given up.
func TestStalledBookieIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe() // nobody reads it
		pool := conn.NewPool(conn.Options{
			Dial:        func(context.Context, string) (net.Conn, error) { return client, nil },
			Resolve:     func(context.Context, bk.BookieID) (string, error) { return "b0:1", nil },
			DialTimeout: time.Second, Tick: 50 * time.Millisecond, QueueBytes: 1 << 20, StallTimeout: 5 * time.Second,
			BackoffMin: time.Second, BackoffMax: time.Second,
		})
		defer pool.Close()
		defer server.Close()
		f := &fixture{T: t, pool: pool}
		s := &sink{}
		a := pool.Bookie("b0:1").Adds(1, time.Hour, s)
		var err error
		sent := bk.EntryID(0)
		for err == nil && sent < 100_000 {
			synctest.Wait()
			err = f.send(a, 1, sent, sent+1000)
			sent += 1000
		}
		require.ErrorIs(t, err, bk.ErrTooManyRequests)
		<-time.After(6 * time.Second)
		synctest.Wait()
		require.Equal(t, []bk.EntryID{0}, s.lost)
		require.ErrorIs(t, s.err, bk.ErrBookieUnavailable)
	})
}

// What a queue holds on to counts, not what it sends: a small add may keep a
// whole chunk alive.
func TestQueueIsBoundedByTheMemoryItHolds(t *testing.T) {
	run(t, func(f *fixture) {
		gate := make(chan struct{})
		defer close(gate)
		f.b.SetHook(func(fakebookie.Request) fakebookie.Verdict { <-gate; return fakebookie.Pass() })
		n := 0
		for l := bk.LedgerID(1); l < 10_000; l++ {
			if f.send(f.pool.Bookie("b0:1").Adds(l, time.Hour, &sink{}), l, 0, 1) != nil {
				break
			}
			synctest.Wait()
			n++
		}
		require.Less(t, n, (1<<20)/conn.ChunkSizes[0]+10)
		require.Greater(t, n, 100)
	})
}

// A path that broke without a word: what is overdue fails, and the next request
// goes over a new connection.
func TestSilentConnectionIsGivenUp(t *testing.T) {
	run(t, func(f *fixture) {
		f.b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		s := &sink{}
		require.NoError(t, f.send(f.pool.Bookie("b0:1").Adds(1, time.Second, s), 1, 0, 3))
		require.ErrorIs(t, f.call(conn.Call{Op: conn.OpRead, Ledger: 1, Timeout: 2 * time.Second}).Err, bk.ErrTimeout)
		require.ErrorIs(t, s.cause(), bk.ErrTimeout)
		f.b.SetHook(nil)
		require.NoError(t, f.send(f.pool.Bookie("b0:1").Adds(1, time.Second, s), 1, 3, 4))
		synctest.Wait()
		require.Len(t, s.acks, 1)
		require.Equal(t, 2, f.dialCount(), "the first connection is gone")
	})
}

// A bookie that is slow with one request and answers others keeps its
// connection.
func TestSlowRequestKeepsTheConnection(t *testing.T) {
	run(t, func(f *fixture) {
		f.b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Ledger == 1 {
				return fakebookie.Silent()
			}
			return fakebookie.Pass()
		})
		done := make(chan *conn.Call, 1)
		f.pool.Bookie("b0:1").Start(&conn.Call{Op: conn.OpRead, Ledger: 1, Timeout: time.Second, Done: func(c *conn.Call) { done <- c }})
		<-time.After(500 * time.Millisecond)
		require.NoError(t, f.call(conn.Call{Op: conn.OpRead, Ledger: 2}).Err)
		require.ErrorIs(t, (<-done).Err, bk.ErrTimeout)
		require.NoError(t, f.call(conn.Call{Op: conn.OpRead, Ledger: 2}).Err)
		require.Equal(t, 1, f.dialCount())
	})
}

func TestClosedPoolRefuses(t *testing.T) {
	run(t, func(f *fixture) {
		f.b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		done := make(chan *conn.Call, 1)
		f.pool.Bookie("b0:1").Start(&conn.Call{
			Op: conn.OpReadLAC, Ledger: 1, Timeout: time.Hour, Done: func(c *conn.Call) { done <- c },
		})
		synctest.Wait()
		f.pool.Close()
		require.Error(t, (<-done).Failure())
		require.ErrorIs(t, f.call(conn.Call{Op: conn.OpReadLAC, Ledger: 1}).Failure(), bk.ErrClosed)
		require.ErrorIs(t, f.send(f.pool.Bookie("b1:1").Adds(1, time.Hour, &sink{}), 1, 0, 1), bk.ErrClosed)
	})
}

// Garbage from a bookie costs the connection and nothing else.
func TestGarbageAnswersCloseTheConnection(t *testing.T) {
	for name, garbage := range map[string][]byte{
		"length 0": {0, 0, 0, 0}, "length 2^31-1": {0x7f, 0xff, 0xff, 0xff}, "unknown op": {0, 0, 0, 4, 2, 99, 0, 0},
		"short add answer": {0, 0, 0, 6, 2, 1, 0, 0, 0, 0}, "HTTP": []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				pool := conn.NewPool(conn.Options{
					Dial:        func(context.Context, string) (net.Conn, error) { return client, nil },
					Resolve:     func(context.Context, bk.BookieID) (string, error) { return "b0:1", nil },
					DialTimeout: time.Second, Tick: 50 * time.Millisecond, QueueBytes: 1 << 20, StallTimeout: 5 * time.Second,
					BackoffMin: time.Second, BackoffMax: time.Second,
				})
				defer pool.Close()
				defer server.Close()
				f := &fixture{T: t, pool: pool}
				go func() {
					buf := make([]byte, 1024)
					server.Read(buf) //nolint:errcheck // whatever comes
					server.Write(garbage)
				}()
				start := time.Now()
				c := f.call(conn.Call{Op: conn.OpRead, Ledger: 1, Entry: 0, Timeout: time.Hour})
				require.ErrorIs(t, c.Failure(), bk.ErrBookieUnavailable)
				require.Zero(t, time.Since(start))
			})
		})
	}
}
