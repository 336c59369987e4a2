// Package dial opens the metadata store that a URI names.
//
//	etcd://host:port,host2:port2/path   an etcd cluster; a port is 2379 by default
//	mem://name/path                     a memory store of this process, shared by name
//	zk://host:port,host2:port2/path     a ZooKeeper ensemble; a port is 2181 by default
//
// A zk URI of a cluster of bookies may name the layout of its tree, as
// zk+hierarchical://…: whoever opens the cluster then checks it.
//
// Hosts are separated by ',' or ';'. The path is a key in the store: the scope
// of a cluster of bookies or the root of a namespace of streams; none is "/".
package dial
