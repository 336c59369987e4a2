package bookie

import (
	"time"

	"github.com/loglode/loglode/bookie/bk"
)

// Events are called as things happen; nil ones are skipped. None may block or
// call back into the bookie.
type Events struct {
	Synced       func(SyncInfo)             // journal goroutine, after each group
	Flushed      func(FlushInfo)            // flush goroutine of a ledger directory
	Fenced       func(bk.LedgerID)          // goroutine of the fence, once it is durable
	StateChanged func(State, error)         // any goroutine; error is the cause, if there is one
	Corrupt      func(*bk.CorruptError)     // goroutine of the read that met the damage
	Collected    func(CollectInfo, error)   // goroutine of the pass, after it
	Replayed     func(records, bytes int64) // goroutine of Open
}

// SyncInfo tells of one synced journal group.
type SyncInfo struct {
	Journal  int // index into JournalDirs
	Adds     int
	Bytes    int
	Duration time.Duration // write and sync
}

// FlushInfo tells of one flush of a write cache.
type FlushInfo struct {
	Dir      int // index into LedgerDirs
	Entries  int
	Bytes    int64
	Extents  int
	Duration time.Duration
	Err      error
}
