// Package readers reads the records of a stream: it tails, and it replays.
//
// A Reader begins at a position and gives the records from there on in DLSN
// order, across segments, and then the new ones as they are confirmed. A
// goroutine of its own fetches entries ahead within a byte budget; an idle
// reader of the newest segment costs one request that a bookie holds.
//
//	segment list (watched) → entries of one segment → queue (bytes bounded) → records
//
// Rules:
//
//   - Nothing past the LAC of a segment is given.
//   - Records come in DLSN order without a gap. Positions stored with the records
//     prove it; a hole ends the reader with a *GapError, never in silence.
//   - A position that was truncated fails with stream.ErrTruncated and the first
//     DLSN that is left, or jumps there where SkipTruncated allows it.
//   - A bounded reader resolves its end when it is opened, and ends there with
//     io.EOF also when nothing is visible at it. A sealed stream ends with io.EOF.
//   - The first failure is final; Seek begins anew.
//
// On the tail path: called by namespace, calls segment for the list and the
// entries, stream/record for what is in an entry.
package readers
