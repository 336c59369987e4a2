package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/loglode/loglode/proxy/internal/owner"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// owned is a stream that this proxy owns or was asked to. A goroutine runs it
// while its queue is not empty; what that goroutine alone uses has no mutex.
type owned struct {
	p      *Proxy
	name   stream.Name
	calls  *rate.Limiter // nil = no limit
	weight *rate.Limiter

	mu      sync.Mutex // guards the fields below
	queue   []*op
	queued  int64              // payload bytes in queue
	running bool               // run is running
	removed bool               // not in the table any more: submit refuses
	closing bool               // let go cleanly, then leave the table
	lost    bool               // the lease is lost, or the proxy is killed: let go at once
	cancel  context.CancelFunc // ends ctx
	used    time.Time
	binds   map[string]*bind // by producer
	last    stream.DLSN      // of the last record acknowledged or recovered
	doubt   bool             // records may be in the stream that last does not know: recover

	active atomic.Bool // the stream is owned now
	epoch  atomic.Int64

	// Of the running goroutine:
	w     appender
	claim *owner.Claim
	lease *owner.Lease
	ctx   context.Context   // of the ownership
	taken *owner.TakenError // who owned it when we asked last
	until time.Time         // how long taken is believed
}

// errRemoved: the stream left the table between look-up and submit.
var errRemoved = errors.New("stream left the table")

// submit queues an op.
func (s *owned) submit(o *op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed {
		return errRemoved
	}
	if s.closing {
		if s.p.status.Load() == int32(wire.Down) {
			return status(wire.ServiceUnavailable, "proxy is leaving")
		}
		s.closing = false // it was closed for being idle
	}
	if s.queued > 0 && s.queued+o.bytes > s.p.o.Limits.QueueBytes {
		return status(wire.OverCapacity, "%d bytes wait for stream %s", s.queued, s.name)
	}
	if o.append {
		if err := s.allow(o); err != nil {
			return err
		}
	}
	s.used = time.Now()
	s.queue = append(s.queue, o)
	s.queued += o.bytes
	s.rouse()
	return nil
}

// allow charges an append to the stream's rate limits. Called with s.mu held.
func (s *owned) allow(o *op) error {
	now := time.Now()
	if s.calls != nil && !s.calls.AllowN(now, 1) {
		return status(wire.OverCapacity, "RPS limit exceeded for stream %s", s.name)
	}
	if s.weight != nil && !s.weight.AllowN(now, int(o.bytes)) {
		return status(wire.OverCapacity, "BPS limit exceeded for stream %s", s.name)
	}
	return nil
}

// rouse starts the goroutine if it does not run. Called with s.mu held.
func (s *owned) rouse() {
	if !s.running {
		s.running = true
		s.p.wg.Go(s.run)
	}
}

// close lets the stream go once its queue is done, and takes it off the table.
func (s *owned) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.removed {
		s.closing = true
		s.rouse()
	}
}

// lose lets the stream go at once: what is in flight fails.
func (s *owned) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	s.lost = true
	s.rouse()
}

// run carries out the queue.
func (s *owned) run() {
	for {
		s.mu.Lock()
		if s.lost {
			s.lost = false
			s.mu.Unlock()
			s.letGo(false, owner.ErrLost)
			continue
		}
		if len(s.queue) == 0 {
			if s.closing && !s.removed {
				s.removed = true
				s.mu.Unlock()
				s.letGo(true, nil)
				s.p.remove(s)
				s.mu.Lock()
			}
			s.running = false
			s.mu.Unlock()
			return
		}
		o := s.queue[0]
		s.queue[0] = nil
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
		s.queued -= o.bytes
		s.mu.Unlock()
		s.exec(o)
	}
}

// expire refuses what has waited in the queue too long.
func (s *owned) expire(now time.Time) {
	s.mu.Lock()
	var late []*op
	keep := s.queue[:0:0]
	for _, o := range s.queue {
		if now.After(o.deadline) {
			late = append(late, o)
			s.queued -= o.bytes
			s.poison(o)
		} else {
			keep = append(keep, o)
		}
	}
	if len(late) > 0 {
		s.queue = keep
	}
	s.mu.Unlock()
	for _, o := range late {
		o.reply(status(wire.WriteCancelled, "not carried out in time"))
	}
}

// exec carries out one op.
func (s *owned) exec(o *op) {
	s.dropDead()
	if time.Now().After(o.deadline) {
		s.refuse(o, status(wire.WriteCancelled, "not carried out in time"))
		return
	}
	ctx, cancel := context.WithDeadline(s.p.ctx, o.deadline)
	defer cancel()
	if o.lease != s.p.lease.Load() {
		// It came by a connection that did not outlive the lease: its client
		// may have gone elsewhere and come back.
		err := s.elsewhere(ctx)
		if err == nil {
			err = status(wire.WriteCancelled, "lease lost meanwhile")
		}
		s.refuse(o, err)
		return
	}
	switch o.call.Method {
	case wire.Release:
		s.refuse(o, s.release(ctx))
	case wire.Delete:
		s.refuse(o, s.delete(ctx, o))
	case wire.Create:
		s.refuse(o, s.p.b.create(ctx, s.name))
	case wire.Truncate:
		s.refuse(o, s.truncate(ctx, o))
	case wire.Heartbeat, wire.HeartbeatWithOptions:
		s.heartbeat(ctx, o)
	default:
		s.write(ctx, o)
	}
}

// refuse answers an op that the writer does not have; nil is success.
func (s *owned) refuse(o *op, err error) {
	if err != nil {
		s.mu.Lock()
		s.poison(o)
		s.mu.Unlock()
		err = withCode(err)
	}
	o.reply(err)
}

// write hands an append to the writer.
func (s *owned) write(ctx context.Context, o *op) {
	if err := s.own(ctx, o); err != nil {
		s.refuse(o, err)
		return
	}
	if err := o.tooLong(); err != nil {
		s.refuse(o, err)
		return
	}
	if err := s.checkBind(o); err != nil {
		o.reply(err)
		return
	}
	o.split()
	o.left.Store(int32(len(o.chunks) + 1))
	if o.call.Context.GetIsRecordSet() {
		s.w.GoSet(s.ctx, 0, o.call.Data[0], func(d stream.DLSN, err error) { o.done(0, d, err) })
		o.handedOver()
		return
	}
	rs := make([]stream.Record, 0, o.chunkRecords())
	data := o.call.Data
	for i := range o.chunks {
		if o.failed.Load() {
			o.done(i, stream.DLSN{}, status(wire.WriteCancelled, "a record before it failed"))
			continue
		}
		n := o.chunks[i].n
		rs = rs[:0]
		for _, d := range data[:n] {
			rs = append(rs, stream.Record{Payload: d})
		}
		data = data[n:]
		s.w.GoBatch(s.ctx, rs, func(d stream.DLSN, err error) { o.done(i, d, err) })
	}
	o.call.Release() // the writer has copied the records
	o.handedOver()
}

// chunkRecords is the most records of a chunk.
func (o *op) chunkRecords() int {
	n := 0
	for _, c := range o.chunks {
		n = max(n, c.n)
	}
	return n
}

// finish runs once the writer has called back for all of an op: on the
// writer's goroutine, or on run.
func (s *owned) finish(o *op) {
	err := o.err()
	last, ok := o.last()
	s.mu.Lock()
	if ok && s.last.Less(last) {
		s.last = last
	}
	lease := s.lease
	s.mu.Unlock()
	if err != nil && !onlyTheCall(err) {
		// The writer is dead or late; the next op sees it. Not acknowledged
		// records may be in the stream.
		s.p.log.Info("append failed", zap.String("stream", string(s.name)), zap.Error(err))
	}
	for i := range o.chunks {
		if e := o.chunks[i].err; e != nil {
			o.chunks[i].err = s.lostOr(lease, e)
		}
	}
	if !ok || lease.Held() {
		o.replyDone()
		return
	}
	lease.Confirmed(func(held bool) {
		if !held {
			for i := range o.chunks {
				o.chunks[i].err = status(wire.LockingException, "lost stream %s", s.name)
			}
		}
		o.replyDone()
	})
}

// lostOr names the loss of the lease as the cause of what followed from it.
func (s *owned) lostOr(l *owner.Lease, err error) error {
	select {
	case <-l.Lost():
		return status(wire.LockingException, "lost stream %s: %v", s.name, err)
	default:
		return withCode(err)
	}
}
