// Package entrylog stores entries for good. A flush of a write cache appends
// them sorted by ledger and entry, so the entries of one ledger lie together.
//
// One file after another is written, by one goroutine; a full one gets a map
// of its ledgers as footer and is never changed again. Big-endian:
//
//	file:    | header | record | record | … | footer |
//	header:  | crc 4B | magic 4B | version 4B | log 4B | zeros to 32 B |
//	record:  | crc 4B | size 4B | body |
//	footer:  | ledger 8B, bytes 8B | … | crc 4B | magic 4B | count 8B | offset of the footer 8B |
//
// The crc of a record is CRC32C over log (4B), offset (8B), size and body; the
// body starts with its ledger and entry, so a record proves where it is and
// what it is. The crc of the footer covers all of it but itself.
//
// A crash can leave: a last file without a footer and with a torn end that no
// index names. After a restart a new file is begun; an old one is never
// appended to.
//
// A record that does not match is a *bk.CorruptError, never a missing entry.
//
// On the append path: called by bookie's flush. On the read path: called by
// bookie.Read with what the index gave.
package entrylog
