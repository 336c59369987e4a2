// Package wire holds the bytes that bookies and their clients exchange: the
// frames, the fixed codec of protocol version 2, the protobuf envelope of
// version 3, and one table of operations for both.
//
// Every frame, in both directions and both versions (all integers outside
// protobuf are big-endian):
//
//	| length 4B | payload, length bytes |        4 + length <= 5 MiB, length >= 1
//
// The first payload byte tells the versions apart: 0x0a opens a version 3
// message (protobuf field 1), anything else is the version byte of version 2.
// An answer goes out in the version of its request.
//
// Version 2, after the length:
//
//	header       | version 1B | opcode 1B | flags 2B |   (version 0: the 4 bytes are the opcode)
//	ADD          | header | master key 20B | entry body |
//	READ         | header | ledger 8B | entry 8B | master key 20B if fencing |
//	BATCH_READ   | header | ledger 8B | entry 8B | request id 8B | max count 4B | max size 8B | key 20B if fencing |
//	AUTH         | header | AuthMessage |
//	ADD answer   | header | rc 4B | ledger 8B | entry 8B |
//	READ answer  | header | rc 4B | ledger 8B | entry 8B | entry body if rc 0 |
//	BATCH answer | header | rc 4B | ledger 8B | entry 8B | request id 8B | { size 4B | entry body }... |
//	AUTH answer  | header | AuthMessage |
//
// Version 3 is one Request or Response message of package bkpb per frame.
//
// Rules: encoders append to a slice of the caller and allocate nothing of
// their own in version 2; decoders of version 2 return slices of their input.
// Bytes from the network never panic and never make a decoder allocate more
// than the frame they came in.
//
// On the append path: the ledger client encodes with AppendAddRequest, the
// bookie's server decodes with DecodeRequest, both read with FrameReader.
// docs/format/wire.md has each layout with a hex example.
package wire
