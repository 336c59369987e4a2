// Package segment is the segments of streams: one ledger each, and their
// metadata records, as DistributedLog keeps them.
//
// The tree of a stream, below the path of its namespace; text is decimal ASCII:
//
//	<stream>/<default>                              empty
//	<stream>/<default>/maxtxid                      highest last txid of completed segments
//	<stream>/<default>/version                      ff ff ff ff
//	<stream>/<default>/lock/member_…                write lock members, ephemeral and sequential
//	<stream>/<default>/readLock                     empty
//	<stream>/<default>/ledgers                      highest segment number given
//	<stream>/<default>/ledgers/inprogress_%018d     a segment that is being written
//	<stream>/<default>/ledgers/logrecs_%018d        a completed segment
//	<stream>/<default>/allocation                   ledger made for the next segment, or empty
//
// The text of a segment is in segment/info.go, a page on it in
// docs/format/segment.md.
//
// Rules that keep a stream whole:
//
//   - One writer: a Claim first writes the ledgers node unchanged, so that its
//     version moves. Every later change by an older claim compares that version
//     and fails with stream.ErrFenced, for good: it can never start a segment
//     again. Only then does the new claim fence and recover what is in progress.
//   - A segment starts and completes in one transaction each. A lost answer is
//     settled by reading back what the transaction would have left.
//   - A lock is a hint that keeps two owners from fencing each other in turn.
//     It protects nothing: the epoch and the fence of the ledger do.
//   - Truncation marks segments; ledgers are deleted later, and only of segments
//     that are marked.
//
// A crash can leave: a ledger in the allocation node that no segment uses
// (deleted by the next writer), two segments in progress (a roll cut short; both
// are recovered), a truncated segment whose ledger is gone (purged again).
//
// On the append path: called by writers, calls ledger. On the tail path: called
// by readers.
package segment
