package wire

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Names below a namespace's key. In metadata: do not change. None is a stream
// name, because streams do not begin with a dot.
const (
	membersDir = ".write_proxy"        // DistributedLog's server set
	ownersDir  = ".write_proxy_owners" // Loglode: who owns which stream
	shardsDir  = ".write_proxy_shards" // Loglode: which shard number is whose

	memberPrefix = "member_"
)

// MembersKey is the parent of a namespace's members.
func MembersKey(root string) string { return root + "/" + membersDir }

// MemberKey is the key that a new member is created under, sequential.
func MemberKey(root string) string { return MembersKey(root) + "/" + memberPrefix }

// IsMember tells a member's key from others beside it.
func IsMember(key string) bool {
	return strings.HasPrefix(key[strings.LastIndexByte(key, '/')+1:], memberPrefix)
}

// ShardKey is held by the proxy that has this shard number.
func ShardKey(root string, shard int) string {
	return root + "/" + shardsDir + "/" + strconv.Itoa(shard)
}

// OwnersKey is the parent of a namespace's owners.
func OwnersKey(root string) string { return root + "/" + ownersDir }

// OwnerKey is held by the proxy that owns the stream. Slashes of the name are
// escaped: such a node can have no children.
func OwnerKey(root, name string) string { return OwnersKey(root) + "/" + escapeName(name) }

// EpochKey keeps the stream's last epoch when nobody owns it.
func EpochKey(root, name string) string { return OwnersKey(root) + "/" + escapeName(name) + ".epoch" }

var nameEscaper = strings.NewReplacer("%", "%25", "/", "%2F", ".", "%2E")

func escapeName(name string) string { return nameEscaper.Replace(name) }

// Location says where a proxy is: "1;<shard>;<host>:<port>".
type Location struct {
	Shard int
	Addr  string // host:port
}

func (l Location) String() string { return "1;" + strconv.Itoa(l.Shard) + ";" + l.Addr }

// ParseLocation reads a location: version 1, exactly three parts, a host
// without a colon.
func ParseLocation(s string) (Location, error) {
	parts := strings.Split(s, ";")
	if len(parts) != 3 || parts[0] != "1" {
		return Location{}, protocolErrorf("location %q: want 1;<shard>;<host>:<port>", s)
	}
	shard, err := strconv.Atoi(parts[1])
	if err != nil {
		return Location{}, protocolErrorf("location %q: shard: %v", s, err)
	}
	host, port, err := net.SplitHostPort(parts[2])
	if err != nil || host == "" || strings.Contains(host, ":") {
		return Location{}, protocolErrorf("location %q: want a host without a colon, and a port", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Location{}, protocolErrorf("location %q: port: %v", s, err)
	}
	return Location{Shard: shard, Addr: parts[2]}, nil
}

// Owner is the value of an owner's key: "<location>;<epoch>", so that it begins
// as a location does.
type Owner struct {
	Location
	Epoch int64 // rises with each change of owner, over the stream's life
}

// Marshal gives the value of the key.
func (o Owner) Marshal() []byte {
	return []byte(o.Location.String() + ";" + strconv.FormatInt(o.Epoch, 10))
}

// ParseOwner reads the value of an owner's key.
func ParseOwner(b []byte) (Owner, error) {
	s := string(b)
	i := strings.LastIndexByte(s, ';')
	if i < 0 {
		return Owner{}, protocolErrorf("owner %q: want location;epoch", s)
	}
	l, err := ParseLocation(s[:i])
	if err != nil {
		return Owner{}, err
	}
	e, err := strconv.ParseInt(s[i+1:], 10, 64)
	if err != nil || e < 1 {
		return Owner{}, protocolErrorf("owner %q: epoch", s)
	}
	return Owner{Location: l, Epoch: e}, nil
}

// Endpoint is an address in a member's value.
type Endpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// Addr is "host:port".
func (e Endpoint) Addr() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// EndpointOf splits "host:port".
func EndpointOf(addr string) (Endpoint, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Endpoint{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Endpoint{}, fmt.Errorf("port of %q: %w", addr, err)
	}
	return Endpoint{Host: host, Port: int(n)}, nil
}

// Member is the value of a member's key: an entry of a server set.
type Member struct {
	Service    Endpoint            `json:"serviceEndpoint"`
	Additional map[string]Endpoint `json:"additionalEndpoints"`
	Status     string              `json:"status"`
	Shard      int                 `json:"shard"`
}

// thriftEndpoint names the endpoint that clients use.
const thriftEndpoint = "thrift"

// NewMember is the member that serves at addr ("host:port").
func NewMember(addr string, shard int) (Member, error) {
	e, err := EndpointOf(addr)
	if err != nil {
		return Member{}, err
	}
	return Member{Service: e, Additional: map[string]Endpoint{thriftEndpoint: e}, Status: "ALIVE", Shard: shard}, nil
}

// Marshal gives the value of the key.
func (m Member) Marshal() ([]byte, error) { return json.Marshal(m) }

// ParseMember reads the value of a member's key.
func ParseMember(b []byte) (Member, error) {
	var m Member
	if err := json.Unmarshal(b, &m); err != nil {
		return Member{}, protocolErrorf("member: %v", err)
	}
	if e := m.Endpoint(); e.Host == "" || e.Port < 1 || e.Port > 65535 {
		return Member{}, protocolErrorf("member without a usable endpoint: %q", b)
	}
	return m, nil
}

// Endpoint is where clients reach the member.
func (m Member) Endpoint() Endpoint {
	if e, ok := m.Additional[thriftEndpoint]; ok {
		return e
	}
	return m.Service
}

// JavaAddress is the text that DistributedLog's client has for an address:
// "/10.0.0.1:8000" for an IP. It does not look names up.
func JavaAddress(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err == nil && net.ParseIP(host) != nil {
		return "/" + addr
	}
	return addr
}

// SameAddress tells whether a tried host, in Java's text or plain, is addr.
func SameAddress(tried, addr string) bool {
	if tried == addr {
		return true
	}
	name, ip, ok := strings.Cut(tried, "/")
	if !ok {
		return false
	}
	if ip == addr {
		return true
	}
	_, port, err := net.SplitHostPort(ip)
	return err == nil && name != "" && net.JoinHostPort(name, port) == addr
}
