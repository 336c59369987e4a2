package layout

import (
	"context"
	"errors"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

var errTodo = errors.New("not built yet")

// Cluster is one initialised cluster of bookies. Any number of goroutines may
// use it. It starts no goroutine of its own but those of its watches.
type Cluster struct {
	store      metadata.Store
	scope      string
	instanceID string
}

// Init makes a new cluster below scope ("/bk") and gives its instance id. It
// fails with metadata.ErrExists if there is one.
func Init(ctx context.Context, store metadata.Store, scope string) (string, error) {
	return "", errTodo
}

// Open uses the cluster below scope; metadata.ErrNotFound if Init never ran.
func Open(ctx context.Context, store metadata.Store, scope string) (*Cluster, error) {
	return nil, errTodo
}

// Store is the store the cluster lives in.
func (c *Cluster) Store() metadata.Store { return c.store }

// Scope is the key the cluster lives below, without a slash at its end.
func (c *Cluster) Scope() string { return c.scope }

// InstanceID is the cluster's random id; cookies carry it.
func (c *Cluster) InstanceID() string { return c.instanceID }

// Mode says which of the two lists a bookie is in.
type Mode uint8

const (
	Writable Mode = iota // takes new ledgers
	ReadOnly             // serves what it has
)

// Bookies lists the registered bookies, each list sorted. A bookie that is in
// both (it is changing over) is only in Writable.
type Bookies struct {
	Writable, ReadOnly []bk.BookieID
}

// Bookies gives the bookies registered now.
func (c *Cluster) Bookies(ctx context.Context) (Bookies, error) { return Bookies{}, errTodo }

// WatchBookies signals when a bookie comes, goes, changes its mode or its
// address; see metadata.Watch.
func (c *Cluster) WatchBookies(ctx context.Context) (metadata.Watch, error) { return nil, errTodo }

// Resolve gives the address ("host:port") to dial a bookie at: from its service
// info if it published one, else the id itself. Unregistered or unresolvable
// bookies: metadata.ErrNotFound, bk.ErrBookieUnavailable.
func (c *Cluster) Resolve(ctx context.Context, id bk.BookieID) (string, error) { return "", errTodo }

// ServiceInfo is what a bookie tells about itself.
type ServiceInfo struct {
	Endpoints  []Endpoint
	Properties map[string]string
}

// Endpoint is one place a bookie serves at.
type Endpoint struct {
	ID         string // "bookie", "httpserver"
	Host       string
	Port       int
	Protocol   string // "bookie-rpc", "http"
	Auth       []string
	Extensions []string
}

// Register lists the bookie under sess, moving it over if it is in the other
// list. If the id is taken by another session, it waits for that one to end
// for as long as ctx allows (allow two session TTLs), then metadata.ErrExists.
func (c *Cluster) Register(ctx context.Context, sess metadata.Session, id bk.BookieID, info ServiceInfo, mode Mode) error {
	return errTodo
}

// Unregister takes the bookie out of both lists, as far as sess owns it.
func (c *Cluster) Unregister(ctx context.Context, sess metadata.Session, id bk.BookieID) error {
	return errTodo
}

// Cookie gives the stored cookie of a bookie and its version for a later
// update; metadata.ErrNotFound if the bookie never had one.
func (c *Cluster) Cookie(ctx context.Context, id bk.BookieID) ([]byte, metadata.Version, error) {
	return nil, 0, errTodo
}

// CreateCookie stores the first cookie of a bookie; metadata.ErrExists.
func (c *Cluster) CreateCookie(ctx context.Context, id bk.BookieID, cookie []byte) error {
	return errTodo
}

// UpdateCookie overwrites a cookie that has version v; metadata.ErrConflict.
func (c *Cluster) UpdateCookie(ctx context.Context, id bk.BookieID, cookie []byte, v metadata.Version) error {
	return errTodo
}

// DeleteCookie removes the cookie that has version v; none there is success.
func (c *Cluster) DeleteCookie(ctx context.Context, id bk.BookieID, v metadata.Version) error {
	return errTodo
}

// NewLedgerID gives an id that no other call on this cluster was given. Ids
// use up to 63 bits from the first on.
func (c *Cluster) NewLedgerID(ctx context.Context) (bk.LedgerID, error) { return 0, errTodo }

// CreateLedger stores the metadata of a new ledger and gives its version;
// bk.ErrLedgerExists if the id is taken by another. One's own create whose
// answer was lost counts as success.
func (c *Cluster) CreateLedger(ctx context.Context, id bk.LedgerID, m *LedgerMetadata) (metadata.Version, error) {
	return 0, errTodo
}

// Ledger gives the metadata of a ledger; bk.ErrNoSuchLedger.
func (c *Cluster) Ledger(ctx context.Context, id bk.LedgerID) (*LedgerMetadata, metadata.Version, error) {
	return nil, 0, errTodo
}

// UpdateLedger overwrites the metadata if it still has version v, and gives the
// new version. bk.ErrMetadataConflict: someone else changed it, read again and
// test the precondition again. metadata.ErrUnknownOutcome: it may have been
// written, and could not be read back either.
func (c *Cluster) UpdateLedger(ctx context.Context, id bk.LedgerID, m *LedgerMetadata, v metadata.Version) (metadata.Version, error) {
	return 0, errTodo
}

// DeleteLedger removes the metadata, whatever its version; none there is
// success. Bookies find out by their own garbage collection.
func (c *Cluster) DeleteLedger(ctx context.Context, id bk.LedgerID) error { return errTodo }

// Ledgers lists all ledgers of the cluster in the order of their ids. The
// sequence ends after the first error.
func (c *Cluster) Ledgers(ctx context.Context) iter.Seq2[bk.LedgerID, error] {
	return func(yield func(bk.LedgerID, error) bool) { yield(0, errTodo) }
}

// WatchLedger signals changes of one ledger's metadata.
func (c *Cluster) WatchLedger(ctx context.Context, id bk.LedgerID) (metadata.Watch, error) {
	return nil, errTodo
}

// Marshal gives the stored bytes, in m.FormatVersion.
func (m *LedgerMetadata) Marshal() ([]byte, error) { return nil, errTodo }

// ParseLedgerMetadata decodes stored bytes of format 1, 2 or 3. Bytes that do
// not parse or break a rule of the format are bk.ErrCorrupt.
func ParseLedgerMetadata(b []byte) (*LedgerMetadata, error) { return nil, errTodo }

// Cookie is what ties a bookie's directories to its identity: the same text is
// in metadata and in file VERSION of each of its directories.
type Cookie struct {
	LayoutVersion int // 5, the default for 0; 3 and 4 are parsed
	BookieID      string
	JournalDirs   string // paths joined by ','
	LedgerDirs    string // count and paths, joined by TAB
	InstanceID    string // "" = none
	IndexDirs     string // as LedgerDirs; "" = none
}

// Marshal gives the cookie's text.
func (c Cookie) Marshal() []byte { return nil }

// ParseCookie decodes a cookie's text; bk.ErrCorrupt.
func ParseCookie(b []byte) (Cookie, error) { return Cookie{}, errTodo }
