package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// epoch is the state of the ledgers node that a claim must find.
type epoch struct {
	version metadata.Version
	writes  int64
	segment int64 // the node's number: highest segment ever started
}

// Claim is the right to write a stream, until another Claim takes it. Calls
// that change metadata wait for each other.
type Claim struct {
	s    *Stream
	turn chan struct{} // held by the call that changes the fields below, also over I/O

	epoch       epoch
	unsettled   *step
	maxTxID     stream.TxID // value of the maxtxid node
	maxTxIDAt   metadata.Version
	allocatedAt metadata.Version // version of the allocation node
	allocated   bk.LedgerID      // value of the allocation node: made, and in no segment yet
	leftover    bk.LedgerID      // to delete after the next allocation
	newest      int64            // number of the newest segment, 0 without one
	last        Info             // newest completed segment, zero without one
	open        []*Writer        // started and not completed, oldest first

	mu     sync.Mutex // guards what follows
	lost   error
	sealed bool
	lastTx stream.TxID
}

// Claim takes the stream over: writers of older claims can start and complete
// no segment from now on, segments in progress are fenced, recovered and
// completed (empty ones deleted). It fails with stream.ErrNotFound without a
// stream, with stream.ErrFenced if another claim came in between.
func (s *Stream) Claim(ctx context.Context) (*Claim, error) {
	c, err := s.claim(ctx)
	if err != nil {
		return nil, s.wrap("take over", err)
	}
	if f := s.tree.opts.Events.Claimed; f != nil {
		f(s.name)
	}
	return c, nil
}

var errOvertaken = errors.New("a newer claim came first")

func (s *Stream) claim(ctx context.Context) (*Claim, error) {
	e, err := s.bumpEpoch(ctx)
	if err != nil {
		return nil, err
	}
	c := &Claim{
		s: s, turn: make(chan struct{}, 1), epoch: e, lastTx: stream.InvalidTxID,
		allocated: bk.InvalidLedgerID, leftover: bk.InvalidLedgerID,
	}
	// From here on no older claim can change the stream's nodes, so what is
	// read now stays true until this claim changes it, or a newer one does.
	if err := c.readState(ctx); err != nil {
		return nil, err
	}
	nodes, err := s.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	// A newer claim may have started a segment before the list was read. Fencing
	// it would cost the stream its owner.
	if err := c.check(ctx, errOvertaken); err != nil {
		return nil, err
	}
	if len(nodes) > 0 {
		c.newest = nodes[len(nodes)-1].info.Segment
	}
	for _, n := range nodes {
		if err := c.take(ctx, n); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// bumpEpoch writes the ledgers node unchanged. A version that was compared by
// an older claim is stale from then on.
func (s *Stream) bumpEpoch(ctx context.Context) (epoch, error) {
	for {
		if err := s.checkLayout(ctx); err != nil {
			return epoch{}, err
		}
		n, err := s.store().Get(ctx, s.keys.ledgers)
		if err != nil {
			return epoch{}, err
		}
		segment, err := parseNumber(n)
		if err != nil {
			return epoch{}, err
		}
		res, err := s.store().Txn(ctx, metadata.Set(n.Key, n.Value, n.Version))
		switch {
		case err == nil:
			return epoch{version: res.Nodes[0].Version, writes: n.Writes + 1, segment: segment}, nil
		case ctx.Err() != nil:
			return epoch{}, err
		case !refused(err) && !errors.Is(err, metadata.ErrUnknownOutcome):
			return epoch{}, err
		}
		// Another client wrote it in between, or this one did and does not know:
		// writing it once more is right in both cases.
	}
}

func (s *Stream) checkLayout(ctx context.Context) error {
	n, err := s.store().Get(ctx, s.keys.version)
	if err != nil {
		return err
	}
	if !bytes.Equal(n.Value, layoutVersion) {
		return fmt.Errorf("%s: layout version %x, want %x: %w", n.Key, n.Value, layoutVersion, stream.ErrUnsupported)
	}
	return nil
}

func parseNumber(n metadata.Node) (int64, error) {
	v, err := strconv.ParseInt(string(n.Value), 10, 64)
	if err != nil {
		return 0, &stream.CorruptError{Where: n.Key, Offset: -1, Want: "a 64-bit number", Got: strconv.Quote(cut(string(n.Value)))}
	}
	return v, nil
}

// parseAllocation reads the allocation node: empty, or a ledger id.
func parseAllocation(key string, value []byte) (bk.LedgerID, error) {
	if len(value) == 0 {
		return bk.InvalidLedgerID, nil
	}
	id, err := parseNumber(metadata.Node{Key: key, Value: value})
	return bk.LedgerID(id), err
}

// readState reads what the claim's transactions will compare.
func (c *Claim) readState(ctx context.Context) error {
	k := &c.s.keys
	n, err := c.s.store().Get(ctx, k.maxTxID)
	if err != nil {
		return err
	}
	c.maxTxIDAt = n.Version
	c.maxTxID = stream.InvalidTxID
	if v, err := parseNumber(n); err == nil { // DistributedLog takes garbage for "none", and overwrites it
		c.maxTxID = stream.TxID(v)
	}
	n, err = c.s.store().Get(ctx, k.allocation)
	if err != nil {
		return err
	}
	c.allocatedAt = n.Version
	c.leftover, err = parseAllocation(k.allocation, n.Value)
	return err
}

// take adds a segment of the list to the claim, recovered if it is in progress.
func (c *Claim) take(ctx context.Context, n segmentNode) error {
	if n.info.InProgress {
		return c.recover(ctx, n)
	}
	c.completed(n.info)
	return nil
}

// completed notes the newest completed segment.
func (c *Claim) completed(i Info) {
	c.last = i
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastTx = max(c.lastTx, i.LastTxID)
	c.sealed = c.sealed || i.Sealed()
}

// Stream is what the claim is on.
func (c *Claim) Stream() *Stream { return c.s }

// LastTxID is the highest txid of the stream's completed segments,
// stream.InvalidTxID if there is none.
func (c *Claim) LastTxID() stream.TxID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastTx
}

// Sealed reports whether the stream has its end-of-stream record.
func (c *Claim) Sealed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sealed
}

// Err is nil until the claim is known to be lost, then what every call fails
// with: it wraps stream.ErrFenced.
func (c *Claim) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// lose ends the claim for good.
func (c *Claim) lose(what string, cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = &stream.FencedError{Stream: c.s.name, At: time.Now(), Cause: fmt.Errorf("%s: %w", what, cause)}
		c.s.tree.log.Info("stream was taken over by another writer", c.s.fields(Info{Segment: c.newest, Ledger: bk.InvalidLedgerID}, c.lost)...)
	}
	return c.lost
}

// enter takes the turn to change the claim.
func (c *Claim) enter(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Claim) leave() { <-c.turn }
