package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// A bookie that comes back empty under its id has no fence any more. What it
// acknowledges over a new connection counts only once a compare-and-set has shown
// that nobody had begun to recover the ledger.
func TestAddressReuse_NothingCompletesBeforeTheMetadataAreProved(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.Doubt(w.Slot(0), false)
	w.ack(0, 0, 1, 2)
	require.Equal(t, bk.InvalidEntryID, w.LAC(), "not proved yet")
	update := w.one(ActUpdate)
	require.True(t, update.Metadata.Equal(openMeta("b0", "b1", "b2")), "as they are")
	w.Updated()
	require.EqualValues(t, 0, w.LAC())
	w.quiet()
}

func TestAddressReuse_ClosedMeanwhileCompletesNothing(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.Doubt(w.Slot(0), true)
	w.ack(0, 0, 1, 2)
	w.one(ActUpdate)
	w.Conflict(closedMeta(openMeta("b0", "b1", "b2"), bk.InvalidEntryID, 0))
	require.Equal(t, bk.InvalidEntryID, w.LAC())
	done, _ := w.Finished()
	require.True(t, done)
}

// A doubt that comes while metadata are being written is not settled by that
// write, which may have been applied before a recovery began.
func TestAddressReuse_DoubtDuringAWriteNeedsAnother(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.Doubt(w.Slot(0), true)
	w.one(ActUpdate)
	w.Doubt(w.Slot(1), true)
	w.quiet()
	w.ack(0, 0, 1, 2)
	w.Updated()
	require.Equal(t, bk.InvalidEntryID, w.LAC())
	w.one(ActUpdate)
	w.Updated()
	require.EqualValues(t, 0, w.LAC())
}

// With deferred sync, copies that no force has made durable may be gone with the
// process behind the old connection (rule 12).
func TestRule12_NewConnectionEndsAWriterWithUnforcedEntries(t *testing.T) {
	w := newTestWriter(t, WriterConfig{DeferredSync: true})
	w.push(1)
	w.ack(0, 0, 1, 2)
	w.Doubt(w.Slot(2), true)
	require.ErrorIs(t, w.Err(), bk.ErrBookieUnavailable)
	m := w.one(ActUpdate).Metadata
	require.Equal(t, StateClosed, m.State)
	require.Equal(t, bk.InvalidEntryID, m.LastEntry)
}
