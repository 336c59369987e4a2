package bookie

import "time"

const (
	paceBytes = 512 << 10             // a step of a flush
	pacePause = 20 * time.Millisecond // after it
)

// pace holds back the flush of a write cache that nobody waits for. A whole
// arena written at once takes the disk, and on a small machine the processor,
// away from the journal's syncs: acknowledgements would wait for it.
type pace struct {
	s     *shard
	total int // bytes of the arena
	done  int // that are written
	next  int // done at which the next step ends
}

// moved notes n more bytes, and waits when a step is done.
func (p *pace) moved(n int) {
	p.done += n
	if p.done < p.next {
		return
	}
	p.next = p.done + paceBytes
	if p.urgent() {
		return
	}
	t := time.NewTimer(pacePause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.s.quit:
	}
}

// urgent says that the flush has to go on at full speed: a caller waits for it,
// or the arena in use fills more than a quarter as fast as this one empties.
func (p *pace) urgent() bool {
	if p.s.hurry.Load() > 0 || p.s.b.replaying() {
		return true
	}
	return 4*p.s.cache.Bytes()*p.total > p.done*p.s.b.o.WriteCacheBytes
}
