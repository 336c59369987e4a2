// Package proxy is the write proxy: it owns streams on behalf of clients that
// speak the Thrift service of package wire, so that any number of producers can
// append to one stream.
//
// The first call on a stream makes a proxy take it: the owner's node in metadata
// (package owner), then a writer, which fences whoever wrote before and recovers
// what was left. Calls for a stream that another proxy owns are answered FOUND
// with its location. What breaks hands over: release, an idle stream, SIGTERM
// (Drain) complete the segment and let go; a failed writer or a lost lease let
// go at once, and the next owner recovers.
//
//	connection → Call → table of streams → queue of one stream → run: owned? → writers.Writer
//	                                                                        ↓ callbacks, in order
//	connection ←────────────── Reply ← lease held? ←──────────────────────── op
//
// Rules:
//
//   - An append is acknowledged only after the writer's callback, and only while
//     the lease was confirmed less than its TTL ago; otherwise the answer waits
//     until the lease is confirmed, or says that the stream was lost.
//   - Appends of one stream are carried out in the order in which they arrived.
//   - A producer that binds itself to a stream (see docs/format/proxy.md) gets
//     more: once an append of its binding was refused or failed, all later ones
//     of that binding are refused without being carried out, and a new binding
//     waits for what the old one left in flight. So it may pipeline, and it can
//     find out what happened to an append whose answer was lost.
//   - Every call is answered by its deadline (RequestTimeout), with a status code
//     of the service.
//   - Everything is bounded: connections, calls and bytes in queues, streams,
//     producers of a stream; beyond it calls are refused with OVER_CAPACITY, new
//     streams with STREAM_UNAVAILABLE, connections by closing them.
//
// On the append path: called by wire.ServeConn, calls namespace and writers.
package proxy
