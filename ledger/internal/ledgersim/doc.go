// Package ledgersim runs the protocol cores of package quorum in a simulated
// world: writers that take a stream over from each other, recoverers, readers and
// whoever deletes and re-replicates beside them, bookies that crash, lose what
// they had not synced or all they had, messages that are lost, late, doubled or
// out of order, and a metadata store whose answers get lost, come late or are
// stale. One seed is one history; nothing depends on time, maps or goroutines.
//
// A seed draws the sizes (E 1 to 6, any Qw <= E and Qa <= Qw), one of four kinds
// of story (weather.go: fight, duel, zombie, trouble), and switches each of some
// thirty features on or off, each with probabilities of its own. A schedule is a
// while of faults; then a calm without new faults, in which whatever is under way
// must end; then peace, in which every ledger is recovered and read.
//
// One checker looks at every step (check.go for what metadata say, history.go
// for what clients are told). For the invariants of a replicated log it checks:
//
//   - I1, an acknowledged entry stays: at every close and at the end no ledger
//     ends below an acknowledged entry, and every entry of a closed ledger can be
//     read, with up to Qa-1 bookies that lost their disk. A read of a confirmed
//     entry never finds it missing on its whole write set.
//   - I2, all agree: a ledger's state only goes forward, its end and length never
//     change once it is closed, every client that reports a close reports the
//     stored one, and a reader gets what was pushed.
//   - I3, the fence holds: an entry pushed after a recovery had fenced every
//     write set, or behind the end of a closed ledger, is never acknowledged, not
//     even when the ledger was deleted and collected, or bookies forgot the fence
//     and came back empty.
//   - I4, the LAC: a reader believes in no LAC and gets no entry beyond what is
//     confirmed, its LAC never goes back, and no close ends below what a reader got.
//   - I5, order: entries get ids without gaps, are acknowledged in order, and each
//     is reported once, as added or as failed. (Order across the ledgers of a
//     stream is not this level's.)
//   - I6, ensembles: when an entry is acknowledged and at every close, the
//     ensembles that metadata name hold an ack quorum of good copies of each entry
//     on disk (copies on disks lost since count as held); segments only go up, old
//     ones are changed by re-replication alone, none is added in recovery.
//   - I7, work goes on: in the calm every add, change, close and recovery under way
//     ends; in peace every ledger gets closed by one recovery.
//
// On a ledger with deferred sync, what a force has confirmed counts as acknowledged
// for I1, I4 and I6. I8 (bounded memory) is not this level's. A ledger that was not closed when one
// of its bookies came back with the same id, knowing nothing, is excused from I1
// and from I4 at its close, and from I3 and I6 for entries in flight then: no
// protocol can help. A deleted ledger keeps I2, I3, I4 and I5.
//
// Run more seeds, or replay one with its history printed (make sim does the same
// with SEED= and N=):
//
//	go test ./ledger/internal/ledgersim -run 'TestSim$' -v -sim.n 100000
//	go test ./ledger/internal/ledgersim -run 'TestSim$' -v -sim.n 1 -sim.seed 42
//
// A failure is shrunk first (shrink.go) and printed with the command that replays
// it. TestMutants (build tag mutants, make mutants) shows for a list of seeded
// bugs, in the cores and in the bookies, that the seeds of TestSim catch them.
//
// It is no part of the product: only tests import it.
package ledgersim
