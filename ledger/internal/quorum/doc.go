// Package quorum is the protocol core of the ledger client: who gets an entry,
// when it counts as confirmed, what happens when a bookie fails, and where a
// ledger ends when its writer is gone.
//
// It is pure: events go in as method calls, actions come out as values. It
// starts no goroutine, reads no clock, does no I/O and draws no random number,
// so one order of events gives one history. Package ledger drives it in
// production, package ledgersim in simulation. Nothing here is safe for use by
// several goroutines at once: the caller serialises.
//
// The cores:
//
//   - Writer: the life of a ledger in the hands of its writer. Push gives an
//     entry its id, Ack and Fail report what bookies answered, completions move
//     LAC in order, failed bookies are replaced by an ensemble change, Close
//     ends the ledger.
//   - Recovery: fence, learn the LAC, read on, write back, close.
//   - Read: one entry from the bookies of its write set, with failover and the
//     most telling error.
//   - LACRead: the last add confirmed, from the bookies of one ensemble.
//   - Poll: one long poll for news behind the LAC.
//   - Confirmed: the LAC as the handle of a reader knows it.
//
// How to drive a Writer or a Recovery: call the method of the event, then carry
// out all of Actions(), each at leisure and in any order unless its kind says
// otherwise; answers come back as events. Events that are late, doubled, or
// plain garbage change nothing. Every position of an ensemble is named by a
// Slot, whose generation changes when its bookie is replaced: that is how a
// stale answer is told from a good one.
//
// The rules named in comments and tests are those of the protocol as a correct
// client of Apache BookKeeper 4.17 follows it:
//
//	 4- 8  adds: ids without gaps, LAC in every entry, ack quorum, in-order
//	       completion, late failures
//	 9-11  fenced or unauthorized ends the writer, any other failure changes
//	       the ensemble, a failed add is an unknown one
//	12     deferred sync: only a force of all bookies moves LAC
//	14-20  ensemble change
//	21-23  close
//	25-29  open without recovery, tailing
//	30-39  fence and recover
//	40-46  read
//
// On the append path: called by ledger.Writer for every entry (Push) and every
// answer (Ack); both are a few nanoseconds and allocate nothing in steady state.
package quorum
