// Package placement chooses the bookies of a ledger: an ensemble for a new one,
// a substitute for one that failed. It is pure: what is alive, what to avoid
// and the source of chance come from the caller.
//
// Rules (client-duties 1, 15, 52):
//
//   - Bookies of an ensemble are distinct.
//   - A substitute is not in the ensemble and has not just failed. The other
//     positions keep their bookie.
//   - Bookies to avoid (they failed lately) come last, but are used rather
//     than fail.
//
// On the path: called by ledger at create, at an ensemble change and when a
// recovery replaces a bookie.
package placement
