package segment

import (
	"context"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/placement"
)

// ledgers is what this package asks of ledger.Client.
type ledgers interface {
	// create makes a ledger, on bookies chosen by p if that is not nil.
	create(ctx context.Context, q bk.Quorum, p *placement.Policy) (bk.LedgerID, ledgerWriter, error)
	open(ctx context.Context, id bk.LedgerID, mode ledger.OpenMode) (ledgerReader, error)
	// remove deletes a ledger; one that does not exist is success.
	remove(ctx context.Context, id bk.LedgerID) error
}

// ledgerWriter is a *ledger.Writer.
type ledgerWriter interface {
	Go(ctx context.Context, p []byte, done func(bk.EntryID, error))
	TryGo(p []byte, done func(bk.EntryID, error)) error
	Err() error
	Close(ctx context.Context) error
	Abort() error
}

// ledgerReader is a *ledger.Reader.
type ledgerReader interface {
	LAC() bk.EntryID
	Closed() bool
	Entries(ctx context.Context, first, last bk.EntryID) iter.Seq2[bk.Entry, error]
	ReadNext(ctx context.Context, after bk.EntryID) (bk.Entry, error)
	Close() error
}

// clientLedgers is the real thing.
type clientLedgers struct {
	client   *ledger.Client
	digest   bk.DigestType
	password []byte
}

func (c clientLedgers) create(ctx context.Context, q bk.Quorum, p *placement.Policy) (bk.LedgerID, ledgerWriter, error) {
	opts := []ledger.CreateOption{ledger.WithDigest(c.digest), ledger.WithPassword(c.password)}
	if p != nil {
		opts = append(opts, ledger.WithPlacement(*p))
	}
	w, err := c.client.Create(ctx, q, opts...)
	if err != nil {
		return bk.InvalidLedgerID, nil, err
	}
	return w.ID(), w, nil
}

func (c clientLedgers) open(ctx context.Context, id bk.LedgerID, mode ledger.OpenMode) (ledgerReader, error) {
	r, err := c.client.Open(ctx, id, mode)
	if err != nil {
		return nil, err // not a nil *ledger.Reader in an interface
	}
	return r, nil
}

func (c clientLedgers) remove(ctx context.Context, id bk.LedgerID) error {
	return ignoreMissing(c.client.Delete(ctx, id))
}
