// Package proc runs real server processes of the loglode binary on loopback: a
// whole cluster to kill, pause and restart, for the demo and for tests.
package proc
