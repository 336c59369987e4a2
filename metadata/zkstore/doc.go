// Package zkstore is a metadata.Store on ZooKeeper (3.5 or newer).
//
// A key of the tree is the znode of the same path. A node's Version and its
// Writes are both the znode's data version + 1 (ZooKeeper counts from 0), its
// Session is the znode's ephemeral owner. A Store is one ZooKeeper session for
// reads, watches and plain transactions; each metadata.Session is another, on a
// connection of its own. A Txn is one multi. New znodes get the open ACL.
//
// What ZooKeeper does differently from what metadata says of a store:
//
//   - A node that was deleted and made again starts at Version 1 and Writes 1
//     again, also if a Put had to make it anew to change its owner. Who compares
//     a version that it knew from before may meet the same number.
//   - A parent must exist before its child; Op.Parents makes it, as an empty
//     node that is listed and stays. Without it a Create below nothing is
//     metadata.ErrNotFound. A node of a session takes no children.
//   - A page of a List is not one moment: names come first, then each node. A
//     child that goes in between is left out, so a page may hold fewer nodes
//     than its limit and still have More.
//   - Names with control characters, or with code points U+E000 to U+F8FF or
//     from U+FFF0 on (emoji among them), are metadata.ErrInvalidKey; so is
//     /zookeeper, which is the server's own and never listed.
//   - A Txn of more than about 1 MiB, or a value of that size, is refused: see
//     ErrTooLarge.
//   - All operations of a Txn that name a session must name the same, which
//     must have been opened by this Store.
//   - A Check with a version of its own gives no Session in the result.
//
// What can go wrong, and what becomes of it:
//
//   - Reads begin with a sync, so they see what was committed before them, and
//     are tried again on the next connection until their deadline; then they
//     are metadata.ErrUnavailable.
//   - A Txn that was never handed to a connection is metadata.ErrUnavailable.
//     One that was, and has no answer, is metadata.ErrUnknownOutcome; it is
//     never sent again from here. Unless it named a session, a read that follows
//     it on the same Store is answered after its fate is decided.
//   - Every call ends by its context's deadline, or by Options.RequestTimeout
//     if that is sooner.
//   - After every new connection all watches are set again and signal.
//   - A session that cannot be reached is given up when its TTL has passed by
//     this process's clock, counted from the sending of the last request that
//     was answered. Each session outlives the connections in between.
//
// A watch of children is one ZooKeeper watch on the parent and one on each
// child, as ZooKeeper tells of a child's data only where the child is watched.
// ZooKeeper watches that nobody waits for any more are kept until they fire and
// used again if the same key is watched again.
//
// Goroutines: one for each watch and two for each session (the Store's own is
// one), those of the ZooKeeper client, and one for each call whose context
// ended before the answer; Store.Close ends them all.
package zkstore
