package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/entrylog"
)

// Ledgers calls fn with each ledger that has a stored state, by rising id, until
// it returns an error.
func (x *Index) Ledgers(fn func(bk.LedgerID) error) (err error) {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixState}, UpperBound: []byte{prefixState + 1}})
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for valid := it.First(); valid; valid = it.Next() {
		key := it.Key()
		if len(key) != 1+8 {
			return &bk.CorruptError{Where: "index, key of a state", Offset: -1, Want: "9 bytes", Got: fmt.Sprintf("%x", key)}
		}
		if err := fn(bk.LedgerID(binary.BigEndian.Uint64(key[1:]) ^ signBit)); err != nil {
			return err
		}
	}
	return it.Error()
}

// DeleteLedger removes the extents and the state of a ledger. Call Forget once
// the batch is committed.
func (b *Batch) DeleteLedger(l bk.LedgerID) error {
	lower, upper := extentBounds(l)
	err := b.b.DeleteRange(lower, upper, nil)
	if err == nil {
		err = b.b.Delete(appendID([]byte{prefixState}, l), nil)
	}
	if err != nil {
		return fmt.Errorf("index batch: %w", err)
	}
	return nil
}

// Forget has Find look for entries of a ledger afresh.
func (x *Index) Forget(l bk.LedgerID) { x.recent.drop(l) }

func (r *recent) drop(l bk.LedgerID) {
	s := &r.slots[uint64(l)%uint64(len(r.slots))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x.ledger == l {
		s.x = extent{}
	}
}

// Extent is a run of entries of one ledger as the index has it.
type Extent struct {
	Ledger bk.LedgerID
	key    []byte
	Places []Place // of its entries, one behind the other
	IDs    []bk.EntryID
}

// ExtentsIn calls fn with each extent of a ledger that lies in a log, by rising
// first entry, until it returns an error. fn may keep what it gets.
func (x *Index) ExtentsIn(l bk.LedgerID, log entrylog.LogID, fn func(Extent) error) (err error) {
	lower, upper := extentBounds(l)
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for valid := it.First(); valid; valid = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read index: %w", err)
		}
		var ext extent
		if err := ext.parse(it.Key(), v); err != nil {
			return err
		}
		if ext.log != log {
			continue
		}
		out := Extent{Ledger: l, key: append([]byte{}, it.Key()...), IDs: ext.ids}
		off := ext.off
		for _, size := range ext.sizes {
			out.Places = append(out.Places, Place{Log: log, Offset: off, Size: int(size)})
			off += int64(size) + entrylog.RecordOverhead
		}
		if err := fn(out); err != nil {
			return err
		}
	}
	return it.Error()
}

// LedgersIn gives how many bytes of a log extents of each ledger name. It reads
// the whole index.
func (x *Index) LedgersIn(log entrylog.LogID) (rows []entrylog.LedgerBytes, err error) {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixExtent}, UpperBound: []byte{prefixExtent + 1}})
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var ext extent
	for valid := it.First(); valid; valid = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		if err := ext.parse(it.Key(), v); err != nil {
			return nil, err
		}
		if ext.log != log {
			continue
		}
		if n := len(rows); n == 0 || rows[n-1].Ledger != ext.ledger {
			rows = append(rows, entrylog.LedgerBytes{Ledger: ext.ledger})
		}
		rows[len(rows)-1].Bytes += ext.end() - ext.off
	}
	return rows, it.Error()
}

// DeleteExtent removes an extent, whose entries the caller adds next, from their
// new places. They make an extent of their own, unless their ids follow at
// once: one that spanned ids of an extent which stays would hide that.
func (b *Batch) DeleteExtent(e Extent) error {
	if n := len(b.cur.ids); n > 0 && b.cur.ids[n-1]+1 != e.IDs[0] {
		if err := b.flushExtent(); err != nil {
			return err
		}
	}
	if err := b.b.Delete(e.key, nil); err != nil {
		return fmt.Errorf("index batch: %w", err)
	}
	return nil
}
