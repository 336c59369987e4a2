// Package placement chooses the bookies of a ledger: an ensemble for a new one,
// substitutes for those that failed. It is pure: what is known of the bookies
// and the source of chance come from the caller.
//
// Terms: a bookie is in a rack, which is in a zone, which is in a region. Entry
// e goes to the write set at e mod E: the Qw neighbours from there on, around
// the end. A Policy has rules about write sets (zones=2: every one is in two
// zones) and about ack quorums (ack-regions=2: any Qa bookies of a write set
// are in two regions, so that what is acknowledged survives the loss of one).
//
// Rules of the package (client-duties 1, 15, 52):
//
//   - Bookies of an ensemble are distinct, registered and writable.
//   - A substitute is not in the ensemble and has not just failed. The other
//     positions keep their bookie, and the rules are kept with regard to them.
//   - Every write set keeps the policy's rules wherever any ensemble does,
//     within the steps that a search may take (enough for all ensembles of
//     usual size; search.go).
//   - Bookies to avoid (draining, or failed lately) come last, but are used
//     rather than fail. A strict policy uses them rather than break a rule; any
//     other breaks a rule rather than use them.
//   - Beyond the rules, write sets are spread as far as a greedy choice goes,
//     and bookies are drawn in proportion to their weight and free disk space.
//   - One seed, one choice.
//
// The text of a policy is a contract: it is in configuration files and in the
// custom metadata of ledgers. docs/placement.md has it.
//
// On the path: called by ledger at create, at an ensemble change and when a
// recovery replaces a bookie; by the command line to explain a choice.
package placement
