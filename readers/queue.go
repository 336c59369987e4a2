package readers

import (
	"sync"

	"github.com/loglode/loglode/segment"
)

// chunkBytes is how much a chunk gathers before it is handed over.
const chunkBytes = 128 << 10

// chunk is a run of entries of one segment, or the end of the fetching.
type chunk struct {
	seg     segment.Info
	fresh   bool         // the first of its segment, or after a jump
	jumped  bool         // records before it were truncated and skipped
	before  segment.Info // of a fresh one: the segment before, as listed after its end
	buf     []byte       // payloads of the entries, back to back
	entries []span
	err     error // instead of entries: why there is nothing more; io.EOF
}

type span struct {
	id         int64
	start, end int
}

func (c *chunk) payload(s span) []byte { return c.buf[s.start:s.end:s.end] }

func (c *chunk) add(id int64, payload []byte) {
	start := len(c.buf)
	c.buf = append(c.buf, payload...)
	c.entries = append(c.entries, span{id, start, len(c.buf)})
}

// queue hands chunks from the fetcher to the reader, bounded by bytes.
type queue struct {
	ready chan struct{} // a chunk was put
	room  chan struct{} // one was released

	mu    sync.Mutex // guards what follows
	items []*chunk
	head  int
	bytes int64 // of items and of chunks taken and not released
	limit int64
	free  []*chunk
	spare int64 // bytes of their buffers
	shut  bool  // nothing more is taken
	cause error // failure that the fetcher is trying to get over
}

func (q *queue) init(limit int64) {
	q.ready, q.room, q.limit = make(chan struct{}, 1), make(chan struct{}, 1), limit
}

// newChunk gives an empty chunk with the buffer of an old one.
func (q *queue) newChunk() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.free); n > 0 {
		c := q.free[n-1]
		q.free = q.free[:n-1]
		q.spare -= int64(cap(c.buf))
		return c
	}
	return &chunk{}
}

// put adds a chunk, whatever the limit.
func (q *queue) put(c *chunk) {
	q.mu.Lock()
	q.items = append(q.items, c)
	q.bytes += int64(len(c.buf))
	q.cause = nil
	q.mu.Unlock()
	poke(q.ready)
}

// hasRoom reports whether another chunk may be fetched.
func (q *queue) hasRoom() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes < q.limit
}

// take gives the oldest chunk, nil if there is none.
func (q *queue) take() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.items) || q.shut {
		return nil
	}
	c := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return c
}

// release gives a taken chunk back.
func (q *queue) release(c *chunk) {
	if c == nil {
		return
	}
	q.mu.Lock()
	full := q.bytes >= q.limit
	q.bytes -= int64(len(c.buf))
	rouse := full && q.bytes < q.limit
	if size := int64(cap(c.buf)); size <= 8*chunkBytes && q.spare+size <= q.limit {
		q.spare += size
		*c = chunk{buf: c.buf[:0], entries: c.entries[:0]}
		q.free = append(q.free, c)
	}
	q.mu.Unlock()
	if rouse {
		poke(q.room)
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.shut = true
	q.mu.Unlock()
}

func (q *queue) setTrouble(err error) {
	q.mu.Lock()
	q.cause = err
	q.mu.Unlock()
}

func (q *queue) trouble() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cause
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
