// Package client appends to streams through write proxies: it finds the owner
// of a stream, follows it when it changes, and keeps the order and the shape of
// package writers.
//
// Finding the owner: the cached one; else the consistent hash ring over the
// members (DistributedLog's, so that Java clients start at the same proxy);
// answers FOUND lead on, at most MaxHops times, then the owner is looked up in
// metadata; a proxy that fails is left alone for a while.
//
// Appends are packed into bulk calls, several of them in flight on one
// connection. Before the first, the Writer binds itself to the stream at its
// owner (docs/format/proxy.md). From then on the owner refuses everything after
// an append that it refused or failed, so that no record overtakes an earlier
// one, and a new binding waits until nothing of the old one can be written any
// more.
//
// Rules:
//
//   - Records are acknowledged in the order of the appends, and stand in the
//     stream in that order.
//   - An append whose answer was lost, or that failed in a way that leaves it
//     open, is settled before anything is sent again: after the next binding the
//     writer knows a DLSN through which the stream is settled. If that is not
//     beyond the last acknowledged one, nothing was written; otherwise
//     Options.Resolve reads what lies between, and records found there are
//     acknowledged with the DLSNs they have. So each record is in the stream
//     once. Records are told by their payload: it is exact with one producer of
//     a stream, or if no two producers append equal payloads.
//   - Without Resolve such a record fails with ErrUnknownOutcome, and with it
//     the writer; or it is sent again, maybe twice in the stream, if AtLeastOnce
//     is set.
//   - A writer that failed stays failed.
//
// Package writers is the same for a process that writes the stream itself.
package client
