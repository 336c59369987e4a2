//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/cmd/internal/javapeer"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata/layout"
)

// digests are Java's names.
var digests = map[string]bk.DigestType{
	"CRC32": bk.DigestCRC32, "CRC32C": bk.DigestCRC32C, "MAC": bk.DigestHMAC, "DUMMY": bk.DigestDummy,
}

func digestName(d bk.DigestType) string {
	for name, x := range digests {
		if x == d {
			return name
		}
	}
	return d.String()
}

func (l *library) client(ctx context.Context, r *request) (any, error) {
	c, err := ledger.Connect(ctx, r.URI, func(o *ledger.Options) {
		// a busy machine is no fault
		o.AddTimeout, o.ReadTimeout = 30*time.Second, 30*time.Second
	})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next()
	l.clients[id] = c
	return id, nil
}

func (l *library) create(ctx context.Context, r *request) (any, error) {
	opts := []ledger.CreateOption{ledger.WithDigest(digests[r.Digest]), ledger.WithPassword([]byte(r.Password))}
	if r.Custom != nil {
		custom := map[string][]byte{}
		for k, v := range r.Custom {
			custom[k] = []byte(v)
		}
		opts = append(opts, ledger.WithCustomMetadata(custom))
	}
	if r.Deferred {
		opts = append(opts, ledger.WithDeferredSync())
	}
	if r.Ledger != nil {
		opts = append(opts, ledger.WithLedgerID(bk.LedgerID(*r.Ledger)))
	}
	w, err := l.makeWriter(ctx, r, opts)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	id := l.next()
	l.writers[id] = w
	l.mu.Unlock()
	return l.state(&request{Handle: id})
}

func (l *library) makeWriter(ctx context.Context, r *request, opts []ledger.CreateOption) (writer, error) {
	q := bk.Quorum{Ensemble: r.Ensemble, Write: r.Write, Ack: r.Ack}
	if r.Advanced {
		w, err := l.clientOf(r).CreateAdvanced(ctx, q, opts...)
		if err != nil {
			return nil, err // not an interface that holds nil
		}
		return w, nil
	}
	w, err := l.clientOf(r).Create(ctx, q, opts...)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (l *library) open(ctx context.Context, r *request) (any, error) {
	mode := ledger.NoRecovery
	if r.Recover {
		mode = ledger.Recover
	}
	rd, err := l.clientOf(r).Open(ctx, bk.LedgerID(*r.Ledger), mode,
		ledger.WithOpenPassword([]byte(r.Password)), ledger.WithOpenDigest(digests[r.Digest]))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	id := l.next()
	l.readers[id] = rd
	l.mu.Unlock()
	return l.state(&request{Handle: id})
}

func (l *library) state(r *request) (any, error) {
	if w := l.writerOf(r); w != nil {
		return ledgerState{r.Handle, int64(w.ID()), int64(w.LAC()), false, w.Length()}, nil
	}
	rd := l.readerOf(r)
	if rd == nil {
		return nil, fmt.Errorf("no handle %d", r.Handle)
	}
	return ledgerState{r.Handle, int64(rd.ID()), int64(rd.LAC()), rd.Closed(), rd.Length()}, nil
}

// appendAll is pipelined appends, one of each size, from index on.
func appendAll(ctx context.Context, w *ledger.Writer, r *request) (any, error) {
	ids := make([]int64, 0, len(r.Sizes))
	done := make(chan error, len(r.Sizes)) // a slot for each: callbacks never wait
	for i, size := range r.Sizes {
		w.Go(ctx, payload(r.Seed, r.Index+int64(i), size), func(e bk.EntryID, err error) {
			ids = append(ids, int64(e)) // callbacks run one at a time
			done <- err
		})
	}
	for range r.Sizes {
		if err := <-done; err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// writeAll gives entries under the ids asked for, all at once, in that order.
func writeAll(ctx context.Context, w *ledger.AdvancedWriter, r *request) (any, error) {
	done := make(chan error, len(r.IDs))
	for _, id := range r.IDs {
		w.Go(ctx, bk.EntryID(id), payload(r.Seed, id, r.Size), func(e bk.EntryID, err error) {
			if err == nil && int64(e) != id {
				err = fmt.Errorf("entry %d got id %d", id, e)
			}
			done <- err
		})
	}
	for range r.IDs {
		if err := <-done; err != nil {
			return nil, err
		}
	}
	return r.IDs, nil
}

func readAll(ctx context.Context, rd *ledger.Reader, r *request) (any, error) {
	out := []entry{}
	entries := rd.Entries
	if r.Unconfirmed {
		entries = rd.EntriesUnconfirmed
	}
	for e, err := range entries(ctx, bk.EntryID(r.First), bk.EntryID(r.Last)) {
		if err != nil {
			return nil, err
		}
		out = append(out, entry{int64(e.ID), len(e.Payload), sum(e.Payload)})
	}
	return out, nil
}

func poll(ctx context.Context, rd *ledger.Reader, r *request) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.TimeoutMillis)*time.Millisecond)
	defer cancel()
	e, err := rd.ReadNext(ctx, bk.EntryID(r.Entry-1))
	if errors.Is(err, context.DeadlineExceeded) {
		return polled{LAC: int64(rd.LAC())}, nil
	}
	if err != nil {
		return nil, err
	}
	return polled{int64(rd.LAC()), &entry{int64(e.ID), len(e.Payload), sum(e.Payload)}}, nil
}

func (l *library) metadata(ctx context.Context, r *request) (any, error) {
	m, err := l.clientOf(r).Metadata(ctx, bk.LedgerID(*r.Ledger))
	if err != nil {
		return nil, err
	}
	v := metadataView{
		Format: m.FormatVersion, Ensemble: m.Quorum.Ensemble, Write: m.Quorum.Write, Ack: m.Quorum.Ack, Last: -1,
		State: map[layout.State]string{layout.StateOpen: "OPEN", layout.StateInRecovery: "IN_RECOVERY", layout.StateClosed: "CLOSED"}[m.State],
	}
	if m.State == layout.StateClosed {
		v.Last, v.Length = int64(m.LastEntry), m.Length
	}
	if m.HasPassword {
		v.Digest, v.Password = digestName(m.Digest), string(m.Password)
	}
	v.Custom = map[string]string{}
	for k, x := range m.Custom {
		v.Custom[k] = string(x)
	}
	for _, s := range m.Segments {
		view := segmentView{First: int64(s.First)}
		for _, b := range s.Ensemble {
			view.Bookies = append(view.Bookies, string(b))
		}
		v.Segments = append(v.Segments, view)
	}
	return v, nil
}

// setPassword changes the password in a ledger's metadata behind the back of its
// writer, so that clients come to the bookies with another key than they know.
func (l *library) setPassword(ctx context.Context, r *request) error {
	cluster := l.clientOf(r).Cluster()
	m, v, err := cluster.Ledger(ctx, bk.LedgerID(*r.Ledger))
	if err != nil {
		return err
	}
	m = m.Clone()
	m.Password = []byte(r.Password)
	_, err = cluster.UpdateLedger(ctx, bk.LedgerID(*r.Ledger), m, v)
	return err
}

func (l *library) ledgers(ctx context.Context, r *request) (any, error) {
	ids := []int64{}
	for id, err := range l.clientOf(r).List(ctx) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, int64(id))
	}
	return ids, nil
}

// ask sends one request of version 3 to a bookie by its id.
func (l *library) ask(ctx context.Context, r *request, id bk.BookieID, m *bkpb.Request) (*bkpb.Response, error) {
	addr, err := l.clientOf(r).Cluster().Resolve(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return nil, err
	}
	answer, err := javapeer.Ask(c, m)
	if err != nil {
		return nil, err
	}
	if s := answer.GetStatus(); s != bkpb.StatusCode_EOK {
		return nil, fmt.Errorf("bookie %s answers %v", id, s)
	}
	return answer, nil
}

func (l *library) bookieInfo(ctx context.Context, r *request) (any, error) {
	bookies, err := l.clientOf(r).Cluster().Bookies(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][2]int64{}
	for _, id := range bookies.Writable {
		a, err := l.ask(ctx, r, id, &bkpb.Request{
			Header:               wire.V3Header(wire.OpGetBookieInfo, 1, 0),
			GetBookieInfoRequest: &bkpb.GetBookieInfoRequest{Requested: proto.Int64(3)},
		})
		if err != nil {
			return nil, err
		}
		out[string(id)] = [2]int64{a.GetGetBookieInfoResponse().GetTotalDiskCapacity(), a.GetGetBookieInfoResponse().GetFreeDiskSpace()}
	}
	return out, nil
}

func (l *library) entries(ctx context.Context, r *request) (any, error) {
	a, err := l.ask(ctx, r, bk.BookieID(r.Bookie), &bkpb.Request{
		Header:                          wire.V3Header(wire.OpListEntries, 1, 0),
		GetListOfEntriesOfLedgerRequest: &bkpb.GetListOfEntriesOfLedgerRequest{LedgerId: r.Ledger},
	})
	if err != nil {
		return nil, err
	}
	known, err := wire.DecodeAvailability(a.GetGetListOfEntriesOfLedgerResponse().GetAvailabilityOfEntriesOfLedger())
	if err != nil {
		return nil, err
	}
	ids := []int64{}
	for e := range known.All() {
		ids = append(ids, int64(e))
	}
	return ids, nil
}

// appends is a stream of appends, the counterpart of java/Stream.java.
type appends struct {
	w    *ledger.Writer
	r    request
	free chan struct{} // a token for each call in flight
	stop chan struct{}
	over chan struct{} // closed when nothing is in flight any more

	mu   sync.Mutex // guards what follows
	p    progress
	once sync.Once // closes stop
}

func newAppends(w *ledger.Writer, r *request) *appends {
	return &appends{w: w, r: *r, free: make(chan struct{}, r.Window), stop: make(chan struct{}), over: make(chan struct{})}
}

func (s *appends) run() {
	defer close(s.over)
	for i := int64(0); ; i++ {
		select {
		case <-s.stop:
			for range s.r.Window {
				s.free <- struct{}{}
			}
			return
		case s.free <- struct{}{}:
			s.w.Go(context.Background(), payload(s.r.Seed, i, s.r.Size), func(e bk.EntryID, err error) {
				s.done(i, e, err)
				<-s.free
			})
		}
	}
}

func (s *appends) done(i int64, e bk.EntryID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && int64(e) == i && s.p.Acked == i && s.p.Error == "":
		s.p.Acked++
		return
	case s.p.Error != "":
	case err != nil:
		s.p.Code, s.p.Error = javaCode(err), err.Error()
	default:
		s.p.Error = fmt.Sprintf("entry %d got id %d after %d in order", i, e, s.p.Acked)
	}
	s.once.Do(func() { close(s.stop) })
}

func (s *appends) progress() progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

func (s *appends) finish() progress {
	s.once.Do(func() { close(s.stop) })
	<-s.over
	return s.progress()
}
