package ledger

import (
	"sync"

	"github.com/loglode/loglode/ledger/internal/conn"
)

// inbox collects the answers to one operation's calls until its goroutine takes
// them. It never blocks who delivers.
type inbox struct {
	wake chan struct{} // holds one signal

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

// take gives what has come, in buf.
func (b *inbox) take(buf []*conn.Call) []*conn.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	buf = append(buf[:0], b.calls...)
	clear(b.calls)
	b.calls = b.calls[:0]
	return buf
}
