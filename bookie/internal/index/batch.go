package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/loglode/loglode/bookie/bk"
)

// ErrUnflushed says that a batch is in the index, but not durably.
var ErrUnflushed = errors.New("index is not flushed")

// markVersion is on disk: do not renumber.
const markVersion = 1

// Mark says, for one journal, from where on it is needed by this directory.
type Mark struct {
	From   uint64 // LSN; all records below are in the index or an entry log
	Synced uint64 // LSN below which every record was durable when the mark was made
}

// Batch gathers what one flush makes durable.
type Batch struct {
	x       *Index
	b       *pebble.Batch
	cur     extent
	key     []byte
	value   []byte
	Extents int // written so far
}

// NewBatch begins a batch; end it with Commit or Discard.
func (x *Index) NewBatch() *Batch { return &Batch{x: x, b: x.db.NewBatch()} }

// Add notes where an entry lies. Entries come by ledger and id.
func (b *Batch) Add(l bk.LedgerID, e bk.EntryID, p Place) error {
	if !b.cur.takes(l, e, p.Log, p.Offset) {
		if err := b.flushExtent(); err != nil {
			return err
		}
		b.cur.ledger, b.cur.log, b.cur.off = l, p.Log, p.Offset
	}
	b.cur.ids = append(b.cur.ids, e)
	b.cur.sizes = append(b.cur.sizes, uint32(p.Size))
	return nil
}

func (b *Batch) flushExtent() error {
	if len(b.cur.ids) == 0 {
		return nil
	}
	b.key = b.cur.appendKey(b.key[:0])
	b.value = b.cur.appendValue(b.value[:0])
	b.cur.ids, b.cur.sizes = b.cur.ids[:0], b.cur.sizes[:0]
	b.Extents++
	return b.set(b.key, b.value)
}

func (b *Batch) set(key, value []byte) error {
	if err := b.b.Set(key, value, nil); err != nil {
		return fmt.Errorf("index batch: %w", err)
	}
	return nil
}

// SetState stores the state of a ledger; value is not kept.
func (b *Batch) SetState(l bk.LedgerID, value []byte) error {
	return b.set(appendID([]byte{prefixState}, l), value)
}

// SetMark stores the marks, one for each journal in its order.
func (b *Batch) SetMark(marks []Mark) error {
	v := []byte{markVersion}
	for _, m := range marks {
		v = binary.BigEndian.AppendUint64(v, m.From)
		v = binary.BigEndian.AppendUint64(v, m.Synced)
	}
	return b.set([]byte{prefixMark}, v)
}

// Discard drops the batch.
func (b *Batch) Discard() error { return b.b.Close() }

// Commit makes the batch durable; it ends the batch. After ErrUnflushed the
// batch is in the index and Flush may make it durable yet; after any other
// error it is not.
func (b *Batch) Commit() error {
	x := b.x
	err := b.flushExtent()
	if err == nil {
		err = x.fs.err()
	}
	if err == nil {
		err = x.db.Apply(b.b, pebble.NoSync)
	}
	if err = errors.Join(err, b.b.Close()); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return x.Flush()
}

// Flush makes all committed batches durable; its error is an ErrUnflushed.
func (x *Index) Flush() error {
	select {
	case <-x.failed: // of an earlier flush that has reported it
	default:
	}
	if err := x.fs.err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnflushed, err)
	}
	done, err := x.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnflushed, err)
	}
	select {
	case <-done:
		if err := x.fs.err(); err != nil { // what it says may not be on disk
			return fmt.Errorf("%w: %w", ErrUnflushed, err)
		}
		x.compactions.poke()
		return nil
	case err := <-x.failed:
		return fmt.Errorf("%w: %w", ErrUnflushed, err)
	}
}

// Marks gives the stored marks, none in a new index.
func (x *Index) Marks() ([]Mark, error) {
	var marks []Mark
	_, err := x.get([]byte{prefixMark}, func(v []byte) error {
		if len(v) < 1 || v[0] != markVersion || (len(v)-1)%16 != 0 {
			return &bk.CorruptError{Where: "index mark", Offset: -1, Want: "a mark of version 1", Got: fmt.Sprintf("%x", v)}
		}
		for v = v[1:]; len(v) > 0; v = v[16:] {
			marks = append(marks, Mark{From: binary.BigEndian.Uint64(v), Synced: binary.BigEndian.Uint64(v[8:])})
		}
		return nil
	})
	return marks, err
}
