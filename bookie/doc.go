// Package bookie is one storage node as a library: it keeps the entries of
// ledgers on disk, refuses writes to fenced ledgers, and tells readers how far
// a ledger is confirmed. It has no network; package bookie/server puts one in
// front of it.
//
// An add is acknowledged once the journal file that holds it has been synced.
// Behind that, entries lie in the write cache of their ledger directory until
// a flush sorts them into an entry log, writes where they are into the index,
// syncs both, and only then moves the mark up to which the journal is no
// longer needed:
//
//	AddBatch ─┬─ write cache ──(flush, sorted)──▶ entry log + index + mark
//	          └─ journal ──(group, one fsync)──▶ AddsDone
//	Read ───── write cache, else index → entry log
//
// Rules:
//
//   - Fence and add are atomic for a ledger: once a fence is acknowledged no
//     ordinary add is, and each add acknowledged before is readable by then.
//   - A fence, a master key and an explicit LAC are journal records of their own
//     type; no entry id of a client can be taken for one.
//   - Damage is answered as StatusIO, never as "no such entry".
//   - A journal whose write or sync failed takes nothing more; the bookie
//     leaves the writable set.
//
// On the append path: called by bookie/server, calls internal/writecache and
// internal/journal. On the read path: calls writecache, index and entrylog.
package bookie
