// Package lostanswers tests a ledger's life in the metadata, create, close and
// delete, while the answer to each metadata request in turn is lost (R21): over
// the stores in memory, a real etcd and, with the build tag interop, a real
// ZooKeeper. It has no code but tests.
package lostanswers
