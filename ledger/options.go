package ledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/placement"
)

// Options of a Client. The zero value of each field is its default.
type Options struct {
	// Dial opens a connection to a bookie's address (host:port). Default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	DialTimeout time.Duration // to connect to a bookie. Default 10 s
	AddTimeout  time.Duration // for one bookie to answer an add. Default 5 s
	ReadTimeout time.Duration // for one bookie to answer a read or a fence. Default 5 s
	// SpeculativeReadTimeout is the longest that a read waits for one replica
	// before the next one is asked too, and how long it does while it is not
	// known how fast answers are; then it waits half as long again as the best
	// replica takes for 99 of 100 reads, at least 10 ms. Default 2 s.
	SpeculativeReadTimeout time.Duration
	// MetadataTimeout bounds one metadata read or write made in the background,
	// and Create, Close and Delete where no earlier deadline of the caller's
	// context does. Default 10 s.
	MetadataTimeout time.Duration

	// BytesInFlight is the most bytes, payloads and about 64 bytes an entry,
	// that one Writer has not seen confirmed. Go blocks beyond it, TryGo answers
	// bk.ErrBufferFull. One entry may always be in flight, whatever its size.
	// Default 16 MiB.
	BytesInFlight int64
	// QueueBytes is the most memory of one client that waits to be sent on one
	// connection to a bookie, of which there are at most two. A bookie that does
	// not keep up with that counts as failed: entries that have their Qa
	// acknowledgements from others do not wait for it. At least twice
	// BytesInFlight: an ensemble change moves all of it at once. Default 64 MiB,
	// or four times BytesInFlight if that is more.
	QueueBytes int64
	// ReadAheadBytes is how much one Entries iteration fetches before it is
	// asked for. Default 4 MiB.
	ReadAheadBytes int64

	// FailWhenShort ends a writer with bk.ErrNotEnoughBookies when a bookie that
	// failed cannot be replaced. Otherwise the writer goes on, as long as every
	// entry still gets its Qa acknowledgements; entries of that time have fewer
	// than Qw copies until they are re-replicated.
	FailWhenShort bool
	// DelayEnsembleChange keeps a bookie that failed in the ensemble until an
	// entry has lost more than Qw - Qa copies or a bookie is read-only. Fewer
	// changes, but entries of that time have fewer than Qw copies, and the
	// metadata name bookies that lack them.
	DelayEnsembleChange bool
	// EnsembleChangesMax ends a writer with bk.ErrTooManyChanges when it would
	// need more ensemble changes than this. 0 = no limit.
	EnsembleChangesMax int
	// AddQuorumTimeout ends a writer with bk.ErrTimeout when an add waits this
	// long for its Qa acknowledgements, ensemble changes included. 0 = never:
	// bookies are replaced, by AddTimeout, as long as there are others.
	AddQuorumTimeout time.Duration

	// LACDelay is how long a writer is idle before it tells the bookies its
	// LAC, so that tailing readers see the last entry. At most 1 s. Default 2 ms;
	// negative: never.
	LACDelay time.Duration
	// LongPollTimeout is how long a bookie may hold a LAC wait. Default 10 s.
	LongPollTimeout time.Duration

	// Placement says which bookies ledgers are on. Default: spread over zones
	// and racks as far as those are known.
	Placement Placement
	// Seed makes the choice of bookies repeatable. 0 = a random seed.
	Seed uint64

	Logger     *zap.Logger           // nil = none
	Registerer prometheus.Registerer // nil = no metrics
	Events     Events
}

// Option changes the Options of Connect.
type Option func(*Options)

// Events are hooks for state changes. Each runs on the goroutine named with no
// lock held and must not block. nil hooks are skipped.
type Events struct {
	// EnsembleChanged: a writer or a recovery replaced bookies and the metadata
	// has it. Called from the ledger's change goroutine.
	EnsembleChanged func(EnsembleChange)
	// Fenced: a writer found that another client owns the end of its ledger.
	// Called from the goroutine that got the answer.
	Fenced func(l bk.LedgerID)
	// Recovered: a recovery closed a ledger. Called from the goroutine of Open.
	Recovered func(l bk.LedgerID, last bk.EntryID, took time.Duration)
	// SpeculativeRead: a replica was silent for so long that the next one was
	// asked too. Called from the reading goroutine.
	SpeculativeRead func(l bk.LedgerID, e bk.EntryID, silent bk.BookieID)
}

// EnsembleChange says which bookies replaced which from First on.
type EnsembleChange struct {
	Ledger bk.LedgerID
	First  bk.EntryID // first entry of the new segment
	From   []bk.BookieID
	To     []bk.BookieID // From[i] was replaced by To[i]
}

const lacDelayMax = time.Second

// Validate names each field that cannot be used, and its value.
func (o *Options) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"DialTimeout", o.DialTimeout}, {"AddTimeout", o.AddTimeout}, {"ReadTimeout", o.ReadTimeout},
		{"SpeculativeReadTimeout", o.SpeculativeReadTimeout}, {"MetadataTimeout", o.MetadataTimeout},
		{"LongPollTimeout", o.LongPollTimeout}, {"AddQuorumTimeout", o.AddQuorumTimeout},
	} {
		if d.v < 0 {
			errs = append(errs, fmt.Errorf("%s %v is negative", d.name, d.v))
		}
	}
	if err := o.Placement.Policy.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Placement: %w", err))
	}
	if o.LACDelay > lacDelayMax {
		errs = append(errs, fmt.Errorf("LACDelay %v is over %v", o.LACDelay, lacDelayMax))
	}
	if o.BytesInFlight < 0 {
		errs = append(errs, fmt.Errorf("BytesInFlight %d is negative", o.BytesInFlight))
	}
	if d := o.withDefaults(); d.QueueBytes < 2*d.BytesInFlight {
		errs = append(errs, fmt.Errorf("QueueBytes %d is less than twice BytesInFlight %d", o.QueueBytes, d.BytesInFlight))
	}
	if o.EnsembleChangesMax < 0 {
		errs = append(errs, fmt.Errorf("EnsembleChangesMax %d is negative", o.EnsembleChangesMax))
	}
	if o.DelayEnsembleChange && o.FailWhenShort {
		errs = append(errs, errors.New("DelayEnsembleChange and FailWhenShort exclude each other"))
	}
	if o.ReadAheadBytes < 0 {
		errs = append(errs, fmt.Errorf("ReadAheadBytes %d is negative", o.ReadAheadBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ledger options: %w", err)
	}
	return nil
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.DialTimeout, 10*time.Second)
	def(&o.AddTimeout, 5*time.Second)
	def(&o.ReadTimeout, 5*time.Second)
	def(&o.SpeculativeReadTimeout, 2*time.Second)
	def(&o.MetadataTimeout, 10*time.Second)
	def(&o.LACDelay, 2*time.Millisecond)
	def(&o.LongPollTimeout, 10*time.Second)
	if o.BytesInFlight == 0 {
		o.BytesInFlight = 16 << 20
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = max(64<<20, 4*o.BytesInFlight)
	}
	if o.ReadAheadBytes == 0 {
		o.ReadAheadBytes = 4 << 20
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	return o
}

// createConfig is what CreateOptions set.
type createConfig struct {
	digest       bk.DigestType
	password     []byte
	custom       map[string][]byte
	id           bk.LedgerID
	deferredSync bool
	placement    *placement.Policy // nil: Options.Placement
}

// CreateOption changes how Create makes a ledger.
type CreateOption func(*createConfig)

// WithDigest chooses how entries prove their content. Default bk.DigestCRC32C.
func WithDigest(t bk.DigestType) CreateOption { return func(c *createConfig) { c.digest = t } }

// WithPassword sets the ledger's password: who writes or recovers the ledger
// must know it. It is kept in the metadata. Default empty.
func WithPassword(p []byte) CreateOption { return func(c *createConfig) { c.password = p } }

// WithCustomMetadata stores key-value pairs in the ledger's metadata.
func WithCustomMetadata(m map[string][]byte) CreateOption {
	return func(c *createConfig) { c.custom = m }
}

// WithLedgerID chooses the ledger's id; Create then fails with
// bk.ErrLedgerExists if it is taken. Default: a new id from the metadata store.
func WithLedgerID(id bk.LedgerID) CreateOption { return func(c *createConfig) { c.id = id } }

// WithDeferredSync lets bookies answer adds before they are on disk. Entries
// then complete when they are in memory of Qa bookies, and the LAC moves with
// Force alone.
func WithDeferredSync() CreateOption { return func(c *createConfig) { c.deferredSync = true } }

type openConfig struct {
	password    []byte
	hasPassword bool
	digest      bk.DigestType // 0: not given
}

// OpenOption changes how Open opens a ledger.
type OpenOption func(*openConfig)

// WithOpenPassword gives the ledger's password instead of the one in its
// metadata; Open fails with bk.ErrUnauthorized if they differ.
func WithOpenPassword(p []byte) OpenOption {
	return func(c *openConfig) { c.password, c.hasPassword = p, true }
}

// WithOpenDigest gives the digest type of a ledger whose metadata do not name
// one: those of very old writers. What the metadata name always holds. Default
// bk.DigestCRC32.
func WithOpenDigest(t bk.DigestType) OpenOption {
	return func(c *openConfig) { c.digest = t }
}

// OpenMode says what Open does with a ledger that is not closed.
type OpenMode uint8

const (
	// NoRecovery leaves the writer alone: the reader follows its LAC.
	NoRecovery OpenMode = iota
	// Recover fences the writer out, settles the ledger's end and closes it.
	Recover
)
