package wire

import "github.com/loglode/loglode/proxy/wire/internal/idl"

// The structs of loglode.thrift.
type (
	ResponseHeader    = idl.ResponseHeader
	WriteResponse     = idl.WriteResponse
	BulkWriteResponse = idl.BulkWriteResponse
	WriteContext      = idl.WriteContext
	HeartbeatOptions  = idl.HeartbeatOptions
	ServerInfo        = idl.ServerInfo
	ClientInfo        = idl.ClientInfo
)

// ServerStatus is what a proxy says of itself in a handshake.
type ServerStatus = idl.ServerStatus

// Server states. On the wire: do not renumber.
const (
	WriteAndAccept = idl.ServerStatus_WRITE_AND_ACCEPT // takes new streams
	WriteOnly      = idl.ServerStatus_WRITE_ONLY       // serves the streams it owns
	Down           = idl.ServerStatus_DOWN             // is leaving
)

// Method is one of the service's methods.
type Method uint8

// Methods of the service. Unknown stands for every other name.
const (
	Unknown Method = iota
	Handshake
	HandshakeWithClientInfo
	Heartbeat
	HeartbeatWithOptions
	Write
	WriteWithContext
	WriteBulkWithContext
	Truncate
	Release
	Create
	Delete
	SetAcceptNewStream
)

// probeName is what a Finagle client calls first to learn whether the
// connection can be upgraded.
const probeName = "__can__finagle__trace__v3__"

var methodNames = [...]string{
	Handshake:               "handshake",
	HandshakeWithClientInfo: "handshakeWithClientInfo",
	Heartbeat:               "heartbeat",
	HeartbeatWithOptions:    "heartbeatWithOptions",
	Write:                   "write",
	WriteWithContext:        "writeWithContext",
	WriteBulkWithContext:    "writeBulkWithContext",
	Truncate:                "truncate",
	Release:                 "release",
	Create:                  "create",
	Delete:                  "delete",
	SetAcceptNewStream:      "setAcceptNewStream",
}

func (m Method) String() string {
	if int(m) < len(methodNames) && methodNames[m] != "" {
		return methodNames[m]
	}
	return "unknown"
}

func methodOf(name string) Method {
	for m, n := range methodNames {
		if n == name && n != "" {
			return Method(m)
		}
	}
	return Unknown
}

// Call is one request.
type Call struct {
	Method  Method
	Name    string // on the wire; of a call to send it may be empty
	Seq     int32
	Stream  string
	Data    [][]byte // one payload of a write, any number of a bulk; into the frame
	DLSN    string   // of a truncate, as base64
	Context *WriteContext
	Options *HeartbeatOptions
	Client  *ClientInfo
	Enabled bool

	peer  *Peer  // of a call that ServeConn decoded
	frame []byte // that Data points into; nil once released
	reply *Reply // guarded by peer.mu
}

// Release gives the frame back to the connection: Data must not be used any
// more. It may be called once the records are copied, or not at all.
func (c *Call) Release() {
	c.Data = nil
	if c.frame != nil {
		c.peer.recycle(c.frame)
		c.frame = nil
	}
}

// PayloadBytes is what the call's records weigh.
func (c *Call) PayloadBytes() int {
	n := 0
	for _, d := range c.Data {
		n += len(d)
	}
	return n
}

// Tried reports whether the client says that it could not use the proxy at
// this "host:port". Java's address text ("/10.0.0.1:8000", "name/10.0.0.1:8000")
// counts too.
func (c *Call) Tried(addr string) bool {
	if c.Context == nil {
		return false
	}
	for _, h := range c.Context.TriedHosts {
		if SameAddress(h, addr) {
			return true
		}
	}
	return false
}

// Reply is the answer to a Call: one of its fields is set, or none for a
// method without a result.
type Reply struct {
	Write *WriteResponse
	Bulk  *BulkWriteResponse // of a bulk call that failed whole
	Items []Item             // of a bulk call otherwise, not nil
	Info  *ServerInfo
	Err   *ApplicationError
}

var success = ResponseHeader{Code: Success}

// Header is the header of a write or bulk answer, nil for others.
func (r *Reply) Header() *ResponseHeader {
	switch {
	case r.Write != nil:
		return r.Write.Header
	case r.Bulk != nil:
		return r.Bulk.Header
	case r.Items != nil:
		return &success
	}
	return nil
}
