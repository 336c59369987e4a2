// Package journal makes records durable. A bookie acknowledges an add only
// after the journal file that holds it has been synced.
//
// Records queue in memory and form a group; one goroutine writes the group
// with one call, syncs it and reports it, while the next group forms. There is
// no timer. Files are written once with zeros and then recycled, so that a
// sync moves no file metadata.
//
// A position is an LSN: a byte count that only rises over the whole life of a
// journal directory and is never used twice. A file covers the LSNs from start
// on; the byte of LSN n is at offset 4096 + n − start. Big-endian:
//
//	file:   | header, one 4096 B block | group | group | … | zeros or stale groups |
//	header: | crc 4B | magic 4B | version 4B | zero 4B | seq 8B | start LSN 8B | previous seq 8B | previous end LSN 8B |
//	group:  | crc 4B | magic 4B | LSN 8B | size 4B | count 4B | record | record | … | zeros to 4096 B |
//	record: | crc 4B | size 4B | LSN 8B | type 1B | zero 3B | body |
//
// Every crc is CRC32C of what follows it in its header (and, in a record, of
// the body). The LSN in each of them is the position, so bytes of an earlier
// life of a recycled file, or bytes at the wrong place, never pass for good.
//
// The header of a file is written together with its first group, but for the
// one that a start begins with, which is synced before anything is taken.
//
// A crash can leave: a torn last group, any of its 4096 B blocks missing;
// a prepared file whose header is still that of its former life; a file that
// is listed under an old name. Groups are written one after another, each
// after the sync of the one before, so damage with a valid later group behind
// it, or below an LSN that is known to have been synced, is corruption and
// stops Replay.
//
// A failed sync ends the journal, and so does a failed write for any reason but
// want of room: nothing of that group or after it is acknowledged, and nothing
// more is written.
//
// A write without room, and a next file that could not be made for want of it,
// only stall the journal. Who waits is told at once; the records stay, for a later one may need
// them, and are written to the same place again until that works. No sync has
// failed then, so all that was synced is still there.
//
// On the append path: called by bookie.AddBatch, calls vfs.File.WriteAt and
// SyncData.
package journal
