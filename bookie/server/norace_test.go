//go:build !race

package server_test

const frameLimitStride = 1
