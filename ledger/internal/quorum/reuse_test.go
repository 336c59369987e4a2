package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// Acknowledgements by new connections do not count before the metadata, written
// once more, have shown that nobody recovers the ledger.
func TestAddressReuse_NothingCompletesInDoubt(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(2)
	w.ack(0, 0, 1)
	w.Doubt(w.Slot(1), true)
	a := w.one(ActUpdate)
	require.True(t, a.Metadata.Equal(openMeta("b0", "b1", "b2")), "as they are")
	w.Doubt(w.Slot(0), true)
	w.quiet()
	w.ack(1, 0, 1)
	require.Equal(t, bk.EntryID(0), w.LAC())
	w.Updated()
	w.one(ActUpdate) // the second doubt came after the first proof was on its way
	require.Equal(t, bk.EntryID(0), w.LAC())
	w.Updated()
	w.quiet()
	require.Equal(t, bk.EntryID(1), w.LAC())
}

func TestAddressReuse_ClosedMeanwhile(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.ack(0, 0, 1, 2)
	w.push(1)
	w.Doubt(w.Slot(0), true)
	w.ack(1, 0)
	w.Doubt(w.Slot(1), true)
	w.ack(1, 1)
	w.one(ActUpdate)
	w.Conflict(closedMeta(openMeta("b0", "b1", "b2"), 0, 1))
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActFailed, ActFinished}, kindsOf(acts))
	require.ErrorIs(t, acts[0].Err, bk.ErrLedgerClosed)
	require.Equal(t, bk.EntryID(0), w.LAC())
}

// An ensemble change that is asked for after the doubt is proof enough; one that
// was on its way is not.
func TestAddressReuse_ChangeAsProof(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.fail(0, 2, bk.ErrTimeout)
	w.one(ActPick)
	w.Doubt(w.Slot(0), true)
	require.NoError(t, w.Replace([]Pick{{Pos: 2, Bookie: "b3"}}))
	w.one(ActUpdate)
	w.ack(0, 0, 1)
	w.Doubt(w.Slot(1), true)
	w.Updated()
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActSend, ActUpdate}, kindsOf(acts))
	require.Equal(t, bk.InvalidEntryID, w.LAC())
	w.Updated()
	require.Equal(t, bk.EntryID(0), w.LAC())
}

func TestAddressReuse_NoBookiesInDoubt(t *testing.T) {
	w := newTestWriter(t, WriterConfig{Policy: ReplaceOrGoOn})
	w.push(1)
	w.fail(0, 2, bk.ErrTimeout)
	w.one(ActPick)
	w.Doubt(w.Slot(0), true)
	w.ack(0, 0, 1)
	w.NoBookies(bk.ErrNotEnoughBookies)
	w.one(ActUpdate)
	require.Equal(t, bk.InvalidEntryID, w.LAC(), "going on without a change needs the proof too")
	w.Updated()
	require.Equal(t, bk.EntryID(0), w.LAC())
}

func TestAddressReuse_StaleDoubtsChangeNothing(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.fail(0, 2, bk.ErrTimeout)
	old := w.Slot(2)
	w.change(Pick{Pos: 2, Bookie: "b3"})
	w.Actions()
	w.Doubt(old, true)
	w.Doubt(Slot{Pos: -1}, true)
	w.Doubt(Slot{Pos: 9}, true)
	w.quiet()
	w.ack(0, 0, 1)
	require.Equal(t, bk.EntryID(0), w.LAC())
}

func TestAddressReuse_DeferredSync(t *testing.T) {
	w := newTestWriter(t, WriterConfig{DeferredSync: true})
	w.push(1)
	w.Doubt(w.Slot(0), false) // the first connection: nothing can be lost
	w.one(ActUpdate)
	w.Updated()
	w.ack(0, 0, 1, 2)
	require.Equal(t, bk.EntryID(0), w.Completed())
	id, err := w.Force()
	require.NoError(t, err)
	w.Actions()
	for p := range 3 {
		w.ForceAck(id, w.Slot(p))
	}
	require.Equal(t, bk.EntryID(0), w.LAC())
	w.push(1)
	w.Doubt(w.Slot(0), true) // what it acknowledged is durable
	w.one(ActUpdate)
	w.Updated()
	w.ack(1, 0, 1)
	w.Doubt(w.Slot(2), true) // it has not acknowledged the new entry
	require.NoError(t, w.Err())
	w.Doubt(w.Slot(0), true)
	require.ErrorIs(t, w.Err(), bk.ErrBookieUnavailable)
}
