// Package zookeeper holds the tests of metadata/zkstore against a real
// ZooKeeper server. They need Java and Maven; run them with
//
//	go test -tags interop ./cmd/internal/interop/zookeeper
package zookeeper
