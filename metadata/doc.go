// Package metadata is a small versioned tree with transactions, watches and
// sessions: what Loglode asks of etcd, of ZooKeeper and of memory.
//
// Keys are absolute slash-separated paths ("/bk/ledgers/…"). A node has a
// value, a Version to compare with, and maybe a session it dies with. Nodes
// may have children; a parent need not exist as a node of its own unless the
// store insists on it, and then CreateParents makes it.
//
// Rules that every driver keeps and storetest checks:
//
//   - All mutation is Txn: every operation of it happens, or none.
//   - A Txn whose answer was lost fails with ErrUnknownOutcome: it may have
//     happened. The caller reads back before it decides; CreateOnce,
//     CompareAndSet, Remove and Update do so for one key.
//   - A watch is level-triggered: a signal means "read again". It signals once
//     at the start, after each change, and after every time it may have missed
//     one (reconnect, compacted revisions), so a caller that reads after each
//     signal always ends at the newest state.
//   - A session ends by Close, by missing its TTL, or with its store; then its
//     nodes go, and Done is closed at the holder. Done can come late: a session
//     is a hint, never proof of ownership.
package metadata
