// Package memstore is a metadata.Store in the memory of one process, for tests
// and for a whole system in one process.
package memstore
