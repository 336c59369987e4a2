// Package etcdstore is a metadata.Store on etcd (3.4 or newer, by client v3).
//
// A key of the tree is the etcd key of the same bytes; a node's Version is its
// mod revision, Writes is etcd's version counter, a session is a lease. Parents
// need not exist, so Op.Parents means nothing here. The last number given to a
// sequential child is kept, as decimal text, under
//
//	/.loglode/sequence<key of the parent>
//
// What can go wrong, and what becomes of it:
//
//   - A request that never left this process is metadata.ErrUnavailable. A
//     write that left it and has no answer is metadata.ErrUnknownOutcome; it is
//     never sent again from here. Reads are retried until their deadline.
//   - Every call ends by its context's deadline, or by Options.RequestTimeout
//     if that is sooner.
//   - A watch whose revision was compacted, or whose member lost its leader,
//     starts again at the newest revision and signals.
//   - A session that cannot be kept alive is given up when its TTL has passed
//     by this process's clock, counted from the last keep-alive that was
//     answered; etcd may keep its nodes a little longer.
//
// Goroutines: one for each watch and each session, and those of the etcd
// client; Store.Close ends them all.
package etcdstore
