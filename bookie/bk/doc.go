// Package bk is the vocabulary of the ledger world: ledger, entry and bookie
// ids, digest types, the statuses a bookie answers with, the errors a caller
// can act on, and the bytes of one ledger entry.
//
// It is a leaf: the bookie and the ledger client both stand on it, and it
// imports nothing of this module.
//
// Bytes of an entry body, the payload of an add and of a read answer
// (big-endian; d is the size of the digest):
//
//	| ledger 8B | entry 8B | LAC 8B | length 8B | digest dB | payload |
//
// length is the sum of the payload bytes of entries 0 to this one, this one
// included. The digest covers the first 32 bytes and the payload.
package bk
