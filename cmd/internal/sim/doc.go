// Package sim tests the whole system as real processes under real faults: kill
// -9, SIGSTOP and restarts of writers, bookies and proxies, with a producer
// whose every acknowledged line must be in the stream once and in order.
//
// The tests build the binary once. A random choice of moments comes from a seed
// that each test prints; LOGLODE_SIM_SEED=N repeats it.
package sim
