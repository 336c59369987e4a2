// Package daemon wires configuration to servers that run in the foreground: the
// embedded etcd server, bookies, proxies, and all of them in one process.
package daemon
