package ledgersim

import (
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// event is one thing that happens at a tick. What x and y mean depends on kind.
type event struct {
	at   int64
	seq  uint32
	kind eventKind
	x, y int32
}

type eventKind uint8

const (
	evFunc   eventKind = iota // run function x
	evEnter                   // run function x in client y
	evArrive                  // request of call x at its bookie
	evAnswer                  // answer y of call x at its client
	evSync                    // bookie x syncs its journal, in life y
	evLimit                   // call x ran out of time
)

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// call is one request to a bookie, until no message of it is left.
type call struct {
	c        *client
	b        *bookie
	who      handler
	request  request
	slot     quorum.Slot
	tag      int32 // for the handler
	refs     int32 // events and journal records that name it
	epoch    int32 // of the connection it went over
	answered bool
}

// handler takes the answers of calls: none, one, or several each.
type handler interface{ answer(k *call, a answer) }

// queue is the future: a heap of events, and the slabs that events point into,
// so that an event in flight costs no allocation. Requests all have the same
// time limit, so their ends wait in a plain queue.
type queue struct {
	heap   []event
	seq    uint32
	limits []event
	head   int // of limits

	calls       []*call
	freeCalls   []int32
	answers     []answer
	freeAnswers []int32
	funcs       []func()
	freeFuncs   []int32
}

// reset empties the queue and keeps its memory.
func (q queue) reset() queue {
	q.freeCalls, q.freeAnswers, q.freeFuncs = q.freeCalls[:0], q.freeAnswers[:0], q.freeFuncs[:0]
	for i := range q.calls {
		*q.calls[i] = call{}
		q.freeCalls = append(q.freeCalls, int32(i))
	}
	for i := range q.answers {
		q.freeAnswers = append(q.freeAnswers, int32(i))
	}
	for i := range q.funcs {
		q.funcs[i] = nil
		q.freeFuncs = append(q.freeFuncs, int32(i))
	}
	q.heap, q.limits, q.head, q.seq = q.heap[:0], q.limits[:0], 0, 0
	return q
}

func take(free *[]int32) (int32, bool) {
	n := len(*free)
	if n == 0 {
		return 0, false
	}
	i := (*free)[n-1]
	*free = (*free)[:n-1]
	return i, true
}

func (q *queue) newCall() (int32, *call) {
	i, ok := take(&q.freeCalls)
	if !ok {
		i = int32(len(q.calls))
		q.calls = append(q.calls, new(call))
	}
	return i, q.calls[i]
}

// release drops one reference to call i.
func (q *queue) release(i int32) {
	k := q.calls[i]
	if k.refs--; k.refs == 0 {
		*k = call{}
		q.freeCalls = append(q.freeCalls, i)
	}
}

func (q *queue) hold(a answer) int32 {
	i, ok := take(&q.freeAnswers)
	if !ok {
		i = int32(len(q.answers))
		q.answers = append(q.answers, answer{})
	}
	q.answers[i] = a
	return i
}

func (q *queue) holdFunc(fn func()) int32 {
	i, ok := take(&q.freeFuncs)
	if !ok {
		i = int32(len(q.funcs))
		q.funcs = append(q.funcs, nil)
	}
	q.funcs[i] = fn
	return i
}

func (q *queue) takeFunc(i int32) func() {
	fn := q.funcs[i]
	q.funcs[i] = nil
	q.freeFuncs = append(q.freeFuncs, i)
	return fn
}

// push adds an event at tick at.
func (q *queue) push(at int64, kind eventKind, x, y int32) {
	q.seq++
	q.heap = append(q.heap, event{at: at, seq: q.seq, kind: kind, x: x, y: y})
	i := len(q.heap) - 1
	e := q.heap[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

// pushLimit adds the end of a request. Each comes no earlier than the one before.
func (q *queue) pushLimit(at int64, x int32) {
	q.seq++
	q.limits = append(q.limits, event{at: at, seq: q.seq, kind: evLimit, x: x})
}

// next takes the first event, if it is due by end.
func (q *queue) next(end int64) (event, bool) {
	if q.head < len(q.limits) {
		l := &q.limits[q.head]
		if len(q.heap) == 0 || l.before(&q.heap[0]) {
			if l.at > end {
				return event{}, false
			}
			e := *l
			if q.head++; q.head == len(q.limits) {
				q.limits, q.head = q.limits[:0], 0
			} else if q.head > 4096 && q.head > len(q.limits)/2 {
				n := copy(q.limits, q.limits[q.head:])
				q.limits, q.head = q.limits[:n], 0
			}
			return e, true
		}
	}
	if len(q.heap) == 0 || q.heap[0].at > end {
		return event{}, false
	}
	return q.pop(), true
}

func (q *queue) pop() event {
	h := q.heap
	top := h[0]
	n := len(h) - 1
	e := h[n]
	h = h[:n]
	q.heap = h
	if n == 0 {
		return top
	}
	i := 0
	for {
		c := 4*i + 1
		if c >= n {
			break
		}
		for d := c + 1; d < min(c+4, n); d++ {
			if h[d].before(&h[c]) {
				c = d
			}
		}
		if !h[c].before(&e) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = e
	return top
}

// handle carries out one event.
func (s *sim) handle(e event) {
	switch e.kind {
	case evFunc:
		s.takeFunc(e.x)()
	case evEnter:
		c := s.clients[e.y]
		switch {
		case c.dead:
			s.takeFunc(e.x)
		case s.now < c.pausedUntil:
			s.push(c.pausedUntil, evEnter, e.x, e.y)
		default:
			s.takeFunc(e.x)()
		}
	case evArrive:
		s.arrive(e.x)
		s.release(e.x)
	case evAnswer:
		s.deliver(e)
	case evSync:
		if b := s.bookies[e.x]; int32(b.life) == e.y {
			b.sync()
		}
	case evLimit:
		s.deliver(e)
	}
}

// after runs fn in ticks from now.
func (s *sim) after(ticks int64, fn func()) {
	s.push(s.now+max(ticks, 0), evFunc, s.holdFunc(fn), 0)
}
