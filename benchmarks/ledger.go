package benchmarks

import (
	"context"
	"errors"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
)

// Ledgers appends entries to n new ledgers at once: operation i goes to ledger
// i mod n. The ledgers are deleted at the end.
func Ledgers(ctx context.Context, c *ledger.Client, q bk.Quorum, n int, load Load) (Result, error) {
	var writers []*ledger.Writer
	for range max(n, 1) {
		w, err := c.Create(ctx, q)
		if err != nil {
			return Result{}, errors.Join(err, dropLedgers(ctx, c, writers))
		}
		writers = append(writers, w)
	}
	res, err := Run(ctx, load, ledgerTarget(writers))
	res.Name = "ledger"
	return res, errors.Join(err, dropLedgers(ctx, c, writers))
}

func ledgerTarget(writers []*ledger.Writer) Target {
	return TargetFunc(func(ctx context.Context, op *Op) {
		done, ok := op.Adapter.(func(bk.EntryID, error))
		if !ok {
			done = func(_ bk.EntryID, err error) { op.Done(err) }
			op.Adapter = done
		}
		writers[op.Index%len(writers)].Go(ctx, op.Payload, done)
	})
}

func dropLedgers(ctx context.Context, c *ledger.Client, writers []*ledger.Writer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for _, w := range writers {
		errs = append(errs, w.Close(ctx), c.Delete(ctx, w.ID()))
	}
	return errors.Join(errs...)
}

// SequentialRead writes entries to one ledger, closes it, and reads it from
// first to last passes times, each pass measured for itself. The first pass
// after a restart of the bookies is a cold one.
func SequentialRead(ctx context.Context, c *ledger.Client, q bk.Quorum, entries int64, passes int, load Load) ([]Result, error) {
	w, err := c.Create(ctx, q)
	if err != nil {
		return nil, err
	}
	load.Count, load.Warmup = entries, time.Nanosecond
	if _, err := Run(ctx, load, ledgerTarget([]*ledger.Writer{w})); err != nil {
		return nil, errors.Join(err, dropLedgers(ctx, c, []*ledger.Writer{w}))
	}
	if err := w.Close(ctx); err != nil {
		return nil, err
	}
	var out []Result
	for range passes {
		res, err := readPass(ctx, c, w.ID(), load)
		if err != nil {
			return out, err
		}
		out = append(out, res)
	}
	return out, c.Delete(ctx, w.ID())
}

func readPass(ctx context.Context, c *ledger.Client, id bk.LedgerID, load Load) (Result, error) {
	r, err := c.Open(ctx, id, ledger.NoRecovery)
	if err != nil {
		return Result{}, err
	}
	before, begin := ReadUsage(load.ServerPIDs), time.Now()
	var n int64
	for _, err := range r.Entries(ctx, 0, r.LAC()) {
		if err != nil {
			return Result{}, errors.Join(err, r.Close())
		}
		n++
	}
	res := newResult(load, n, time.Since(begin), newHistogram(), ReadUsage(load.ServerPIDs).Since(before))
	res.Name = "sequential read"
	return res, r.Close()
}
