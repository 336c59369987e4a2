// Package memstore is a metadata.Store in the memory of one process, for tests
// and for a whole system in one process.
//
// A Tree is what a server would hold: nodes, sessions, the next revision. A
// Store is one client of it. New makes both for the usual case of one client;
// Tree.Open adds clients, so that a test can crash one and see the others go
// on. A node's Version is the revision of the Txn that wrote it, as in etcd.
//
// NewStrictTree makes a tree that has ZooKeeper's ways instead, for the code
// that must get along with them.
//
// A session has no heartbeats: it lives as long as its Store, and its TTL only
// begins to count when it is abandoned or its Store crashes. Timers are those
// of package time, so tests in a synctest bubble expire them at will.
//
// There are no goroutines, but for the timers of abandoned sessions.
package memstore
