// Package registration lists a bookie in its cluster's metadata for as long as
// it serves: under a session that it keeps alive, in the list of writable or of
// read-only bookies, again after each session loss. It writes no bytes of its
// own: package metadata/layout has the formats.
//
// Clients pick bookies from the list; a node that is there without a serving
// bookie behind it costs them a timeout, so the node goes first at shutdown.
//
// Called by bookie.Register.
package registration
