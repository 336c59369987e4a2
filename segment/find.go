package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// Entries read at once when looking for the last record.
const (
	scanFirst = 2
	scanMax   = 16
)

// LastRecord gives the last user record up to the LAC; with all, the last
// record of any kind. ok is false if there is none. The payload is the caller's.
func (r *Reader) LastRecord(ctx context.Context, all bool) (v record.View, ok bool, err error) {
	want := func(v record.View) bool { return all || v.Flags.User() }
	last := r.LAC()
	for n := int64(scanFirst); last >= 0; n = min(2*n, scanMax) {
		first := max(last-n+1, 0)
		// Entries come oldest first: what is found later is newer.
		err := r.each(ctx, first, last, func(u record.View) bool {
			if want(u) {
				v, ok = u, true
				v.Payload = slices.Clone(u.Payload)
			}
			return true
		})
		if err != nil || ok {
			return v, ok, err
		}
		last = first - 1
	}
	return v, false, nil
}

// each calls f for every record of the entries first to last, both included,
// until f is false.
func (r *Reader) each(ctx context.Context, first, last int64, f func(record.View) bool) error {
	var it record.Iterator
	for e, err := range r.l.Entries(ctx, bk.EntryID(first), bk.EntryID(last)) {
		if err != nil {
			return fmt.Errorf("read segment %d entry %d: %w", r.info.Segment, e.ID, err)
		}
		r.Decode(&it, Entry{ID: int64(e.ID), Payload: e.Payload})
		for it.Next() {
			if !f(it.View()) {
				return nil
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	return nil
}

// FindTxID gives the DLSN of the first user record whose txid is t or higher.
// ok is false if there is none up to the LAC.
func (r *Reader) FindTxID(ctx context.Context, t stream.TxID) (d stream.DLSN, ok bool, err error) {
	lac := r.LAC()
	first := int64(0)
	if r.info.FirstTxID < t && lac > 0 {
		var probeErr error
		i := sort.Search(int(lac)+1, func(e int) bool {
			if probeErr != nil {
				return true
			}
			highest, err := r.lastTxIDOf(ctx, int64(e))
			probeErr = err
			return highest >= t
		})
		if probeErr != nil {
			return stream.DLSN{}, false, MapError(probeErr)
		}
		first = int64(i)
	}
	if first > lac {
		return stream.DLSN{}, false, nil
	}
	err = r.each(ctx, first, lac, func(v record.View) bool {
		if v.Flags.User() && v.TxID >= t {
			d, ok = v.DLSN, true
		}
		return !ok
	})
	return d, ok, MapError(err)
}

// lastTxIDOf gives the txid of the last record of an entry, of any kind: a
// control record has that of the user record before it.
func (r *Reader) lastTxIDOf(ctx context.Context, entry int64) (stream.TxID, error) {
	t := stream.InvalidTxID
	err := r.each(ctx, entry, entry, func(v record.View) bool {
		t = v.TxID
		return true
	})
	return t, err
}

// firstFrom gives the first user record at or after d, up to the LAC.
func (r *Reader) firstFrom(ctx context.Context, d stream.DLSN) (v record.View, ok bool, err error) {
	lac := r.LAC()
	if d.Entry > lac || lac < 0 {
		return v, false, nil
	}
	err = r.each(ctx, max(d.Entry, 0), lac, func(u record.View) bool {
		if u.Flags.User() && !u.DLSN.Less(d) {
			v, ok = u, true
			v.Payload = slices.Clone(u.Payload)
		}
		return !ok
	})
	return v, ok, err
}

// with opens a segment for f.
func (s *Stream) with(ctx context.Context, i Info, f func(*Reader) error) error {
	r, err := s.OpenReader(ctx, i)
	if err != nil {
		return err
	}
	return errors.Join(f(r), r.Close())
}

// First gives the first user record left: truncation is applied. It fails with
// stream.ErrEmpty without one.
func (s *Stream) First(ctx context.Context) (record.View, error) {
	infos, err := s.List(ctx)
	if err != nil {
		return record.View{}, err
	}
	for _, i := range infos {
		if i.Status == Truncated || !i.InProgress && i.Records == 0 {
			continue
		}
		var v record.View
		var ok bool
		err := s.with(ctx, i, func(r *Reader) (err error) {
			v, ok, err = r.firstFrom(ctx, i.First())
			return err
		})
		if err != nil || ok {
			return v, s.wrap("first record", err)
		}
	}
	return record.View{}, s.wrap("first record", stream.ErrEmpty)
}

// Last gives the newest user record that is visible. It fails with
// stream.ErrEmpty without one.
func (s *Stream) Last(ctx context.Context) (record.View, error) {
	infos, err := s.List(ctx)
	if err != nil {
		return record.View{}, err
	}
	v, err := s.lastOf(ctx, infos)
	return v, s.wrap("last record", err)
}

func (s *Stream) lastOf(ctx context.Context, infos []Info) (record.View, error) {
	for _, i := range slices.Backward(infos) {
		if i.Status == Truncated || !i.InProgress && i.Records == 0 {
			continue
		}
		var v record.View
		var ok bool
		err := s.with(ctx, i, func(r *Reader) (err error) {
			v, ok, err = r.LastRecord(ctx, false)
			return err
		})
		if err != nil || ok {
			return v, err
		}
	}
	return record.View{}, stream.ErrEmpty
}

// FindTxID gives the position of the first record whose txid is t or higher;
// past the newest record, the position just after it. Truncation is not
// applied. It fails with stream.ErrEmpty in a stream without records.
func (s *Stream) FindTxID(ctx context.Context, t stream.TxID) (stream.DLSN, error) {
	infos, err := s.List(ctx)
	if err != nil {
		return stream.DLSN{}, err
	}
	d, err := s.findTxID(ctx, infos, t)
	return d, s.wrap(fmt.Sprintf("find txid %d", t), err)
}

func (s *Stream) findTxID(ctx context.Context, infos []Info, t stream.TxID) (stream.DLSN, error) {
	for _, i := range infos[pickByTxID(infos, t):] {
		var d stream.DLSN
		var ok bool
		err := s.with(ctx, i, func(r *Reader) (err error) {
			d, ok, err = r.FindTxID(ctx, t)
			return err
		})
		if errors.Is(err, stream.ErrNotFound) && i.Status == Truncated {
			continue // its ledger is gone
		}
		if err != nil || ok {
			return d, err
		}
	}
	last, err := s.lastOf(ctx, infos)
	if err != nil {
		return stream.DLSN{}, err
	}
	if last.TxID < t {
		return last.DLSN.Next(), nil
	}
	return last.DLSN, nil
}

// pickByTxID gives the index of the segment to start looking for txid t in: the
// last one that starts at t or lower. If it starts exactly at t, records with t
// may be in the ones before it too; if it is completed and ends before t, the
// next one.
func pickByTxID(infos []Info, t stream.TxID) int {
	k := sort.Search(len(infos), func(i int) bool { return infos[i].FirstTxID > t }) - 1
	if k < 0 {
		return 0
	}
	if infos[k].FirstTxID == t {
		for k > 0 && !infos[k-1].InProgress && infos[k-1].LastTxID >= t {
			k--
		}
		return k
	}
	if !infos[k].InProgress && k < len(infos)-1 && infos[k].LastTxID < t {
		k++
	}
	return k
}

// Count gives the number of user records from a DLSN on, that record included,
// up to the newest that is visible. Truncation is not applied.
func (s *Stream) Count(ctx context.Context, from stream.DLSN) (int64, error) {
	infos, err := s.List(ctx)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, i := range infos {
		n, err := s.countIn(ctx, i, from)
		if err != nil {
			return 0, s.wrap("count records", err)
		}
		sum += n
	}
	return sum, nil
}

func (s *Stream) countIn(ctx context.Context, i Info, from stream.DLSN) (n int64, err error) {
	if i.Segment < from.Segment {
		return 0, nil
	}
	whole := i.Segment > from.Segment || from.Entry <= 0 && from.Slot <= 0
	if whole && !i.InProgress {
		return i.Records, nil
	}
	err = s.with(ctx, i, func(r *Reader) error {
		total := i.Records
		if i.InProgress {
			last, ok, err := r.LastRecord(ctx, false)
			if err != nil || !ok {
				return err
			}
			total = last.LastPosition
		}
		if whole {
			n = total
			return nil
		}
		v, ok, err := r.firstFrom(ctx, from)
		if ok {
			n = total - v.Position + 1
		}
		return err
	})
	return n, err
}
