package conn

import (
	"sync"
	"sync/atomic"
)

// ChunkSizes are those of pooled chunks, in bytes. A ledger that is written now
// and then uses the smallest; under load each that is filled up is followed by a
// larger one.
var ChunkSizes = [...]int{2 << 10, 16 << 10, 128 << 10}

// Chunk is memory that holds the frames of several adds back to back. The same
// bytes are sent on every connection of a write set. Chunks are counted: the
// writer of the ledger holds one reference while it fills the chunk, each entry
// that may have to be sent again one, each queue it is in one.
type Chunk struct {
	mem  []byte // whole capacity; bytes below the fill mark never change
	refs atomic.Int32
	pool *sync.Pool
	held *Held // nil: nobody counts it
	cost int64 // in held
}

// Held counts the bytes that one user's chunks keep, until the last reference
// to each is gone: frames that wait for their acknowledgements or, longer, for
// the slowest bookie to take them.
type Held struct {
	bytes atomic.Int64
	wants atomic.Int32
	freed chan struct{} // holds one signal
}

// NewHeld makes a count that is zero.
func NewHeld() *Held { return &Held{freed: make(chan struct{}, 1)} }

// Bytes is the count.
func (h *Held) Bytes() int64 { return h.bytes.Load() }

// Want makes Freed signal, until it is called with -1. Look at Bytes again
// after it.
func (h *Held) Want(n int32) { h.wants.Add(n) }

// Freed signals that the count went down.
func (h *Held) Freed() <-chan struct{} { return h.freed }

func (h *Held) drop(n int64) {
	h.bytes.Add(-n)
	if h.wants.Load() == 0 {
		return
	}
	select {
	case h.freed <- struct{}{}:
	default:
	}
}

// Chunks hands out chunks and takes them back.
type Chunks struct {
	pools [len(ChunkSizes)]sync.Pool
}

// Get gives a chunk of at least size bytes, with one reference: the caller's.
func (p *Chunks) Get(size int) *Chunk {
	c := p.get(size)
	c.refs.Store(1)
	return c
}

// GetFor is Get for a user whose bytes are counted.
func (p *Chunks) GetFor(size int, h *Held) *Chunk {
	c := p.Get(size)
	c.held = h
	return c
}

// Charge counts n more bytes of the chunk as used. Only the user calls it,
// while it fills the chunk.
func (c *Chunk) Charge(n int) {
	c.cost += int64(n)
	c.held.bytes.Add(int64(n))
}

// Cost is what was charged for the chunk.
func (c *Chunk) Cost() int64 { return c.cost }

func (p *Chunks) get(size int) *Chunk {
	for i, n := range ChunkSizes {
		if size > n {
			continue
		}
		if c, ok := p.pools[i].Get().(*Chunk); ok {
			return c
		}
		return &Chunk{mem: make([]byte, n), pool: &p.pools[i]}
	}
	return &Chunk{mem: make([]byte, size)}
}

// Size is the capacity in bytes.
func (c *Chunk) Size() int { return len(c.mem) }

// Tail is the memory from n on, with length 0, to append to.
func (c *Chunk) Tail(n int) []byte { return c.mem[n:n:len(c.mem)] }

// Bytes are the bytes from (included) to to (not included).
func (c *Chunk) Bytes(from, to int) []byte { return c.mem[from:to:to] }

// Retain adds n references.
func (c *Chunk) Retain(n int32) { c.refs.Add(n) }

// Release drops a reference; the last one gives the memory back.
func (c *Chunk) Release() {
	n := c.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		panic("conn: chunk released more often than retained")
	}
	if h := c.held; h != nil {
		cost := c.cost
		c.held, c.cost = nil, 0
		h.drop(cost)
	}
	if c.pool != nil {
		c.pool.Put(c)
	}
}

// span is a part of a chunk in a send queue; it holds one reference.
type span struct {
	chunk    *Chunk
	from, to int
}

func (s span) bytes() []byte { return s.chunk.Bytes(s.from, s.to) }

// appendSpan queues bytes of a chunk, as part of the last span where it
// continues it.
func appendSpan(q []span, c *Chunk, from, to int) []span {
	if n := len(q); n > 0 && q[n-1].chunk == c && q[n-1].to == from {
		q[n-1].to = to
		return q
	}
	c.Retain(1)
	return append(q, span{c, from, to})
}

func releaseSpans(q []span) {
	for i := range q {
		q[i].chunk.Release()
		q[i] = span{}
	}
}
