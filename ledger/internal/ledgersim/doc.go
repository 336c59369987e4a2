// Package ledgersim runs the protocol cores of package quorum in a simulated
// world: writers that take a stream over from each other, recoverers and
// readers beside them, bookies that crash and lose what they had not synced,
// messages that are lost, late, doubled or out of order, and a metadata store
// whose answers get lost. One seed is one history; nothing depends on time,
// maps or goroutines. An odd seed is a long fight of writers over a stream under
// weather of its own (weather.go), an even one eight duels of one writer with
// recoverers that come while its adds are in flight.
//
// After every step and at the end it checks the invariants:
//
//   - I1: an acknowledged entry stays in the ledger, on at least an ack quorum
//     of bookies.
//   - I2: all agree on content and last entry of a closed ledger, for ever.
//   - I3: after the fence or the close nothing new is acknowledged.
//   - I4: a reader gets confirmed entries only.
//   - I6: the stored ensembles name bookies that hold an ack quorum of each
//     acknowledged entry.
//   - I7: in peace, recovery ends.
//
// Run more seeds, or replay one with its history printed (make sim does the same
// with SEED= and N=):
//
//	go test ./ledger/internal/ledgersim -run 'TestSim$' -sim.n 100000
//	go test ./ledger/internal/ledgersim -run 'TestSim$' -sim.seed 42 -sim.n 1 -v
//
// TestMutants shows for a list of seeded bugs, in the cores and in the bookies,
// that the seeds of TestSim catch each of them.
//
// It is no part of the product: only tests import it.
package ledgersim
