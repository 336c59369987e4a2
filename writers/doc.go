// Package writers appends records to a stream.
//
// A Writer packs records into entries without waiting for more of them: an
// entry leaves as soon as the one before it was handed over, so that entries
// are small when the writer is idle (one record, lowest latency) and grow by
// themselves under load (up to a limit, highest rate).
//
//	record → entry being filled → queue → segment in progress → acks, in order → callbacks
//
// Rules:
//
//   - Callbacks run in the order of the appends, each with the DLSN of its
//     record once the ack quorum of its entry has it on disk.
//   - txids never go back; a record without one gets the append time in
//     milliseconds, or the last txid if that is higher.
//   - The first entry that fails ends the writer for good, and every record
//     after it fails too: what is acknowledged is a prefix of what was appended,
//     and a fenced writer never starts another segment.
//   - A roll waits until every entry of the old segment is acknowledged, starts
//     the next segment by compare-and-set and goes on; the old segment is
//     completed meanwhile. A roll that cannot get a new segment leaves the
//     writer on the old one.
//   - Every append ends by its context's deadline, or WriteTimeout without one.
//     A record that timed out may still become part of the stream.
//
// On the append path: called by namespace and proxy, calls stream/record for
// the bytes of an entry and segment for the ledger in progress.
package writers
