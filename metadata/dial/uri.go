package dial

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/loglode/loglode/metadata"
)

// Conditions a caller can act on; test with errors.Is.
var (
	ErrInvalidURI    = errors.New("metadata URI not valid")
	ErrUnknownScheme = errors.New("metadata URI with a scheme that has no driver here")
)

// Schemes of URIs.
const (
	SchemeEtcd      = "etcd"
	SchemeMemory    = "mem"
	SchemeZooKeeper = "zk"
)

// defaultPorts has the schemes whose hosts are network addresses.
var defaultPorts = map[string]string{SchemeEtcd: "2379", SchemeZooKeeper: "2181"}

// URI names a store and a key in it.
type URI struct {
	Scheme string
	Layout string   // of the cluster's tree, "hierarchical" in zk+hierarchical://…; "" = whatever is there
	Hosts  []string // host:port each; for mem the one name
	Path   string   // a valid key, "/" if the URI has none
}

// String is the URI in its plain form.
func (u URI) String() string {
	s := u.Scheme
	if u.Layout != "" {
		s += "+" + u.Layout
	}
	s += "://" + u.Authority()
	if u.Path != "/" {
		s += u.Path
	}
	return s
}

// Authority is the hosts joined by ','.
func (u URI) Authority() string { return strings.Join(u.Hosts, ",") }

// WithPath is the same store with another key.
func (u URI) WithPath(path string) URI {
	u.Path = path
	return u
}

// anyLayout in place of a layout's name means the same as none.
const anyLayout = "null"

// layouts has the names that a zk URI may have behind a plus.
var layouts = []string{anyLayout, "hierarchical", "longhierarchical", "legacyhierarchical", "flat"}

// Example is a URI to show to who typed a wrong one.
const Example = "etcd://127.0.0.1:2379/path"

// ParseURI takes a URI apart. Every failure is ErrInvalidURI or
// ErrUnknownScheme and names the URI and what is wrong with it.
func ParseURI(s string) (URI, error) {
	bad := func(kind error, format string, args ...any) (URI, error) {
		return URI{}, fmt.Errorf("%q: %s (want for example %s): %w", s, fmt.Sprintf(format, args...), Example, kind)
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return bad(ErrInvalidURI, "no scheme")
	}
	scheme, layout, named := strings.Cut(scheme, "+")
	if named && (scheme != SchemeZooKeeper || !slices.Contains(layouts, layout)) {
		return bad(ErrUnknownScheme, "scheme %q with layout %q; only %s may name one, of %s",
			scheme, layout, SchemeZooKeeper, strings.Join(layouts, ", "))
	}
	if layout == anyLayout {
		layout = ""
	}
	port, isHost := defaultPorts[scheme]
	if !isHost && scheme != SchemeMemory {
		return bad(ErrUnknownScheme, "scheme %q", scheme)
	}
	authority, path, _ := strings.Cut(rest, "/")
	u := URI{Scheme: scheme, Layout: layout, Path: "/" + strings.TrimSuffix(path, "/")}
	if err := metadata.ValidKey(u.Path); err != nil {
		return bad(ErrInvalidURI, "path: %v", err)
	}
	if !isHost {
		if authority == "" || strings.ContainsAny(authority, ",;@?#\x00") {
			return bad(ErrInvalidURI, "store name %q", authority)
		}
		u.Hosts = []string{authority}
		return u, nil
	}
	for host := range strings.FieldsFuncSeq(authority, func(r rune) bool { return r == ',' || r == ';' }) {
		hp, err := hostPort(host, port)
		if err != nil {
			return bad(ErrInvalidURI, "host %q: %v", host, err)
		}
		u.Hosts = append(u.Hosts, hp)
	}
	if len(u.Hosts) == 0 {
		return bad(ErrInvalidURI, "no host")
	}
	return u, nil
}

// hostPort adds the default port where there is none.
func hostPort(s, port string) (string, error) {
	if strings.ContainsAny(s, "@?# \t\x00") {
		return "", errors.New("has a character that no host has")
	}
	host := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") && net.ParseIP(s) == nil {
		h, p, err := net.SplitHostPort(s)
		if err != nil {
			return "", err
		}
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("port %q", p)
		}
		host, port = h, p
	}
	if host == "" {
		return "", errors.New("empty")
	}
	return net.JoinHostPort(host, port), nil
}
