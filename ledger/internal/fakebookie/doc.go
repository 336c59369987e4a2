// Package fakebookie is a bookie for tests of the ledger client: it keeps
// entries in memory, speaks both protocol versions over in-memory pipes or TCP,
// and does to each request what a hook says: answer, answer with a status, keep
// silent, cut the connection, hold the answer back. Nothing but tests imports
// it.
//
// Bytes: package bookie/wire. It keeps the rules of a bookie that the client
// relies on: a fence refuses plain adds for ever, the first add or fence sets a
// ledger's master key, a long poll waits for the LAC.
package fakebookie
