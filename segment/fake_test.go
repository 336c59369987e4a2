package segment

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// fakeLedgers are ledgers in memory that never fail by themselves.
type fakeLedgers struct {
	mu      sync.Mutex
	ledgers map[bk.LedgerID]*fakeLedger
	next    bk.LedgerID
	hold    bool // new writers hold their acknowledgements
}

type fakeLedger struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	entries [][]byte
	lac     bk.EntryID
	closed  bool
	fenced  bool
}

func newFakeLedgers() *fakeLedgers { return &fakeLedgers{ledgers: map[bk.LedgerID]*fakeLedger{}} }

func (f *fakeLedgers) ids() []bk.LedgerID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []bk.LedgerID
	for id := range f.ledgers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (f *fakeLedgers) create(ctx context.Context, q bk.Quorum, _ *placement.Policy) (bk.LedgerID, ledgerWriter, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	if err := q.Validate(); err != nil {
		return 0, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.next
	f.next++
	l := &fakeLedger{lac: bk.InvalidEntryID, changed: make(chan struct{})}
	f.ledgers[id] = l
	return id, &fakeWriter{l: l, hold: f.hold}, nil
}

func (f *fakeLedgers) get(id bk.LedgerID) *fakeLedger {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ledgers[id]
}

func (f *fakeLedgers) open(ctx context.Context, id bk.LedgerID, mode ledger.OpenMode) (ledgerReader, error) {
	l := f.get(id)
	if l == nil {
		return nil, bk.ErrNoSuchLedger
	}
	if mode == ledger.Recover {
		l.change(func() {
			if !l.closed {
				l.fenced, l.closed, l.lac = true, true, bk.EntryID(len(l.entries)-1)
			}
		})
	}
	return &fakeReader{l: l}, ctx.Err()
}

func (f *fakeLedgers) remove(ctx context.Context, id bk.LedgerID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ledgers, id)
	return ctx.Err()
}

func (l *fakeLedger) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

type fakeWriter struct {
	l    *fakeLedger
	hold bool
	held []func()
	err  error
}

func (w *fakeWriter) Go(ctx context.Context, p []byte, done func(bk.EntryID, error)) {
	if err := w.TryGo(p, done); err != nil {
		w.err = err
		done(bk.InvalidEntryID, err)
	}
}

func (w *fakeWriter) TryGo(p []byte, done func(bk.EntryID, error)) error {
	var id bk.EntryID
	w.l.change(func() {
		switch {
		case w.err != nil:
		case w.l.fenced:
			w.err = bk.ErrFenced
		case w.l.closed:
			w.err = bk.ErrLedgerClosed
		default:
			id = bk.EntryID(len(w.l.entries))
			w.l.entries = append(w.l.entries, slices.Clone(p))
		}
	})
	if w.err != nil {
		return w.err
	}
	ack := func() {
		w.l.change(func() {
			if w.l.fenced {
				w.err = bk.ErrFenced
			} else {
				w.l.lac = id
			}
		})
		if w.err != nil {
			done(bk.InvalidEntryID, w.err)
		} else {
			done(id, nil)
		}
	}
	if w.hold {
		w.held = append(w.held, ack)
	} else {
		ack()
	}
	return nil
}

func (w *fakeWriter) Err() error { return w.err }

func (w *fakeWriter) release() {
	for _, ack := range w.held {
		ack()
	}
	w.held, w.hold = nil, false
}

func (w *fakeWriter) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.release()
	var err error
	w.l.change(func() {
		if w.l.fenced {
			err = bk.ErrMetadataConflict
			return
		}
		w.l.closed = true
	})
	return err
}

func (w *fakeWriter) Abort() error {
	if w.err == nil {
		w.err = bk.ErrClosed
	}
	return nil
}

type fakeReader struct{ l *fakeLedger }

func (r *fakeReader) LAC() bk.EntryID {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.l.lac
}

func (r *fakeReader) Closed() bool {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.l.closed
}

func (r *fakeReader) Entries(ctx context.Context, first, last bk.EntryID) iter.Seq2[bk.Entry, error] {
	return func(yield func(bk.Entry, error) bool) {
		for e := first; e <= last; e++ {
			if err := ctx.Err(); err != nil {
				yield(bk.Entry{}, err)
				return
			}
			if e > r.LAC() {
				yield(bk.Entry{}, bk.ErrReadPastLAC)
				return
			}
			r.l.mu.Lock()
			p := r.l.entries[e]
			r.l.mu.Unlock()
			if !yield(bk.Entry{ID: e, Payload: p}, nil) {
				return
			}
		}
	}
}

func (r *fakeReader) ReadNext(ctx context.Context, after bk.EntryID) (bk.Entry, error) {
	for {
		r.l.mu.Lock()
		changed, lac, closed := r.l.changed, r.l.lac, r.l.closed
		if lac > after {
			p := r.l.entries[after+1]
			r.l.mu.Unlock()
			return bk.Entry{ID: after + 1, Payload: p}, nil
		}
		r.l.mu.Unlock()
		if closed {
			return bk.Entry{}, bk.ErrLedgerClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return bk.Entry{}, ctx.Err()
		}
	}
}

func (r *fakeReader) Close() error { return nil }

// lossy is a store whose transactions can lose their answers.
type lossy struct {
	metadata.Store
	mu   sync.Mutex
	txns int
	// fate is asked before each transaction, by its number from 0.
	fate func(n int, ops []metadata.Op) fate
}

type fate uint8

const (
	delivered fate = iota
	answerLost
	requestLost
)

func (s *lossy) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	s.mu.Lock()
	n := s.txns
	s.txns++
	f := s.fate
	s.mu.Unlock()
	what := delivered
	if f != nil {
		what = f(n, ops)
	}
	if what == requestLost {
		return metadata.Result{}, metadata.ErrUnknownOutcome
	}
	res, err := s.Store.Txn(ctx, ops...)
	if what == answerLost {
		return metadata.Result{}, metadata.ErrUnknownOutcome
	}
	return res, err
}

const namespacePath = "/messaging/distributedlog"

var one = stream.Quorum{Ensemble: 1, Write: 1, Ack: 1}

// world is a namespace in memory.
type world struct {
	t       testing.TB
	store   *lossy
	ledgers *fakeLedgers
	tree    *Tree
}

func newWorld(t testing.TB) *world {
	t.Helper()
	mem := memstore.New()
	t.Cleanup(func() { require.NoError(t, mem.Close()) })
	w := &world{t: t, store: &lossy{Store: mem}, ledgers: newFakeLedgers()}
	_, err := mem.Txn(t.Context(), metadata.Create(namespacePath, nil).WithParents())
	require.NoError(t, err)
	w.tree = w.client()
	return w
}

// client is another process on the same world.
func (w *world) client() *Tree {
	return &Tree{
		opts:    Options{Store: w.store, Path: namespacePath, FirstSegment: 1, ClockSkewMax: 3600e9},
		ledgers: w.ledgers, log: zap.NewNop(),
	}
}

func (w *world) stream(name string) *Stream {
	w.t.Helper()
	s, err := w.client().Stream(stream.Name(name))
	require.NoError(w.t, err)
	return s
}

func (w *world) create(name string) *Stream {
	w.t.Helper()
	s := w.stream(name)
	require.NoError(w.t, s.Create(w.t.Context()))
	return s
}

// dump gives the nodes below a key with their values, keys relative to it.
func (w *world) dump(key string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	var walk func(string)
	walk = func(k string) {
		for n, err := range metadata.Children(w.t.Context(), w.store, k, metadata.ListOptions{}) {
			require.NoError(w.t, err)
			if n.Version != 0 {
				out[strings.TrimPrefix(n.Key, key+"/")] = string(n.Value)
			}
			walk(n.Key)
		}
	}
	walk(key)
	return out
}

func claim(t testing.TB, s *Stream) *Claim {
	t.Helper()
	c, err := s.Claim(t.Context())
	require.NoError(t, err)
	return c
}

func start(t testing.TB, c *Claim, first stream.TxID) *Writer {
	t.Helper()
	a, err := c.Allocate(t.Context(), one)
	require.NoError(t, err)
	w, err := c.Start(t.Context(), a, first)
	require.NoError(t, err)
	return w
}

// rec is a record to append: user unless control is set.
type rec struct {
	txid    stream.TxID
	payload string
	control bool
}

// entry builds an entry for a writer's position.
func entry(t testing.TB, w *Writer, rs ...rec) ([]byte, record.Summary) {
	t.Helper()
	var b record.Builder
	b.Reset(stream.CompressionNone, w.Position())
	for _, r := range rs {
		if r.control {
			require.NoError(t, b.AppendControl(r.txid, record.ControlPayload))
		} else {
			require.NoError(t, b.Append(r.txid, []byte(r.payload)))
		}
	}
	p, err := b.Finish()
	require.NoError(t, err)
	return p, b.Summary()
}

// put appends one entry and waits for its acknowledgement.
func put(t testing.TB, w *Writer, rs ...rec) (int64, error) {
	t.Helper()
	p, sum := entry(t, w, rs...)
	type result struct {
		id  int64
		err error
	}
	ch := make(chan result, 1)
	w.Go(t.Context(), p, sum, func(id int64, err error) { ch <- result{id, err} })
	r := <-ch
	return r.id, r.err
}

func mustPut(t testing.TB, w *Writer, rs ...rec) int64 {
	t.Helper()
	id, err := put(t, w, rs...)
	require.NoError(t, err)
	return id
}

// records reads the stream from its first segment to what is visible: user
// records as "segment:entry:slot txid payload".
func records(t testing.TB, s *Stream) []string {
	t.Helper()
	infos, err := s.List(t.Context())
	require.NoError(t, err)
	var out []string
	for _, i := range infos {
		if i.Status == Truncated {
			continue
		}
		r, err := s.OpenReader(t.Context(), i)
		require.NoError(t, err)
		require.NoError(t, r.each(t.Context(), i.First().Entry, r.LAC(), func(v record.View) bool {
			if v.Flags.User() && !v.DLSN.Less(i.First()) {
				out = append(out, fmt.Sprintf("%v %d %s", v.DLSN, v.TxID, v.Payload))
			}
			return true
		}))
		require.NoError(t, r.Close())
	}
	return out
}

// texts gives the segments' nodes and texts, with 0 as the completion time.
func texts(t testing.TB, s *Stream) map[string]string {
	t.Helper()
	nodes, err := s.listNodes(t.Context())
	require.NoError(t, err)
	out := map[string]string{}
	for _, n := range nodes {
		text := string(n.info.text())
		if !n.info.InProgress {
			f := strings.Split(text, ";")
			f[4] = "0"
			text = strings.Join(f, ";")
		}
		out[metadata.Name(n.key)] = text
	}
	return out
}
