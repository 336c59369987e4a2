// Package index knows where the entries of one ledger directory lie, and what
// else must be durable with them: the states of ledgers and the mark.
//
// It is a pebble database without a write-ahead log: the journal is that log.
// A flush commits one batch and waits until pebble has it in a synced table.
// The unit is not an entry but an extent: a run of entries of one ledger that
// lie one behind the other in one entry log. Big-endian keys, the ids with
// their sign bit flipped so that they sort as numbers:
//
//	extent: | 'e' | ledger 8B | first entry 8B | log 4B | offset 8B | → below
//	state:  | 's' | ledger 8B | → package ledgerstate
//	mark:   | 'm' | → | version 1B | per journal: replay from LSN 8B, synced LSN 8B |
//
//	extent: | flags 1B | count uvarint | sizes uvarint … | steps uvarint … |
//	flags:  1 all sizes are equal and only one is given
//	        2 the ids are consecutive and no steps are given
//
// A step is the id minus the one before. An extent has at most 256 entries and
// spans less than 1024 ids. Extents of a ledger whose entries were flushed in
// rising order do not overlap; where they may, the one written last (highest
// log and offset) wins.
//
// A crash can leave: the database as it was at an earlier flush, with its
// mark. Then the journal still has everything after that mark.
//
// Pebble writes through guardFS, which stops the index for good when its
// manifest or directory could not be written: reads go on, nothing on disk
// changes any more, and the next open finds it as the failure left it.
//
// On the append path: called by bookie's flush. On the read path: called by
// bookie.Read after the write cache.
package index
