// Package tidy checks the shape of the source tree: who may import whom, which
// third-party package may be used where, that each package says what it is,
// how long a file and a function may be, and what tests must not do. It parses
// the files itself and needs nothing but the Go tool chain's own parser.
//
// The tables in rules.go are the module's architecture; docs/architecture.md
// tells it in words. Change the two together.
package tidy
