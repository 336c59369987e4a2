//go:build race

package server_test

// frameLimitStride is the step of the sizes around the frame limit: the race
// detector makes frames of 5 MiB ten times as slow, and looks for something
// else. It hits the limit itself.
const frameLimitStride = 32
