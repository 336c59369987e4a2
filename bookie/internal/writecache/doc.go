// Package writecache holds the entries of one ledger directory that are not in
// an entry log yet.
//
// There are two arenas: entries go to the active one; a flush takes the whole
// of it away to sort and write it, while the other one fills. Bodies lie in one
// large byte slice, their places in a hash table without pointers, so the
// garbage collector has nothing to scan.
//
// Rules: an entry is found from Put until the flush that wrote it calls Drop,
// so a reader that asks the cache first and the index second never misses one.
// Of two puts of one entry the later one wins.
//
// On the append path: called by bookie.AddBatch. A crash loses all of it: the
// journal has the entries.
package writecache
