package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/ledger/placement"
)

// recovery drives quorum.Recovery: it fences a ledger's bookies, finds the end
// of the ledger, writes back what the writer may not have finished, and closes
// the ledger (rules 30-39). It goes over protocol version 3, whose transaction
// ids tell its requests from those of a writer or reader of the same ledger in
// this process; over version 2 where an entry is too large for that.
//
// It runs on the goroutine of Open; picks and metadata writes run beside it.
type recovery struct {
	c        *Client
	id       bk.LedgerID
	digester *bk.Digester
	key      [bk.MasterKeySize]byte
	core     *quorum.Recovery
	quorum   bk.Quorum
	policy   placement.Policy
	stored   *storedMetadata
	in       *inbox
	events   chan func() // outcomes of picks and metadata writes; one at a time is out
	bodies   map[bk.EntryID][]byte
	dropped  bk.EntryID // bodies below are gone
	finished bool
	result   error
	acts     []quorum.Action
}

// recover closes a ledger that is not closed. stored is what the caller just
// read; when it returns without error it is the closed ledger's metadata.
func (c *Client) recover(ctx context.Context, stored *storedMetadata, d *bk.Digester, password []byte) error {
	start := time.Now()
	core, err := quorum.NewRecovery(quorum.RecoveryConfig{
		Ledger: stored.id, Quorum: stored.meta.Quorum, Metadata: stored.core(),
	})
	if err != nil {
		return err
	}
	r := &recovery{
		c: c, id: stored.id, digester: d, key: bk.MasterKey(password), core: core, stored: stored,
		quorum: stored.meta.Quorum, policy: c.policyOf(stored.meta),
		in: newInbox(), events: make(chan func(), 2), bodies: map[bk.EntryID][]byte{},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	if err := r.run(ctx); err != nil {
		return err
	}
	c.metrics.recoveries.Inc()
	took := time.Since(start)
	c.opts.Logger.Info("ledger recovered", zap.Int64("ledger", int64(r.id)), zap.Int64("lac", int64(stored.meta.LastEntry)),
		zap.Int("written_back", core.Recovered()), zap.Duration("took", took))
	if f := c.opts.Events.Recovered; f != nil {
		f(r.id, stored.meta.LastEntry, took)
	}
	return nil
}

func (r *recovery) run(ctx context.Context) error {
	pending := 0 // picks and metadata writes out
	spawn := func(f func() func()) {
		pending++
		go func() { r.events <- f() }()
	}
	var calls []*conn.Call
	for {
		r.act(ctx, spawn)
		if r.finished && pending == 0 {
			return r.result
		}
		select {
		case <-r.in.wake:
			calls = r.in.take(calls)
			for _, c := range calls {
				r.answer(c)
			}
		case event := <-r.events:
			pending--
			event()
		case <-done(ctx, r.finished):
			r.core.Abort(fmt.Errorf("%w: %w", bk.ErrRecoveryFailed, context.Cause(ctx)))
		}
	}
}

// done is ctx.Done, or nil once that does not matter any more.
func done(ctx context.Context, finished bool) <-chan struct{} {
	if finished {
		return nil
	}
	return ctx.Done()
}

// act carries out what the core asks for, until it asks for no more.
func (r *recovery) act(ctx context.Context, spawn func(func() func())) {
	for {
		r.acts = append(r.acts[:0], r.core.Actions()...)
		if len(r.acts) == 0 {
			break
		}
		for i := range r.acts {
			r.carryOut(ctx, &r.acts[i], spawn)
		}
	}
	if len(r.bodies) == 0 {
		r.dropped = r.core.Held()
	}
	for ; r.dropped < r.core.Held(); r.dropped++ {
		delete(r.bodies, r.dropped)
	}
}

func (r *recovery) carryOut(ctx context.Context, a *quorum.Action, spawn func(func() func())) {
	switch a.Kind {
	case quorum.ActReadLAC:
		r.start(a, &conn.Call{Op: conn.OpFenceRead, Entry: bk.InvalidEntryID, Timeout: r.c.opts.ReadTimeout})
	case quorum.ActRead:
		op := conn.OpRead
		if a.Fence {
			op = conn.OpFenceRead
		}
		r.start(a, &conn.Call{Op: op, Entry: a.Entry, Timeout: r.c.opts.ReadTimeout})
	case quorum.ActFrame:
		payload := r.bodies[a.Entry]
		r.bodies[a.Entry] = r.digester.AppendEntry(nil, r.id, a.Entry, a.LAC, a.Length, payload)
	case quorum.ActSend:
		op := conn.OpRecoveryAdd
		if len(r.bodies[a.Entry]) > wire.MaxEntryBody {
			op = conn.OpRecoveryAddV2
		}
		r.start(a, &conn.Call{
			Op: op, Entry: a.Entry, Payload: r.bodies[a.Entry], Timeout: r.c.opts.AddTimeout,
		})
	case quorum.ActPick:
		req := newPickRequest(r.quorum, r.policy, a, true)
		spawn(func() func() { return r.pick(ctx, req) })
	case quorum.ActUpdate:
		want := a.Metadata
		spawn(func() func() { return r.update(ctx, want) })
	case quorum.ActFinished:
		r.finished, r.result = true, a.Err
		if a.Err == nil && !r.core.Result().Equal(r.stored.core()) {
			r.result = fmt.Errorf("%w: stored metadata differ from the result: %w", bk.ErrRecoveryFailed, bk.ErrMetadataConflict)
		}
	}
}

// start sends a call for an action; its answer comes to the inbox.
func (r *recovery) start(a *quorum.Action, c *conn.Call) {
	c.Ledger, c.Key = r.id, &r.key
	c.Tag = int(a.Slot.Gen)<<genShift | a.Slot.Pos
	c.Done = r.in.done
	r.c.pool.Bookie(a.Bookie).Start(c)
}

// answer gives an answer to the core.
func (r *recovery) answer(c *conn.Call) {
	slot := quorum.Slot{Pos: c.Tag & (1<<genShift - 1), Gen: uint32(c.Tag >> genShift)}
	err := c.Failure()
	if c.Op == conn.OpRecoveryAdd || c.Op == conn.OpRecoveryAddV2 {
		if err != nil {
			r.core.Fail(c.Entry, slot, err)
		} else {
			r.core.Ack(c.Entry, slot)
		}
		return
	}
	if c.Op == conn.OpFenceRead && mayNotFit(err) {
		r.c.pool.Bookie(c.Bookie.ID()).Start(&conn.Call{
			Op: conn.OpFenceReadV2, Ledger: r.id, Entry: c.Entry, Key: &r.key, Timeout: c.Timeout, Tag: c.Tag, Done: r.in.done,
		})
		return
	}
	var ent bk.Entry
	if err == nil {
		// A damaged copy is an error of its bookie: neither an entry nor a
		// "missing" (rules 32, 35, 42).
		if ent, err = r.digester.Verify(c.Body, r.id, c.Entry); err != nil {
			err = &bk.BookieError{Bookie: c.Bookie.ID(), Err: err}
		}
	}
	if c.Entry == bk.InvalidEntryID {
		r.core.LACAnswer(slot, quorum.LACAnswer{Entry: ent.ID, LAC: ent.LAC, Length: ent.Length}, err)
		return
	}
	if r.core.ReadAnswer(c.Entry, slot, ent.Length, err) {
		r.bodies[c.Entry] = ent.Payload
	}
}

// mayNotFit reports whether a request of version 3 may have failed because an
// entry as large as version 2 allows does not fit a frame of version 3: the
// bookie says it is a bad request, or, if it is one of Java, closes the
// connection.
func mayNotFit(err error) bool {
	return errors.Is(err, bk.ErrBadRequest) || errors.Is(err, bk.ErrBookieUnavailable) && !errors.Is(err, bk.ErrTimeout)
}

func (r *recovery) pick(ctx context.Context, req pickRequest) func() {
	picks, err := r.c.substitutes(ctx, req)
	return func() {
		if err == nil {
			err = r.core.Replace(picks)
		}
		if err != nil {
			r.core.NoBookies(err)
		}
	}
}

// update writes the metadata that the core wants.
func (r *recovery) update(ctx context.Context, want quorum.Metadata) func() {
	err := r.stored.update(ctx, want)
	return func() {
		switch {
		case err == nil:
			r.core.Updated()
		case errors.Is(err, errStale):
			r.core.Conflict(r.stored.core())
		default:
			r.core.UpdateFailed(err)
		}
	}
}
