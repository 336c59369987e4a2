// Package namespace is the front door: it opens a set of streams by its URI,
// creates, lists, watches, renames and deletes streams, and opens their
// writers and readers.
//
// A namespace is a node of a metadata store whose value binds it to a cluster
// of bookies, in DistributedLog's format (Binding); its streams are the nodes
// below it. What a stream's own settings look like is told in
// docs/format/stream-config.md: they lie beside DistributedLog's tree of the
// stream, where Java never looks.
//
//	| <ns>                     | binding
//	| <ns>/<stream>/<config>   | our settings of the stream, JSON
//	| <ns>/<stream>/<default>/ | DistributedLog's tree, package segment
//
// On the append path: Open, Stream, Writer, then package writers. On the tail
// path: Open, Stream, Reader or Tail, then package readers.
package namespace
