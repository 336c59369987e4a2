// Package conn keeps the connections of a ledger client to its bookies: per
// bookie one connection for protocol version 2 (adds, reads, batch reads) and
// one for version 3 (everything else), because a bookie takes a connection for
// version 2 for good once it saw one such frame. What is too large for a frame of
// version 3 goes by version 2. Each is dialled on first use
// and again on the next use after it was lost; after a dial that failed the next
// waits for a back-off, and requests wait with it.
//
// Requests are pipelined. What callers send is queued; whoever flushes, a
// caller that is about to wait, the reader at the end of a batch of answers, or
// the connection's writer goroutine, sends all that is queued with one write.
// The reader decodes all frames that one read brought and hands the answers of
// adds over as one batch per ledger.
//
// Matching of answers:
//
//	v2 ADD          (ledger, entry), in the ring of its Adds
//	v2 READ         (ledger, entry); equal requests are answered in turn; one that
//	                fences is alone
//	v2 BATCH_READ   request id
//	v3              transaction id
//
// An answer that was matched by an id must be about the ledger and entry asked
// for, else it is a *bk.CorruptError of that bookie.
//
// How the bookies do is kept beside: how long reads take there, when one failed
// or was not waited for. Rank, Mean and Tail tell readers whom to ask and how long
// to wait, Quarantined tells writers whom to choose last (rules 40, 41, 52).
//
// Rules (client-duties 10, 50, 51): a request that has no answer by its
// deadline fails with bk.ErrTimeout; the loss of a connection fails all that is
// outstanding on it at once with bk.ErrBookieUnavailable; nothing is sent
// again; a bookie id is resolved at every dial.
//
// Goroutines: one for deadlines a Pool; a reader and a writer a connection,
// which end with it. Pool.Close waits for all of them.
//
// On the append path: called by ledger.Writer, calls net.Conn.
package conn
