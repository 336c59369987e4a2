// Package storetest holds the rules that every metadata.Store keeps, as one
// suite of named tests, and a wrapper that makes a Store fail as networks and
// servers do.
//
// A driver's test calls Run with an Env for each rule: a fresh store, any
// number of clients of it, and what the driver can do to itself (crash a
// client, end a session, lose history, cut connections).
package storetest
