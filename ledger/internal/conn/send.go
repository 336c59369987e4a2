package conn

import (
	"net"
)

// Limits of one write: beyond them a batch is sent in several.
const (
	writeMaxBytes = 1 << 20
	// gatherMax is up to how many bytes the spans of a batch are copied
	// together on average; longer spans are handed to the kernel one by one.
	gatherMax = 4 << 10
	gatherCap = 256 << 10
)

// sender is a batch on its way out. It belongs to whoever has link.writing.
type sender struct {
	batch   []span
	next    int    // first span of batch not sent entirely
	off     int    // bytes of it that were sent
	scratch []byte // spans copied together
	vec     net.Buffers

	onFD func(uintptr) bool // see writeNow
	err  error
}

func (s *sender) empty() bool { return s.next == len(s.batch) }

func (s *sender) reset() {
	releaseSpans(s.batch[s.next:])
	s.batch, s.next, s.off = s.batch[:0], 0, 0
}

// advance notes that n bytes were sent.
func (s *sender) advance(n int) {
	for n > 0 {
		sp := &s.batch[s.next]
		left := sp.to - sp.from - s.off
		if n < left {
			s.off += n
			return
		}
		n -= left
		sp.chunk.Release()
		*sp = span{}
		s.next++
		s.off = 0
	}
	if s.empty() {
		s.batch, s.next = s.batch[:0], 0
	}
}

// fill makes vec the bytes to send next: one slice where spans are short
// enough to be copied together.
func (s *sender) fill() {
	s.vec = s.vec[:0]
	total, last := 0, s.next
	for last < len(s.batch) && total < writeMaxBytes {
		total += s.batch[last].to - s.batch[last].from
		last++
	}
	if n := last - s.next; n > 1 && (total/n <= gatherMax || n > vecMax) {
		s.gather()
		return
	}
	for i := s.next; i < last; i++ {
		s.vec = append(s.vec, s.batch[i].bytes())
	}
	s.vec[0] = s.vec[0][s.off:]
}

func (s *sender) gather() {
	s.scratch = s.scratch[:0]
	off := s.off
	for i := s.next; i < len(s.batch); i++ {
		b := s.batch[i].bytes()[off:]
		off = 0
		if len(s.scratch) > 0 && len(s.scratch)+len(b) > gatherCap {
			break
		}
		s.scratch = append(s.scratch, b...)
	}
	s.vec = append(s.vec, s.scratch)
}

// take makes the queue the batch to send. The caller holds mu and has found
// writing unset and nothing left of the batch before.
func (l *link) take() {
	l.writing = true
	l.snd.batch, l.queue = l.queue, l.snd.batch[:0]
	l.snd.next, l.snd.off = 0, 0
	l.sending, l.queued = l.queued, 0
	l.batches++
}

// sent notes the end of a write. The caller holds mu.
func (l *link) sent() {
	l.writing = false
	if l.snd.empty() {
		l.sending = 0
	}
}

// flush sends what is queued if that needs no waiting, once; what remains is
// left to the writer goroutine.
func (l *link) flush() {
	l.mu.Lock()
	// What is left of a batch goes first, and only the writer goroutine, which
	// was woken for it, may wait.
	if l.state != linkUp || l.writing || !l.snd.empty() || len(l.queue) == 0 {
		l.mu.Unlock()
		return
	}
	raw := l.raw
	if raw == nil {
		l.mu.Unlock()
		l.kick()
		return
	}
	l.take()
	l.mu.Unlock()

	err := l.snd.writeNow(raw)
	l.mu.Lock()
	l.sent()
	more := !l.snd.empty() || len(l.queue) > 0 || l.state != linkUp
	if err != nil {
		l.giveUp(err)
		more = true
	}
	l.mu.Unlock()
	if more {
		l.kick()
	}
}

// kick wakes the writer goroutine.
func (l *link) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// writeLoop sends what is queued whenever it is woken.
func (l *link) writeLoop(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	for {
		select {
		case <-stop:
			return
		case <-l.wake:
		}
		for l.writeBatch() {
		}
	}
}

// writeBatch sends one batch, waiting for the bookie to take it. It reports
// whether to go on.
func (l *link) writeBatch() bool {
	l.mu.Lock()
	if l.state != linkUp || l.writing || l.snd.empty() && len(l.queue) == 0 {
		l.mu.Unlock()
		return false
	}
	if l.snd.empty() {
		l.take()
	}
	l.writing = true
	conn, raw := l.conn, l.raw
	l.mu.Unlock()

	var err error
	if raw != nil {
		err = l.snd.writeNow(raw)
	}
	if err == nil && !l.snd.empty() {
		err = l.writeBlocking(conn)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent()
	if err != nil {
		l.giveUp(err)
	}
	return err == nil
}

// writeBlocking sends the rest of the batch, however long the bookie takes;
// expire ends it when nothing moves for too long.
func (l *link) writeBlocking(conn net.Conn) error {
	defer l.progress(false)
	for !l.snd.empty() {
		l.progress(true)
		l.snd.fill()
		// WriteTo eats the slice it is called on, whose memory is ours.
		vec := l.snd.vec
		n, err := vec.WriteTo(conn)
		l.snd.advance(int(n))
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *link) progress(stalled bool) {
	now := l.pool.now()
	l.mu.Lock()
	l.stalled, l.since = stalled, now
	l.mu.Unlock()
}
