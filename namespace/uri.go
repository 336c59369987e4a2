package namespace

import (
	"fmt"
	"strings"

	"github.com/loglode/loglode/metadata"
)

// location is a URI taken apart: scheme://servers/path.
type location struct {
	scheme  string
	servers string // as in the URI, "host:port,host:port"
	path    string // key in the store, "/messaging/ns"
}

func (l location) String() string { return l.scheme + "://" + l.servers + l.path }

// parseLocation takes etcd://host:port,host:port/path and the like. It looks at
// the form alone; package metadata/dial knows the schemes. Failures are
// ErrInvalidURI.
func parseLocation(uri string) (location, error) {
	bad := func(reason string) (location, error) {
		return location{}, fmt.Errorf("%q: %s, want scheme://servers/path: %w", uri, reason, ErrInvalidURI)
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || scheme == "" {
		return bad("no scheme")
	}
	servers, path, _ := strings.Cut(rest, "/")
	if servers == "" {
		return bad("no servers")
	}
	l := location{scheme: scheme, servers: servers, path: "/" + strings.Trim(path, "/")}
	if l.path == "/" {
		return bad("no path")
	}
	if err := metadata.ValidKey(l.path); err != nil {
		return location{}, fmt.Errorf("%q: %w: %w", uri, ErrInvalidURI, err)
	}
	return l, nil
}
