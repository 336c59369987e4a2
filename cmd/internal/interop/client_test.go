//go:build interop

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client is one client of a cluster inside a driver.
type client struct {
	d    *driver
	id   int64
	kind clientKind
	uri  string
}

// clientKind is a client library and the version of the protocol it speaks.
type clientKind string

const (
	javaV3 clientKind = "Java v3"
	javaV2 clientKind = "Java v2"
	ours   clientKind = "Loglode"
)

// spec is what a ledger is made with.
type spec struct {
	e, w, a  int
	digest   string
	password string
	custom   map[string]string
	deferred bool
	advanced bool
	ledger   int64 // its id if not 0
}

// usual is a ledger of three bookies with everything on each.
var usual = spec{e: 3, w: 3, a: 2, digest: "CRC32C", password: "secret"}

// ledgerState is what a handle knows by itself.
type ledgerState struct {
	Handle int64 `json:"handle"`
	Ledger int64 `json:"ledger"`
	LAC    int64 `json:"lac"`
	Closed bool  `json:"closed"`
	Length int64 `json:"length"`
}

// handle is an open ledger inside a driver.
type handle struct {
	c      *client
	id     int64
	ledger int64
	opened ledgerState
}

// segmentView and metadataView are a ledger's metadata as a client shows them.
type segmentView struct {
	First   int64    `json:"first"`
	Bookies []string `json:"bookies"`
}

type metadataView struct {
	Format   int               `json:"format"`
	Ensemble int               `json:"ensemble"`
	Write    int               `json:"write"`
	Ack      int               `json:"ack"`
	State    string            `json:"state"`
	Last     int64             `json:"last"`
	Length   int64             `json:"length"`
	Digest   string            `json:"digest"`
	Password string            `json:"password"`
	Custom   map[string]string `json:"custom"`
	Segments []segmentView     `json:"segments"`
}

// polled is the answer to a long poll.
type polled struct {
	LAC   int64  `json:"lac"`
	Entry *entry `json:"entry"`
}

// progress is how far a stream of appends came.
type progress struct {
	Acked int64  `json:"acked"`
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// callLimit bounds every request: longer than any timeout of a client.
const callLimit = 60 * time.Second

func (c *client) try(t testing.TB, op string, args map[string]any, result any) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if args == nil {
		args = map[string]any{}
	}
	args["client"] = c.id
	return c.d.call(ctx, op, args, result)
}

func (c *client) call(t testing.TB, op string, args map[string]any, result any) {
	t.Helper()
	require.NoError(t, c.try(t, op, args, result))
}

// newClient makes a client of the cluster at uri that ends with owner; settings
// are those of the driver's request "client".
func newClient(t, owner testing.TB, d *driver, kind clientKind, uri string, settings map[string]any) *client {
	t.Helper()
	c := &client{d: d, kind: kind, uri: uri}
	args := map[string]any{"uri": uri, "v2": kind == javaV2}
	for k, v := range settings {
		args[k] = v
	}
	var id int64
	c.call(t, "client", args, &id)
	c.id = id
	owner.Cleanup(func() { _ = c.try(owner, "closeClient", nil, nil) }) // its process may be dead
	return c
}

func (c *client) create(t testing.TB, s spec) *handle {
	t.Helper()
	h, err := c.tryCreate(t, s)
	require.NoError(t, err)
	return h
}

func (c *client) tryCreate(t testing.TB, s spec) (*handle, error) {
	t.Helper()
	args := map[string]any{
		"ensemble": s.e, "write": s.w, "ack": s.a, "digest": s.digest, "password": s.password,
		"deferred": s.deferred, "advanced": s.advanced,
	}
	if s.custom != nil {
		args["custom"] = s.custom
	}
	if s.ledger != 0 {
		args["ledger"] = s.ledger
	}
	return c.handle(t, "create", args)
}

func (c *client) open(t testing.TB, ledger int64, s spec, recoverIt bool) *handle {
	t.Helper()
	h, err := c.tryOpen(t, ledger, s, recoverIt)
	require.NoError(t, err)
	return h
}

func (c *client) tryOpen(t testing.TB, ledger int64, s spec, recoverIt bool) (*handle, error) {
	t.Helper()
	return c.handle(t, "open", map[string]any{"ledger": ledger, "digest": s.digest, "password": s.password, "recover": recoverIt})
}

func (c *client) handle(t testing.TB, op string, args map[string]any) (*handle, error) {
	t.Helper()
	var s ledgerState
	if err := c.try(t, op, args, &s); err != nil {
		return nil, err
	}
	return &handle{c: c, id: s.Handle, ledger: s.Ledger, opened: s}, nil
}

func (c *client) metadata(t testing.TB, ledger int64) metadataView {
	t.Helper()
	var m metadataView
	c.call(t, "metadata", map[string]any{"ledger": ledger}, &m)
	return m
}

func (h *handle) try(t testing.TB, op string, args map[string]any, result any) error {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	args["handle"] = h.id
	return h.c.try(t, op, args, result)
}

func (h *handle) call(t testing.TB, op string, args map[string]any, result any) {
	t.Helper()
	require.NoError(t, h.try(t, op, args, result))
}

// append adds pipelined entries of these sizes; they must get the ids from
// index on.
func (h *handle) append(t testing.TB, seed, index int64, sizes ...int) {
	t.Helper()
	got, want := []int64{}, []int64{}
	h.call(t, "append", map[string]any{"seed": seed, "index": index, "sizes": sizes}, &got)
	for i := range sizes {
		want = append(want, index+int64(i))
	}
	require.Equal(t, want, got, "ids of pipelined entries")
}

// read gives the entries first to last, by options "batch", "unconfirmed".
func (h *handle) read(t testing.TB, first, last int64, options ...string) []entry {
	t.Helper()
	got, err := h.tryRead(t, first, last, options...)
	require.NoError(t, err)
	return got
}

func (h *handle) tryRead(t testing.TB, first, last int64, options ...string) ([]entry, error) {
	t.Helper()
	args := map[string]any{"first": first, "last": last, "maxBytes": 1 << 20}
	for _, o := range options {
		args[o] = true
	}
	var got []entry
	return got, h.try(t, "read", args, &got)
}

// expect reads the entries 0 to len(sizes)-1 and compares them.
func (h *handle) expect(t testing.TB, seed int64, sizes ...int) {
	t.Helper()
	want := []entry{}
	for i, n := range sizes {
		want = append(want, wantEntry(seed, int64(i), n))
	}
	got := []entry{}
	for first := 0; first < len(sizes); first += 500 {
		got = append(got, h.read(t, int64(first), int64(min(first+500, len(sizes))-1))...)
	}
	require.Equal(t, want, got)
}

func (h *handle) state(t testing.TB) ledgerState {
	t.Helper()
	var s ledgerState
	h.call(t, "state", nil, &s)
	return s
}

func (h *handle) readLAC(t testing.TB) int64 {
	t.Helper()
	var lac int64
	h.call(t, "readLAC", nil, &lac)
	return lac
}

func (h *handle) poll(t testing.TB, next int64, timeout time.Duration) polled {
	t.Helper()
	var p polled
	h.call(t, "poll", map[string]any{"entry": next, "timeoutMillis": timeout.Milliseconds()}, &p)
	return p
}

func (h *handle) close(t testing.TB) {
	t.Helper()
	h.call(t, "close", nil, nil)
}

// stream appends on and on, until finish or the first failure.
func (h *handle) stream(t testing.TB, seed int64, size, window int) {
	t.Helper()
	h.call(t, "stream", map[string]any{"seed": seed, "size": size, "window": window}, nil)
}

func (h *handle) progress(t testing.TB) progress {
	t.Helper()
	var p progress
	h.call(t, "progress", nil, &p)
	return p
}

// awaitAcked waits until a stream has n entries confirmed.
func (h *handle) awaitAcked(t testing.TB, n int64) progress {
	t.Helper()
	var p progress
	require.Eventually(t, func() bool {
		p = h.progress(t)
		return p.Acked >= n || p.Error != ""
	}, callLimit, 5*time.Millisecond)
	require.Empty(t, p.Error, "after %d entries", p.Acked)
	return p
}

// finish stops a stream and waits for what is in flight.
func (h *handle) finish(t testing.TB) progress {
	t.Helper()
	var p progress
	h.call(t, "stop", nil, &p)
	return p
}

// sizesOf is n times size.
func sizesOf(n int64, size int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = size
	}
	return s
}
