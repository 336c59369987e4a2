package segment

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// Options of a Tree.
type Options struct {
	Store   metadata.Store // where the streams' trees are; stays the caller's
	Path    string         // key of the namespace, "/messaging/ns"
	Ledgers *ledger.Client // where the segments are; stays the caller's

	FirstSegment int64         // number of a stream's first segment. Default 1
	Region       int           // written into new segments, 0 to 15
	Digest       bk.DigestType // of new ledgers. Default bk.DigestCRC32C
	Password     []byte        // of new ledgers. Default empty, as DistributedLog

	// ClockSkewMax is how far a segment's completion time may lie in the future
	// before retention by age refuses to trust the clock. Default 1 h.
	ClockSkewMax time.Duration

	Logger *zap.Logger // nil = none
	Events Events
}

// Events are hooks for state changes; each runs on the goroutine of the call
// that caused it and must not block. nil hooks are skipped.
type Events struct {
	Claimed   func(stream.Name)       // a writer took the stream over
	Started   func(stream.Name, Info) // a segment is in progress
	Completed func(stream.Name, Info) // a segment was completed by its writer
	Recovered func(stream.Name, Info) // a dead writer's segment was completed
	Deleted   func(stream.Name, Info) // a segment's ledger and node are gone
	Truncated func(stream.Name, stream.DLSN)
}

// Validate names each field that cannot be used, and its value.
func (o *Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("Store is nil"))
	}
	if o.Ledgers == nil {
		errs = append(errs, errors.New("Ledgers is nil"))
	}
	if err := metadata.ValidKey(o.Path); err != nil {
		errs = append(errs, fmt.Errorf("Path: %w", err))
	}
	if o.FirstSegment < 0 {
		errs = append(errs, fmt.Errorf("FirstSegment %d is negative", o.FirstSegment))
	}
	if o.Region < 0 || o.Region > wordRegionMask {
		errs = append(errs, fmt.Errorf("Region %d: want 0 to %d", o.Region, wordRegionMask))
	}
	if o.ClockSkewMax < 0 {
		errs = append(errs, fmt.Errorf("ClockSkewMax %v is negative", o.ClockSkewMax))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("segment options: %w", err)
	}
	return nil
}

// Tree is the streams below one namespace. Any number of goroutines may use it.
type Tree struct {
	opts    Options
	ledgers ledgers
	log     *zap.Logger
}

// New makes a Tree; nothing is read or written yet.
func New(opts Options) (*Tree, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.FirstSegment == 0 {
		opts.FirstSegment = 1
	}
	if opts.Digest == 0 {
		opts.Digest = bk.DigestCRC32C
	}
	if opts.ClockSkewMax == 0 {
		opts.ClockSkewMax = time.Hour
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	return &Tree{
		opts:    opts,
		ledgers: clientLedgers{client: opts.Ledgers, digest: opts.Digest, password: opts.Password},
		log:     opts.Logger.Named("segment"),
	}, nil
}

// Stream is a handle on one stream, which need not exist. It does no I/O; an
// invalid name is a *stream.NameError.
func (t *Tree) Stream(name stream.Name) (*Stream, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	return &Stream{tree: t, name: name, keys: keysOf(t.opts.Path, name)}, nil
}

// List gives the streams whose names lie below prefix ("" or a name), in key
// order, nested ones included.
func (t *Tree) List(ctx context.Context, prefix string) iter.Seq2[stream.Info, error] {
	return t.list(ctx, prefix)
}

// Stream is one stream's segments. Any number of goroutines may use it.
type Stream struct {
	tree *Tree
	name stream.Name
	keys keys

	policy *placement.Policy // of new ledgers; nil: that of the client
}

// Name is the stream's name.
func (s *Stream) Name() stream.Name { return s.name }

// Key is the stream's node in the metadata store, above <default>.
func (s *Stream) Key() string { return s.keys.stream }

func (s *Stream) store() metadata.Store { return s.tree.opts.Store }

func (s *Stream) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return MapError(fmt.Errorf("stream %s: %s: %w", s.name, what, err))
}
