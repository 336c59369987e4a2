// Package ledger is a client of replicated ledgers: it creates a ledger,
// appends entries to it, reads and tails it, recovers it from a dead writer,
// and deletes it.
//
// A ledger has one writer. Each entry goes to the Qw bookies of its write set
// and counts once Qa of them have it on disk; entries complete in order, and
// the last of them is the LAC. Bytes of an entry: package bookie/bk. Bytes on
// the wire: package bookie/wire. The protocol's decisions (write sets, acks,
// LAP and LAC, ensemble changes, recovery coverage) are made by the pure
// package internal/quorum; this package is the shell around it that owns
// sockets, metadata and time.
//
// Rules that hold at this layer:
//
//   - An add that failed may still become part of its ledger: recovery can find
//     it on one bookie. Its id is never used again.
//   - The LAC of a handle never moves back, and a plain read never passes it.
//   - No entry is completed between the failure of a bookie and the moment the
//     ensemble without it is in the metadata.
//   - Only "missing" from enough bookies ends a ledger; a timeout, a lost
//     connection and a corrupt copy prove nothing.
//
// On the append path: called by segment, calls internal/quorum, then
// internal/conn. On the tail path: called by segment, reads from one bookie at
// a time, the next one on failure or on silence: a replica is waited for half as
// long again as the best one takes for 99 of 100 reads (hedge.go).
package ledger
