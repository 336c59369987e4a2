package quorum

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

var (
	q332 = bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}
	q322 = bk.Quorum{Ensemble: 3, Write: 2, Ack: 2}
)

// openMeta is the metadata of a new ledger on the bookies given.
func openMeta(bookies ...bk.BookieID) Metadata {
	return Metadata{State: StateOpen, Segments: []Segment{{First: 0, Ensemble: bookies}}, LastEntry: bk.InvalidEntryID}
}

// inRecovery is m marked as being recovered.
func inRecovery(m Metadata) Metadata {
	m.State = StateInRecovery
	return m
}

// closedMeta is m closed at last with length.
func closedMeta(m Metadata, last bk.EntryID, length int64) Metadata {
	m.State, m.LastEntry, m.Length = StateClosed, last, length
	return m
}

// writer drives a Writer core by hand.
type writer struct {
	*Writer
	t *testing.T
}

func newTestWriter(t *testing.T, cfg WriterConfig) *writer {
	t.Helper()
	if cfg.Quorum == (bk.Quorum{}) {
		cfg.Quorum = q332
	}
	if cfg.Metadata.Segments == nil {
		cfg.Metadata = openMeta("b0", "b1", "b2")
	}
	w, err := NewWriter(cfg)
	require.NoError(t, err)
	return &writer{Writer: w, t: t}
}

// push pushes n entries of one byte and gives the first.
func (w *writer) push(n int) Add {
	w.t.Helper()
	var first Add
	for i := range n {
		add, err := w.Push(1)
		require.NoError(w.t, err)
		if i == 0 {
			first = add
		}
	}
	return first
}

// ack acknowledges entry e at the positions given.
func (w *writer) ack(e bk.EntryID, positions ...int) {
	for _, p := range positions {
		w.Ack(e, w.Slot(p))
	}
}

// fail fails entry e at position p.
func (w *writer) fail(e bk.EntryID, p int, err error) { w.Fail(e, w.Slot(p), err) }

// one takes the pending actions, which must be exactly one, of kind.
func (w *writer) one(kind ActionKind) Action {
	w.t.Helper()
	return oneAction(w.t, w.Actions(), kind)
}

// quiet checks that nothing is to be done.
func (w *writer) quiet() {
	w.t.Helper()
	require.Empty(w.t, kindsOf(w.Actions()))
}

// change runs a whole ensemble change that was just asked for, and gives the
// metadata written.
func (w *writer) change(picks ...Pick) Metadata {
	w.t.Helper()
	w.one(ActPick)
	require.NoError(w.t, w.Replace(picks))
	m := w.one(ActUpdate).Metadata
	w.Updated()
	return m
}

func oneAction(t *testing.T, acts []Action, kind ActionKind) Action {
	t.Helper()
	require.Equal(t, []ActionKind{kind}, kindsOf(acts))
	return acts[0]
}

func kindsOf(acts []Action) []ActionKind {
	var kinds []ActionKind
	for _, a := range acts {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

func ofKind(acts []Action, kind ActionKind) []Action {
	var out []Action
	for _, a := range acts {
		if a.Kind == kind {
			out = append(out, a)
		}
	}
	return out
}

// sends gives "entry@position=bookie" for every send.
func sends(acts []Action) []string {
	var out []string
	for _, a := range ofKind(acts, ActSend) {
		out = append(out, fmt.Sprintf("%d@%d=%s", a.Entry, a.Slot.Pos, a.Bookie))
	}
	return out
}

// recovery drives a Recovery core by hand.
type recovery struct {
	*Recovery
	t    *testing.T
	acts []Action // of the last take
}

func newTestRecovery(t *testing.T, cfg RecoveryConfig) *recovery {
	t.Helper()
	if cfg.Quorum == (bk.Quorum{}) {
		cfg.Quorum = q332
	}
	if cfg.Metadata.Segments == nil {
		cfg.Metadata = inRecovery(openMeta("b0", "b1", "b2"))
	}
	r, err := NewRecovery(cfg)
	require.NoError(t, err)
	return &recovery{Recovery: r, t: t}
}

// take takes the pending actions.
func (r *recovery) take() []Action {
	r.acts = append([]Action(nil), r.Actions()...)
	return r.acts
}

// lacs answers the fencing LAC reads by position: a nil answer means err.
func (r *recovery) lacs(answers ...lacReply) {
	r.t.Helper()
	for _, a := range ofKind(r.take(), ActReadLAC) {
		reply := answers[a.Slot.Pos]
		if reply.silent {
			continue
		}
		r.LACAnswer(a.Slot, LACAnswer{Entry: reply.entry, LAC: reply.lac, Length: reply.length}, reply.err)
	}
}

type lacReply struct {
	entry, lac bk.EntryID
	length     int64
	err        error
	silent     bool
}

// lacOf is a valid answer: the bookie's last entry, whose LAC trails by one and
// whose length is one byte an entry.
func lacOf(entry bk.EntryID) lacReply {
	return lacReply{entry: entry, lac: entry - 1, length: int64(entry) + 1}
}

func lacErr(err error) lacReply { return lacReply{err: err} }

// read answers the read of e at position p; length is one byte an entry.
func (r *recovery) read(e bk.EntryID, p int, err error) bool {
	return r.ReadAnswer(e, Slot{Pos: p, Gen: r.attempt}, int64(e)+1, err)
}

// ackAll acknowledges the write-back of e at all positions.
func (r *recovery) ackAll(e bk.EntryID) {
	for k := range r.q.Write {
		r.Ack(e, r.back.Slot(Position(r.q, e, k)))
	}
}
