package bookie

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Options sets up a bookie. The zero value of a field means its default.
type Options struct {
	FS          vfs.FS   // file system of all directories; vfs.Default
	JournalDirs []string // at least one; a ledger's journal records all go to one of them
	LedgerDirs  []string // at least one; a ledger's entries all go to one of them

	JournalFileBytes  int64         // size of one journal file; 32 MiB
	JournalGroupBytes int           // most bytes queued for the next group before adds wait; 1 MiB
	JournalBytesMax   int64         // journal bytes not yet covered by the mark that start a flush; 128 MiB
	WriteCacheBytes   int           // size of one of the two arenas of each ledger directory; 16 MiB
	EntryLogBytes     int64         // an entry log that has reached this size is closed; 1 GiB
	IndexCacheBytes   int64         // block cache of all index databases together; 4 MiB
	FlushInterval     time.Duration // a write cache older than this is flushed; 60 s
	AddWait           time.Duration // how long an add waits for room before StatusTooManyRequests; 3 s
	LedgersInMemory   int           // ledger states kept although idle; 50,000
	ReserveBytes      int64         // kept of each directory's disk, to start and to delete ledgers when it is full; 8 MiB

	Collect    CollectOptions
	Identity   *Identity // cookie check at start; nil: none
	Logger     *zap.Logger
	Registerer prometheus.Registerer
	Events     Events
}

// Validate names the field and value it refuses.
func (o *Options) Validate() error {
	if len(o.JournalDirs) == 0 {
		return errors.New("bookie options: JournalDirs is empty")
	}
	if len(o.LedgerDirs) == 0 {
		return errors.New("bookie options: LedgerDirs is empty")
	}
	if o.JournalFileBytes != 0 && o.JournalFileBytes < 64<<10 {
		return fmt.Errorf("bookie options: JournalFileBytes is %d, want at least 65536", o.JournalFileBytes)
	}
	if o.WriteCacheBytes < 0 || o.WriteCacheBytes > 1<<31 {
		return fmt.Errorf("bookie options: WriteCacheBytes is %d, want 0 to 2 GiB", o.WriteCacheBytes)
	}
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"JournalGroupBytes", int64(o.JournalGroupBytes)}, {"JournalBytesMax", o.JournalBytesMax},
		{"EntryLogBytes", o.EntryLogBytes}, {"IndexCacheBytes", o.IndexCacheBytes},
		{"FlushInterval", int64(o.FlushInterval)}, {"AddWait", int64(o.AddWait)},
		{"LedgersInMemory", int64(o.LedgersInMemory)},
	} {
		if f.v < 0 {
			return fmt.Errorf("bookie options: %s is %d, want 0 or more", f.name, f.v)
		}
	}
	return nil
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o Options) withDefaults() Options {
	orDefault(&o.FS, vfs.Default)
	orDefault(&o.JournalFileBytes, 32<<20)
	orDefault(&o.JournalGroupBytes, 1<<20)
	orDefault(&o.JournalBytesMax, 128<<20)
	orDefault(&o.WriteCacheBytes, 16<<20)
	orDefault(&o.EntryLogBytes, 1<<30)
	orDefault(&o.IndexCacheBytes, 4<<20)
	orDefault(&o.FlushInterval, time.Minute)
	orDefault(&o.AddWait, 3*time.Second)
	orDefault(&o.LedgersInMemory, 50_000)
	orDefault(&o.ReserveBytes, 8<<20)
	o.Collect = o.Collect.withDefaults()
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}
