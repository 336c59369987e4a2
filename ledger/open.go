package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/metadata/layout"
)

// Open gives a reader of a ledger. With Recover a ledger that is not closed is
// fenced, recovered and closed first. It fails with bk.ErrNoSuchLedger when
// the metadata has no such ledger, with bk.ErrRecoveryFailed when too few
// bookies answered to be sure of the end.
func (c *Client) Open(ctx context.Context, id bk.LedgerID, mode OpenMode, opts ...OpenOption) (*Reader, error) {
	var cfg openConfig
	for _, o := range opts {
		o(&cfg)
	}
	stored := storedMetadata{cluster: c.cluster, id: id}
	var err error
	if stored.meta, stored.version, err = c.cluster.Ledger(ctx, id); err != nil {
		return nil, fmt.Errorf("open ledger %d: %w", id, err)
	}
	if err = stored.check(); err != nil {
		return nil, fmt.Errorf("open ledger %d: metadata: %w", id, err)
	}
	digester, password, err := openDigester(stored.meta, cfg)
	if err != nil {
		return nil, fmt.Errorf("open ledger %d: %w", id, err)
	}
	if mode == Recover && stored.meta.State != layout.StateClosed {
		if err := c.recover(ctx, &stored, digester, password); err != nil {
			return nil, fmt.Errorf("recover ledger %d: %w", id, err)
		}
	}
	r, err := newReader(ctx, c, stored, digester)
	if err != nil {
		return nil, fmt.Errorf("open ledger %d: %w", id, err)
	}
	return r, nil
}

// openDigester checks the password and makes the digester. Ledgers of very old
// writers have neither in their metadata; they use CRC-32.
func openDigester(m *layout.LedgerMetadata, cfg openConfig) (*bk.Digester, []byte, error) {
	typ, password := m.Digest, m.Password
	if !m.HasPassword {
		typ, password = bk.DigestCRC32, cfg.password
		if cfg.digest != 0 {
			typ = cfg.digest
		}
	} else if cfg.hasPassword && !bytes.Equal(cfg.password, m.Password) {
		return nil, nil, bk.ErrUnauthorized
	}
	d, err := bk.NewDigester(typ, password)
	return d, password, err
}

// readLAC asks the bookies of the last segment for the LAC, without fencing
// (rule 26).
func (c *Client) readLAC(ctx context.Context, stored *storedMetadata, d *bk.Digester) (quorum.LACAnswer, error) {
	q := stored.meta.Quorum
	var read quorum.LACRead
	read.Start(stored.id, q)
	in := newInbox()
	for p, b := range stored.meta.LastSegment().Ensemble {
		c.pool.Bookie(b).Start(&conn.Call{
			Op: conn.OpReadLAC, Ledger: stored.id, Tag: p, Timeout: c.opts.ReadTimeout, Done: in.done,
		})
	}
	best := quorum.LACAnswer{Entry: bk.InvalidEntryID, LAC: bk.InvalidEntryID}
	var calls []*conn.Call
	for {
		select {
		case <-in.wake:
		case <-ctx.Done():
			return best, context.Cause(ctx)
		}
		calls = in.take(calls)
		for _, call := range calls {
			if call.Op == conn.OpReadLAC && mayNotFit(call.Failure()) && len(call.LACBody) == 0 {
				c.pool.Bookie(call.Bookie.ID()).Start(&conn.Call{ // the last entry, as a client of version 2 does
					Op: conn.OpRead, Ledger: stored.id, Entry: bk.InvalidEntryID, Tag: call.Tag, Timeout: call.Timeout, Done: in.done,
				})
				continue
			}
			a, err := lacAnswer(call, d)
			if err == nil && a.Length > best.Length {
				best.Length = a.Length
			}
			switch read.Answer(call.Tag, a, err) {
			case quorum.LACCovered:
				best.LAC = read.LAC()
				return best, nil
			case quorum.LACFailed:
				return best, read.Err()
			case quorum.LACPending:
			}
		}
	}
}

// lacAnswer verifies what one bookie said of the LAC: the larger of that in its
// last entry and the explicit one. A bookie of Java answers EIO when it has
// only the explicit one.
func lacAnswer(call *conn.Call, d *bk.Digester) (quorum.LACAnswer, error) {
	a := quorum.LACAnswer{Entry: bk.InvalidEntryID, LAC: bk.InvalidEntryID}
	err := call.Failure()
	if err != nil && (len(call.LACBody) == 0 || call.Err != nil || call.Status != bk.StatusIO) {
		return a, err
	}
	if len(call.LACBody) > 0 {
		lac, verr := d.VerifyLAC(call.LACBody, call.Ledger)
		if verr != nil {
			return a, &bk.BookieError{Bookie: call.Bookie.ID(), Err: verr}
		}
		a.LAC, err = lac, nil
	}
	if len(call.Body) > 0 {
		ent, verr := d.Verify(call.Body, call.Ledger, bk.InvalidEntryID)
		if verr != nil {
			return a, &bk.BookieError{Bookie: call.Bookie.ID(), Err: verr}
		}
		a.Entry, a.Length, a.LAC = ent.ID, ent.Length, max(a.LAC, ent.LAC)
	}
	if len(call.LACBody)+len(call.Body) == 0 {
		return a, &bk.BookieError{Bookie: call.Bookie.ID(), Err: fmt.Errorf("answer without a LAC: %w", bk.ErrCorrupt)}
	}
	return a, err
}

// pastEnd is the error of a read behind the LAC.
func pastEnd(id bk.LedgerID, e, lac bk.EntryID) error {
	return fmt.Errorf("ledger %d entry %d, last confirmed is %d: %w", id, e, lac, bk.ErrReadPastLAC)
}

// errMoved says that the ledger's metadata changed under a long poll.
var errMoved = errors.New("ledger metadata changed")
