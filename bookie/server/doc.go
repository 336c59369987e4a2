// Package server puts a bookie on the network: it takes connections of any
// net.Listener, decodes requests of protocol versions 2 and 3 on one port, each
// frame judged by its first byte, and answers each in its own version. The
// bytes are those of package wire.
//
// One connection has two goroutines, a reader and a writer:
//
//	reader: one read ─▶ all its frames ─┬─ adds ──▶ one Store.AddBatch
//	                                    ├─ reads, long polls ──▶ read workers
//	                                    └─ fences, LAC writes, forces ──▶ sync workers
//	writer: all answers that are there ─▶ one write
//
// Rules:
//
//   - An add never waits for a read, a fence or a long poll: the reader does
//     nothing but hand over.
//   - The answers of one journal group leave a connection in one write.
//   - A waiting long poll is a registration and a timer, not a goroutine.
//   - Everything is bounded. Too many requests waiting on one connection:
//     StatusTooManyRequests. Answers that the peer does not read: no more of its
//     requests are read, and after WriteStallMax it is closed. A frame that does
//     not come to its end: closed after IdleMax. Too many connections: the new
//     one is closed at once.
//   - A malformed frame closes its connection and touches no other.
//   - With Options.Auth, a client that is not let in yet gets StatusUnauthorized
//     for whatever it asks, in both versions, and the Store never hears of it.
//   - Requests of one connection may be answered in any order.
//
// On the append path: op_add.go, called for each frame by the reader of a
// connection, calls bookie.AddBatch; its AddsDone queues the answers.
package server
