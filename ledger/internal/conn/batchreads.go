package conn

import (
	"sync/atomic"
	"time"
)

// After how long a bookie that seemed not to know batch reads is given another
// chance: it may just have died at a bad moment. Each time it seems so again the
// wait is longer, for a try costs the connection and what others wait for on it.
const (
	batchRetryMin   = time.Minute
	batchRetryTimes = 8
	batchRetryMax   = 8 * time.Hour
)

// batchReads is whether a bookie takes batch reads. One that does not know them
// closes the connection (rule 45), or refuses the request.
type batchReads struct {
	batchOK    atomic.Bool  // it has answered one
	batchBad   atomic.Int64 // when it seemed not to, before that: nanoseconds since the pool was made, plus one
	batchRetry atomic.Int64 // nanoseconds from then to the next try
}

// BatchReads reports whether to send batch reads to the bookie.
func (b *Bookie) BatchReads() bool {
	at := b.batchBad.Load()
	return at == 0 || b.batchOK.Load() || b.now()-time.Duration(at) > time.Duration(b.batchRetry.Load())
}

// NoteNoBatch notes that a batch read found no understanding. It means nothing
// from a bookie that has answered one before.
func (b *Bookie) NoteNoBatch() {
	if b.batchOK.Load() || b.batchBad.Load() != 0 && !b.BatchReads() {
		return
	}
	retry := time.Duration(b.batchRetry.Load())
	b.batchRetry.Store(int64(min(max(batchRetryTimes*retry, batchRetryMin), batchRetryMax)))
	b.batchBad.Store(int64(b.now()) + 1)
}
