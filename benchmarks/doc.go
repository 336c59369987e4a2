// Package benchmarks loads a system and measures it: entries per second, time
// to the acknowledgement, and processor time per million entries.
//
// A closed loop keeps N operations outstanding and measures each from its call.
// An open loop sends on a fixed schedule and measures each operation from the
// moment it was due, so that a stall is charged to every operation it delays
// (no coordinated omission). Times are in microseconds in a histogram of three
// significant digits; processor time comes from /proc, of this process and of
// the servers whose process ids are given.
package benchmarks
