// Package ledgerstate keeps what a bookie knows about each ledger besides its
// entries: whether it is fenced, its master key, its explicit LAC, the highest
// LAC seen and the highest entry stored.
//
// A State lives in memory while its ledger is in use and in the index from the
// first flush after a change on; idle ones are evicted from memory. Bytes of a
// stored state (version 1, varints as of package encoding/binary):
//
//	| version 1B | flags 1B | highest entry varint | LAC varint | key size uvarint | key | LAC body size uvarint | LAC body |
//	flags: 1 fenced, 2 entries were added out of order, 4 has a highest entry
//
// Rules: a fence is never taken back; the key is set once; the LAC never moves
// back. A change is made under the state's lock together with its append to
// the journal, so the journal has the changes of a ledger in their order.
//
// On the append path: called by bookie.AddBatch for each run of one ledger.
package ledgerstate
