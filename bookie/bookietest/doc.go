// Package bookietest runs real bookies for tests: package bookie over a
// crashable file system in memory, package server over pipes in memory, and
// metadata/memstore, so that a test drives the production code and a call
// crashes, stalls or cuts a bookie.
//
// Nothing here sleeps or opens a socket: inside a synctest bubble time is
// virtual. Faults:
//
//	Crash    kill -9 with the power cut: what was not synced is gone
//	Stop     drained and closed in order
//	Stall    SIGSTOP: connections are accepted, nothing moves
//	Partition  bytes are held and dials wait, until Heal
//	Cut      open connections break
//	OnFrame  drop, delay or break at single frames
package bookietest
