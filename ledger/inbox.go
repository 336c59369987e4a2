package ledger

import (
	"sync"
	"time"

	"github.com/loglode/loglode/ledger/internal/conn"
)

// inbox collects the answers to one operation's calls until its goroutine takes
// them. It never blocks who delivers.
type inbox struct {
	wake  chan struct{} // holds one signal
	timer *time.Timer   // of the goroutine that takes; nil until it waits

	mu    sync.Mutex // guards calls
	calls []*conn.Call
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// done is a conn.Call's Done.
func (b *inbox) done(c *conn.Call) {
	b.mu.Lock()
	b.calls = append(b.calls, c)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// after is time.After with the one timer of the inbox, for the goroutine that
// takes; rest ends the wait.
func (b *inbox) after(d time.Duration) <-chan time.Time {
	if b.timer == nil {
		b.timer = time.NewTimer(d)
	} else {
		b.timer.Reset(d)
	}
	return b.timer.C
}

func (b *inbox) rest() { b.timer.Stop() }

// take gives what has come, in buf.
func (b *inbox) take(buf []*conn.Call) []*conn.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	buf = append(buf[:0], b.calls...)
	clear(b.calls)
	b.calls = b.calls[:0]
	return buf
}
