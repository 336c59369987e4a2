package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stallInterval is the pause between two tries to go on.
const stallInterval = 100 * time.Millisecond

// syncError is a failed sync: final, whatever it says.
type syncError struct{ err error }

func (e *syncError) Error() string { return e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }

// isNoRoom tells a full disk, which passes by itself, from what ends a journal.
func isNoRoom(err error) bool {
	var s *syncError
	return vfs.IsNoSpaceError(err) && !errors.As(err, &s)
}

// stall waits for room for a group. Its waiters, and those of appends that were
// under way, get the error at once. Their records stay: a later record may need
// them (an entry the key of its ledger), so none may be left out.
func (j *Journal) stall(g *group, err error) (bytes int, _ error) {
	j.setStalled(err)
	waiters := g.waiters
	g.waiters = nil
	for {
		err = fmt.Errorf("journal %s has no room: %w", j.o.Dir, err)
		if len(waiters) > 0 {
			j.settle(waiters, Group{}, err, 0)
		}
		if !j.stallPause() {
			return 0, ErrClosed
		}
		if bytes, err = j.write(g); !isNoRoom(err) {
			break
		}
		waiters = j.takeWaiters()
	}
	if err == nil {
		j.setStalled(nil)
	}
	return bytes, err
}

// closeStalled ends a journal that has no room: what it holds was answered with
// an error.
func (j *Journal) closeStalled() {
	j.mu.Lock()
	j.err = ErrClosed
	waiters := j.cur.waiters
	j.cur.waiters = nil
	j.wakeRoom()
	j.mu.Unlock()
	j.settle(waiters, Group{}, ErrClosed, 0)
}

func (j *Journal) setStalled(err error) {
	j.stalled.Store(err != nil)
	j.mu.Lock()
	j.wakeRoom()
	j.mu.Unlock()
	if j.o.Stalled != nil {
		j.o.Stalled(err)
	}
}

// takeWaiters takes the waiters of the group that forms, without its records.
func (j *Journal) takeWaiters() []Waiter {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.cur.waiters
	j.cur.waiters = nil
	return w
}

// stallPause returns false once the journal is to close.
func (j *Journal) stallPause() bool {
	t := time.NewTimer(stallInterval)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-j.closed:
		return false
	}
}
