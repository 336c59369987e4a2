// Package owner keeps a proxy's place in metadata: its lease, its membership,
// and which streams it owns in which epoch.
//
// A proxy has one session at the store, the lease. Below the namespace's key it
// holds, all dying with the session:
//
//	.write_proxy/member_##########      its address, for clients (server set JSON)
//	.write_proxy_shards/<n>             "host:port": shard number n is this proxy's
//	.write_proxy_owners/<stream>        "1;<shard>;<host>:<port>;<epoch>"
//	.write_proxy_owners/<stream>.epoch  the last epoch, decimal; stays when the owner goes
//
// An owner is taken, dropped and replaced in one transaction with the epoch,
// which rises by one with each owner of the stream, over its whole life.
//
// Rules:
//
//   - The lease is a hint: a paused owner learns late that it lost it. What keeps
//     two owners apart is the fence that the new owner's writer sets before it
//     writes. So an owner may be replaced on good evidence of its death, without
//     waiting for the lease: a refused connection, or an address that is our
//     own now.
//   - A lease that was not confirmed at the store for its TTL counts as not held:
//     nothing is acknowledged until it is confirmed again.
//   - A lease that was lost once is lost for good; a new one starts with nothing.
//
// A race, and why it ends well:
//
//	p1 (paused)                         p2
//	takes stream, epoch 7
//	                                    lease of p1 ends; takes stream, epoch 8
//	                                    fences, recovers, writes
//	wakes, opens its writer (fences p2)
//	confirms its lease: lost, lets go
//	                                    next append: fenced, takes it again, epoch 9
//
// When it breaks: called by package proxy; calls metadata.Store.
package owner
