package server

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/wire"
)

// Sizes in bytes of the buffers of answers.
const (
	chunkSize    = 16 << 10 // a new chunk
	chunkCopyMax = 8 << 10  // answers up to this size are copied to the last chunk, larger ones become a chunk
	writeMax     = 1 << 20  // answers in one write, unless a single chunk is larger
	chunkPoolMax = 1 << 20  // a chunk that has grown beyond is left to the garbage collector
)

// outbox holds the answers of one connection until its writer takes them all.
type outbox struct {
	s    *Server
	wake chan struct{} // to the writer; 1 signal is enough for all that is there
	room chan struct{} // to the reader, waiting for answers to leave
	size atomic.Int64  // bytes queued or being written

	mu     sync.Mutex // guards all below
	chunks []*[]byte
	closed bool
}

func newOutbox(s *Server) outbox {
	return outbox{s: s, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// full reports whether the peer is too slow in reading answers to be given
// more work.
func (o *outbox) full() bool { return o.size.Load() >= int64(o.s.opts.OutBytesMax) }

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// tail gives a chunk with room for n bytes at the end. mu is held.
func (o *outbox) tail(n int) *[]byte {
	if k := len(o.chunks); k > 0 {
		if t := o.chunks[k-1]; cap(*t)-len(*t) >= n {
			return t
		}
	}
	t := o.s.chunks.Get().(*[]byte)
	o.chunks = append(o.chunks, t)
	return t
}

// send queues encoded answers. b is not kept.
func (o *outbox) send(b []byte) {
	o.mu.Lock()
	if !o.closed {
		t := o.tail(len(b))
		*t = append(*t, b...)
		o.size.Add(int64(len(b)))
	}
	o.mu.Unlock()
	o.signal()
}

// sendChunk queues a chunk that came from Server.chunks, and owns it.
func (o *outbox) sendChunk(b *[]byte) {
	o.mu.Lock()
	closed := o.closed
	if !closed {
		o.chunks = append(o.chunks, b)
		o.size.Add(int64(len(*b)))
	}
	o.mu.Unlock()
	if closed {
		o.s.recycle(b)
	}
	o.signal()
}

// sendAdds encodes and queues the answers to version 2 adds, whose tag is the
// protocol version to answer in.
func (o *outbox) sendAdds(results []bookie.AddResult) {
	o.mu.Lock()
	if !o.closed {
		for len(results) > 0 {
			t := o.tail(wire.AddAnswerSize)
			n := min(len(results), (cap(*t)-len(*t))/wire.AddAnswerSize)
			b := *t
			for i := range results[:n] {
				r := &results[i]
				b = wire.AppendAddAnswer(b, uint8(r.Tag), r.Status, r.Ledger, r.Entry)
			}
			o.size.Add(int64(len(b) - len(*t)))
			*t = b
			results = results[n:]
		}
	}
	o.mu.Unlock()
}

// take moves all queued chunks to dst.
func (o *outbox) take(dst []*[]byte) []*[]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	dst = append(dst, o.chunks...)
	clear(o.chunks)
	o.chunks = o.chunks[:0]
	return dst
}

// sent takes n written bytes off the count, and tells whether the outbox was
// full until now.
func (o *outbox) sent(n int) (wasFull bool) {
	limit := int64(o.s.opts.OutBytesMax)
	left := o.size.Add(-int64(n))
	if left >= limit || left+int64(n) < limit {
		return false
	}
	select {
	case o.room <- struct{}{}:
	default:
	}
	return true
}

// close drops what is queued and what will come.
func (o *outbox) close() {
	o.mu.Lock()
	chunks := o.chunks
	o.chunks, o.closed = nil, true
	o.mu.Unlock()
	for _, b := range chunks {
		o.s.recycle(b)
	}
}

// recycle gives a chunk back for the next answers.
func (s *Server) recycle(b *[]byte) {
	if cap(*b) > chunkPoolMax {
		return
	}
	*b = (*b)[:0]
	s.chunks.Put(b)
}

// writeChunks writes chunks in one system call where the connection can, and
// recycles them.
func (c *conn) writeChunks(chunks []*[]byte) (n int, err error) {
	if len(chunks) == 1 {
		n, err = c.nc.Write(*chunks[0])
	} else {
		c.vector = c.vector[:0]
		for _, b := range chunks {
			c.vector = append(c.vector, *b)
		}
		bufs := net.Buffers(c.vector)
		var n64 int64
		n64, err = bufs.WriteTo(c.nc)
		n = int(n64)
	}
	for i, b := range chunks {
		c.s.recycle(b)
		chunks[i] = nil
	}
	return n, err
}
