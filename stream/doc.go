// Package stream is the vocabulary of the stream world: names, DLSNs, txids,
// records, positions, configurations, and the conditions a caller can act on.
//
// A stream is an ordered list of segments; a segment is one ledger, numbered
// from 1; its entries are numbered from 0; the records of one entry take slots
// from 0. A DLSN is these three numbers, assigned by the place of a record and
// stored nowhere beside it. A TxID is what the application attaches to a record
// and never lets go back.
//
// Bytes of a DLSN (big-endian), version 1; its text for machines is base64 of
// them, its text for people "segment:entry:slot":
//
//	| 0x01 1B | segment 8B | entry 8B | slot 8B |
//
// It is a leaf: it imports nothing of this module. The bytes of entries and
// records are in package stream/record.
package stream
