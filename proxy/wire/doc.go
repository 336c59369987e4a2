// Package wire is the protocol between a write proxy and its clients:
// DistributedLog's Thrift service over framed binary, its status codes, and
// what both sides must read alike in metadata (members, owners, locations).
//
// A frame is a length and one Thrift message, big-endian:
//
//	| length 4B | 0x80 0x01 0x00 type 4B | name length 4B | name | seq 4B | struct |
//
// type is 1 call, 2 reply, 3 exception. Readers also take the old form without
// a version word. The structs are those of loglode.thrift, page
// docs/format/proxy.md.
//
// Rules:
//
//   - A frame is checked against its limit before anything is allocated for it,
//     every string and container against the bytes that are left of its frame. What
//     breaks a rule closes the connection.
//   - Calls of one connection may be pipelined; replies come as the calls end
//     and are told by their number. A classic client has one call outstanding.
//   - Byte slices of a decoded Call point into its frame: they are valid until
//     the call is replied to and later, and never written to.
//   - Finagle's upgrade probe gets "unknown method", which keeps a connection
//     plain.
//   - One table ties status codes to errors of package stream, both ways.
//
// On the append path through a proxy: client.Writer, Conn.Go, ServeConn, the
// Handler of package proxy, Call.Reply, and back.
package wire
