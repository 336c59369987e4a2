// Package record is the bytes of one entry: records, record sets, and the
// envelope around them, as DistributedLog writes them.
//
// A record (big-endian); the metadata word has the flags control 0x1, end of
// stream 0x2 and record set 0x4 in its lowest bits, and in bits 16 to 47 the
// position: how many user records the segment holds up to this one:
//
//	| metadata 8B | txid 8B | payload length 4B | payload |
//
// A record set is one record whose payload packs many; each of them takes a
// slot and a position of its own:
//
//	| version and codec 4B | count 4B | raw length 4B | data length 4B | data |
//	data, raw: count × | length 4B | payload |
//
// An entry is records back to back, in an envelope if its segment's metadata
// has version 4 or more (see Enveloped in package segment), else bare:
//
//	| version 0x01 1B | flags 4B, codec in the lowest 2 bits | raw length 4B | data length 4B | data |
//
// Rules: a record is at most RecordSizeMax bytes, an entry at most EntrySizeMax
// before compression. Nothing here has a checksum: the ledger entry around it
// has. A record with a negative length ends its entry; one that is longer than
// what is left of the entry is corrupt. Lengths that decoding would allocate for
// are checked against DecodedSizeMax first.
//
// On the append path: writers packs records with a Builder, segment sends what
// Finish gives. On the tail path: segment reads entries, readers walks them with
// an Iterator.
package record
