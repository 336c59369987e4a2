// Package cluster holds the tests of metadata/layout on a real ZooKeeper
// server, beside Apache's own shell and bookies: a cluster that they made is
// joined by ours and the reverse. They need Java and Maven; run them with
//
//	go test -tags interop ./cmd/internal/interop/cluster
package cluster
