//go:build race

package bookie

// defaultStride of the crash sweep: the race detector makes it ten times as
// slow, and looks for something else.
const defaultStride = 13
