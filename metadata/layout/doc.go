// Package layout maps BookKeeper's metadata onto a metadata.Store: the keys
// and values of a cluster's instance id, bookie registrations, cookies, ledger
// ids and ledger metadata, exactly as Apache's own drivers keep them, so that
// Java clients and bookies share a cluster with ours.
//
// Tree, etcd form, below the cluster's scope:
//
//	<scope>                        empty; exists = cluster is initialised
//	<scope>/layout                 text, names the ledger manager of the Java side
//	<scope>/instanceid             text of a random UUID
//	<scope>/bookies/writable/<id>  of the bookie's session; empty
//	<scope>/bookies/readonly/<id>  of the bookie's session; empty
//	<scope>/cookies/<id>           cookie text
//	<scope>/ledgers/<uuid>         ledger metadata; low 64 bits of the UUID = ledger id
//	<scope>/buckets/<%03d>         empty; how often it was written is an id counter
//
// Tree, ZooKeeper form, below the cluster's root:
//
//	<root>                          empty
//	<root>/LAYOUT                   text, names the Kind of the tree
//	<root>/INSTANCEID               text of a random UUID; may be absent
//	<root>/available/<id>           of the bookie's session; service info
//	<root>/available/readonly/<id>  of the bookie's session; service info
//	<root>/cookies/<id>             cookie text
//	<root>/01/2345/L6789            ledger metadata; zkpath.go has the other kinds
//	<root>/idgen/ID-, idgen-long/…  numbered nodes; their numbers are ledger ids
//	<root>/underreplication/…       see RepairTree
//
// Open finds out which of them there is. Bytes of ledger metadata:
//
//	| "BookieMetadataFormatVersion" TAB version LF | by version |
//	version 3: | varint length | protobuf LedgerMetadataFormat |
//	version 2: the same message in protobuf text format
//	version 1: lines of decimal numbers
//
// A ledger keeps the format version it was created with, and fields that this
// version does not know. Every change is a compare-and-set on the version last
// read; a lost answer is resolved by reading back. docs/format/metadata.md has
// an example of each.
package layout
