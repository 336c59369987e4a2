// Package interop tests against Apache's own BookKeeper and ZooKeeper, as real
// processes on loopback: Apache's Java client on our bookies, our client on
// Apache's bookies, both in one ensemble, and what one side writes read and
// recovered by the other.
//
// The tests have the build tag `interop`, need a JDK and Maven (see package
// javapeer), and are run by `make interop`, which is part of `make test`.
package interop
