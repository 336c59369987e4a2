package bookie

import "github.com/loglode/loglode/bookie/bk"

// AddFlags modify one add.
type AddFlags uint8

const (
	AddRecovery     AddFlags = 1 << iota // allowed on a fenced ledger
	AddHighPriority                      // allowed on a read-only bookie
	AddDeferredSync                      // durable only after Force; this bookie syncs it all the same
)

// Add is one entry to store. Ledger and Entry are the ids of the request and
// are only echoed: the ids in the body rule.
type Add struct {
	Ledger    bk.LedgerID
	Entry     bk.EntryID
	MasterKey []byte
	Body      []byte
	Flags     AddFlags
	Tag       uint64 // the caller's own, echoed
}

// AddResult is the answer to one Add.
type AddResult struct {
	Ledger bk.LedgerID
	Entry  bk.EntryID
	Tag    uint64
	Status bk.Status
}

// AddSink takes the results of adds. AddsDone is called by a journal goroutine
// or inside AddBatch, with no lock held; it must not block or call the bookie,
// and may not keep results. Results of one journal group come in one call. Use
// a pointer as sink: sinks are compared.
type AddSink interface {
	AddsDone(results []AddResult)
}
