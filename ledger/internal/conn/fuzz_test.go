package conn_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/ledger/internal/conn"
)

// scripted is a connection whose peer says what the fuzzer made up, once all
// requests wait, and then hangs up.
type scripted struct {
	net.Conn
	answers map[bool][]byte // by whether it speaks version 3
	ready   <-chan struct{}
	spoke   chan struct{} // closed by the first write
	once    sync.Once
	v3      bool
	in      *bytes.Reader
	closed  chan struct{}
	ended   sync.Once
}

func (c *scripted) Write(p []byte) (int, error) {
	c.once.Do(func() {
		c.v3 = wire.IsV3(p[wire.LengthSize:])
		close(c.spoke)
	})
	return len(p), nil
}

func (c *scripted) Read(p []byte) (int, error) {
	for _, wait := range []<-chan struct{}{c.ready, c.spoke} {
		select {
		case <-wait:
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	if c.in == nil {
		c.in = bytes.NewReader(c.answers[c.v3])
	}
	return c.in.Read(p)
}

func (c *scripted) Close() error {
	c.ended.Do(func() { close(c.closed) })
	return nil
}

// ends counts how often each add of entries 0.. came back.
type ends struct {
	mu   sync.Mutex
	acks map[bk.EntryID]int
	lost chan struct{}
}

func (s *ends) AddsDone(_ *conn.Adds, acks []conn.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range acks {
		s.acks[a.Entry]++
	}
}

func (s *ends) AddsLost(*conn.Adds, bk.EntryID, error) { close(s.lost) }

// Whatever a bookie answers, on a connection of either version: nothing
// panics, each request comes back exactly once, and no add is acknowledged
// twice.
func FuzzReceive(f *testing.F) {
	for _, s := range receiveSeeds(f) {
		f.Add(s.v3, s.stream)
	}
	f.Fuzz(func(t *testing.T, v3 bool, stream []byte) {
		ready := make(chan struct{})
		pool := conn.NewPool(conn.Options{
			Dial: func(context.Context, string) (net.Conn, error) {
				return &scripted{
					answers: map[bool][]byte{v3: stream}, ready: ready,
					spoke: make(chan struct{}), closed: make(chan struct{}),
				}, nil
			},
			Resolve:     func(context.Context, bk.BookieID) (string, error) { return "b0:1", nil },
			DialTimeout: time.Minute, Tick: time.Second, QueueBytes: 1 << 20,
			StallTimeout: time.Minute, BackoffMin: time.Minute, BackoffMax: time.Minute,
		})
		defer pool.Close()
		b := pool.Bookie("b0:1")
		calls := receiveCalls()
		ended := make([]atomic.Int32, len(calls))
		var wg sync.WaitGroup
		for i := range calls {
			calls[i].Timeout = time.Minute
			wg.Add(1)
			calls[i].Done = func(*conn.Call) {
				if ended[i].Add(1) == 1 {
					wg.Done()
				}
			}
			b.Start(&calls[i])
		}
		sink := &ends{acks: map[bk.EntryID]int{}, lost: make(chan struct{})}
		adds := b.Adds(1, time.Minute, sink)
		chunk := pool.Chunks().Get(64)
		defer chunk.Release()
		for e := range bk.EntryID(4) {
			if err := adds.Send(e, chunk, 0, 64); err != nil {
				t.Fatal(err)
			}
		}
		adds.Flush()
		close(ready)
		wg.Wait()
		pool.Close()
		checkReceived(t, calls, ended, sink)
	})
}

func checkReceived(t *testing.T, calls []conn.Call, ended []atomic.Int32, sink *ends) {
	for i := range calls {
		c := &calls[i]
		if n := ended[i].Load(); n != 1 {
			t.Fatalf("%s came back %d times", c.Op, n)
		}
		for rest := c.Body; c.Op == conn.OpBatchRead && len(rest) > 0; {
			var err error
			if _, rest, err = wire.NextBatchEntry(rest); err != nil {
				break
			}
		}
		c.Free()
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for e, n := range sink.acks {
		if n > 1 || e < 0 || e > 3 {
			t.Fatalf("add %d acknowledged %d times", e, n)
		}
	}
	if len(sink.acks) == 4 {
		return
	}
	select { // the connection ended with some outstanding
	case <-sink.lost:
	default:
		t.Fatalf("%d of 4 adds acknowledged, the rest not told lost", len(sink.acks))
	}
}

// receiveCalls have the ids 1, 2, ... in this order.
func receiveCalls() []conn.Call {
	return []conn.Call{
		{Op: conn.OpRead, Ledger: 1, Entry: 1},
		{Op: conn.OpRead, Ledger: 1, Entry: bk.InvalidEntryID},
		{Op: conn.OpBatchRead, Ledger: 1, Entry: 1, Count: 2, MaxBytes: 1000},
		{Op: conn.OpFenceRead, Ledger: 1, Entry: bk.InvalidEntryID, Key: &key},
		{Op: conn.OpRecoveryAdd, Ledger: 1, Entry: 1, Key: &key, Payload: make([]byte, 36)},
		{Op: conn.OpLongPoll, Ledger: 1, Entry: 0, Wait: time.Second},
		{Op: conn.OpReadLAC, Ledger: 1},
		{Op: conn.OpWriteLAC, Ledger: 1, Entry: 1, Key: &key, Payload: make([]byte, 20)},
		{Op: conn.OpForce, Ledger: 1},
	}
}

type receiveSeed struct {
	v3     bool
	stream []byte
}

func receiveSeeds(f *testing.F) []receiveSeed {
	b := body(f, 1, 1)
	var v2 []byte
	for e := range bk.EntryID(4) {
		v2 = wire.AppendAddAnswer(v2, wire.V2Version, bk.StatusOK, 1, e)
	}
	v2 = append(wire.AppendReadAnswer(v2, wire.V2Version, bk.StatusOK, 1, 1, len(b)), b...)
	v2 = wire.AppendReadAnswer(v2, wire.V2Version, bk.StatusNoEntry, 1, -1, 0)
	v2 = wire.AppendBatchReadAnswer(v2, wire.V2Version, bk.StatusOK, 1, 1, 3, len(b)+wire.BatchEntryOverhead)
	v2 = append(wire.AppendBatchEntry(v2, len(b)), b...)

	ok, one, last := bkpb.StatusCode_EOK.Enum(), proto.Int64(1), proto.Int64(-1)
	var v3 []byte
	for _, m := range []*bkpb.Response{
		{Header: wire.V3Header(wire.OpRead, 4, 0), ReadResponse: &bkpb.ReadResponse{Status: ok, LedgerId: one, EntryId: last, Body: b}},
		{Header: wire.V3Header(wire.OpAdd, 5, 0), AddResponse: &bkpb.AddResponse{Status: ok, LedgerId: one, EntryId: one}},
		{Header: wire.V3Header(wire.OpRead, 6, 0), ReadResponse: &bkpb.ReadResponse{Status: ok, LedgerId: one, EntryId: one, Body: b, MaxLac: one}},
		{Header: wire.V3Header(wire.OpReadLAC, 7, 0), ReadLacResponse: &bkpb.ReadLacResponse{Status: ok, LedgerId: one, LacBody: make([]byte, 20), LastEntryBody: b}},
		{Header: wire.V3Header(wire.OpWriteLAC, 8, 0), WriteLacResponse: &bkpb.WriteLacResponse{Status: ok, LedgerId: one}},
		{Header: wire.V3Header(wire.OpForce, 9, 0), ForceLedgerResponse: &bkpb.ForceLedgerResponse{Status: ok, LedgerId: one}},
	} {
		m.Status = ok
		v3 = append(v3, v3Answer(f, m)...)
	}
	return []receiveSeed{
		{false, v2}, {true, v3}, {true, v2}, {false, v3}, {false, nil}, {true, []byte{0, 0, 0, 0}},
		{false, append(bytes.Clone(v2[:100]), 0xff, 0xff, 0xff, 0xff)}, {true, v3[:len(v3)-3]},
	}
}

var _ io.Reader = (*scripted)(nil)
