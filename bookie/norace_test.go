//go:build !race

package bookie

const defaultStride = 1
