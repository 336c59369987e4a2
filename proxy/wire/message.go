package wire

import (
	"context"
	"errors"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/loglode/loglode/proxy/wire/internal/idl"
)

// body is a generated struct of arguments or results.
type body interface {
	Read(ctx context.Context, p thrift.TProtocol) error
	Write(ctx context.Context, p thrift.TProtocol) error
}

// AppendCall appends the frame of a call to dst.
func AppendCall(dst []byte, c *Call) ([]byte, error) {
	e := &encoder{b: dst}
	at := e.frameBegin()
	name := c.Name
	if name == "" {
		name = c.Method.String()
	}
	e.messageHead(name, thrift.CALL, c.Seq)
	if err := callBody(c).Write(context.Background(), e); err != nil {
		return dst, err
	}
	e.frameEnd(at)
	return e.b, nil
}

// callBody is the struct that carries a call's arguments.
func callBody(c *Call) body {
	switch c.Method {
	case Handshake:
		return &idl.DistributedLogServiceHandshakeArgs{}
	case HandshakeWithClientInfo:
		return &idl.DistributedLogServiceHandshakeWithClientInfoArgs{ClientInfo: c.Client}
	case Heartbeat:
		return &idl.DistributedLogServiceHeartbeatArgs{Stream: c.Stream, WriteContext: c.context()}
	case HeartbeatWithOptions:
		return &idl.DistributedLogServiceHeartbeatWithOptionsArgs{Stream: c.Stream, WriteContext: c.context(), Options: c.Options}
	case Write:
		return &idl.DistributedLogServiceWriteArgs{Stream: c.Stream, Data: c.payload()}
	case WriteWithContext:
		return &idl.DistributedLogServiceWriteWithContextArgs{Stream: c.Stream, Data: c.payload(), WriteContext: c.context()}
	case WriteBulkWithContext:
		return &idl.DistributedLogServiceWriteBulkWithContextArgs{Stream: c.Stream, Data: c.Data, WriteContext: c.context()}
	case Truncate:
		return &idl.DistributedLogServiceTruncateArgs{Stream: c.Stream, Dlsn: c.DLSN, WriteContext: c.context()}
	case Release:
		return &idl.DistributedLogServiceReleaseArgs{Stream: c.Stream, WriteContext: c.context()}
	case Create:
		return &idl.DistributedLogServiceCreateArgs{Stream: c.Stream, WriteContext: c.context()}
	case Delete:
		return &idl.DistributedLogServiceDeleteArgs{Stream: c.Stream, WriteContext: c.context()}
	case SetAcceptNewStream:
		return &idl.DistributedLogServiceSetAcceptNewStreamArgs{Enabled: c.Enabled}
	default:
		return empty{}
	}
}

func (c *Call) context() *WriteContext {
	if c.Context == nil {
		return &WriteContext{}
	}
	return c.Context
}

func (c *Call) payload() []byte {
	if len(c.Data) == 0 {
		return nil
	}
	return c.Data[0]
}

// DecodeCall reads a call's message, without the frame's length. Data points
// into msg; Context and Options are never nil. A method that is not of the service gives Unknown and no error.
func DecodeCall(msg []byte) (*Call, error) {
	d := &decoder{b: msg}
	name, kind, seq, err := d.messageHead()
	if err != nil {
		return nil, err
	}
	if kind != thrift.CALL {
		return nil, protocolErrorf("message type %d, want a call", kind)
	}
	c := &Call{Method: methodOf(name), Name: name, Seq: seq}
	args := callBody(c)
	if err := args.Read(context.Background(), d); err != nil {
		return nil, protocolErrorf("arguments of %s: %v", c.Method, err)
	}
	if d.left() != 0 {
		return nil, protocolErrorf("%d bytes after the arguments of %s", d.left(), c.Method)
	}
	c.fill(args)
	if c.Context == nil {
		c.Context = &WriteContext{}
	}
	if c.Options == nil {
		c.Options = &HeartbeatOptions{}
	}
	return c, nil
}

// fill takes the arguments out of the struct that carried them.
func (c *Call) fill(args body) {
	switch a := args.(type) {
	case *idl.DistributedLogServiceHandshakeWithClientInfoArgs:
		c.Client = a.ClientInfo
	case *idl.DistributedLogServiceHeartbeatArgs:
		c.Stream, c.Context = a.Stream, a.WriteContext
	case *idl.DistributedLogServiceHeartbeatWithOptionsArgs:
		c.Stream, c.Context, c.Options = a.Stream, a.WriteContext, a.Options
	case *idl.DistributedLogServiceWriteArgs:
		c.Stream, c.Data = a.Stream, [][]byte{a.Data}
	case *idl.DistributedLogServiceWriteWithContextArgs:
		c.Stream, c.Data, c.Context = a.Stream, [][]byte{a.Data}, a.WriteContext
	case *idl.DistributedLogServiceWriteBulkWithContextArgs:
		c.Stream, c.Data, c.Context = a.Stream, a.Data, a.WriteContext
	case *idl.DistributedLogServiceTruncateArgs:
		c.Stream, c.DLSN, c.Context = a.Stream, a.Dlsn, a.WriteContext
	case *idl.DistributedLogServiceReleaseArgs:
		c.Stream, c.Context = a.Stream, a.WriteContext
	case *idl.DistributedLogServiceCreateArgs:
		c.Stream, c.Context = a.Stream, a.WriteContext
	case *idl.DistributedLogServiceDeleteArgs:
		c.Stream, c.Context = a.Stream, a.WriteContext
	case *idl.DistributedLogServiceSetAcceptNewStreamArgs:
		c.Enabled = a.Enabled
	}
}

// AppendReply appends the frame of the reply to c to dst.
func AppendReply(dst []byte, c *Call, r *Reply) ([]byte, error) {
	e := &encoder{b: dst}
	at := e.frameBegin()
	ctx := context.Background()
	if r.Err != nil {
		e.messageHead(c.Name, thrift.EXCEPTION, c.Seq)
		if err := r.Err.Write(ctx, e); err != nil {
			return dst, err
		}
	} else if e.messageHead(c.Name, thrift.REPLY, c.Seq); r.Items != nil {
		e.items(r.Items)
	} else {
		if err := replyBody(c.Method, r).Write(ctx, e); err != nil {
			return dst, err
		}
	}
	e.frameEnd(at)
	return e.b, nil
}

// replyBody is the struct that carries a result.
func replyBody(m Method, r *Reply) body {
	switch m {
	case Handshake:
		return &idl.DistributedLogServiceHandshakeResult{Success: r.Info}
	case HandshakeWithClientInfo:
		return &idl.DistributedLogServiceHandshakeWithClientInfoResult{Success: r.Info}
	case Heartbeat:
		return &idl.DistributedLogServiceHeartbeatResult{Success: r.Write}
	case HeartbeatWithOptions:
		return &idl.DistributedLogServiceHeartbeatWithOptionsResult{Success: r.Write}
	case Write:
		return &idl.DistributedLogServiceWriteResult{Success: r.Write}
	case WriteWithContext:
		return &idl.DistributedLogServiceWriteWithContextResult{Success: r.Write}
	case WriteBulkWithContext:
		return &idl.DistributedLogServiceWriteBulkWithContextResult{Success: r.Bulk}
	case Truncate:
		return &idl.DistributedLogServiceTruncateResult{Success: r.Write}
	case Release:
		return &idl.DistributedLogServiceReleaseResult{Success: r.Write}
	case Create:
		return &idl.DistributedLogServiceCreateResult{Success: r.Write}
	case Delete:
		return &idl.DistributedLogServiceDeleteResult{Success: r.Write}
	default: // SetAcceptNewStream, and Finagle's upgrade
		return empty{}
	}
}

// DecodeReply reads a reply's message, without the frame's length, and gives
// the method's name and the sequence id that it answers.
func DecodeReply(msg []byte) (r *Reply, name string, seq int32, err error) {
	d := &decoder{b: msg}
	name, kind, seq, err := d.messageHead()
	if err != nil {
		return nil, "", 0, err
	}
	ctx := context.Background()
	r = &Reply{}
	switch kind {
	case thrift.EXCEPTION:
		r.Err = &ApplicationError{}
		err = r.Err.Read(ctx, d)
	case thrift.REPLY:
		if methodOf(name) == WriteBulkWithContext {
			err = d.bulkReply(r)
			break
		}
		res := replyBody(methodOf(name), r)
		if err = res.Read(ctx, d); err == nil {
			err = r.fill(methodOf(name), res)
		}
	default:
		err = protocolErrorf("message type %d, want a reply", kind)
	}
	if err != nil {
		return nil, name, seq, protocolErrorf("reply to %s: %v", methodOf(name), err)
	}
	if d.left() != 0 {
		return nil, name, seq, protocolErrorf("%d bytes after the reply to %s", d.left(), methodOf(name))
	}
	return r, name, seq, nil
}

// fill takes the result out of the struct that carried it. A method with a
// result must have one.
func (r *Reply) fill(m Method, res body) error {
	switch b := res.(type) {
	case *idl.DistributedLogServiceHandshakeResult:
		r.Info = b.Success
	case *idl.DistributedLogServiceHandshakeWithClientInfoResult:
		r.Info = b.Success
	case interface{ GetSuccess() *WriteResponse }:
		r.Write = nil
		if w, ok := res.(interface{ IsSetSuccess() bool }); ok && w.IsSetSuccess() {
			r.Write = b.GetSuccess()
		}
	case empty:
		return nil
	}
	if r.Info == nil && r.Write == nil {
		return protocolErrorf("%s without a result", m)
	}
	return nil
}

// empty is a struct without fields that this side knows.
type empty struct{}

func (empty) Read(ctx context.Context, p thrift.TProtocol) error { return p.Skip(ctx, thrift.STRUCT) }

func (empty) Write(ctx context.Context, p thrift.TProtocol) error { return p.WriteFieldStop(ctx) }

// Fields of an exception message. On the wire: do not renumber.
const (
	exceptionMessage = 1
	exceptionType    = 2
)

// Read takes the struct of an exception message.
func (e *ApplicationError) Read(ctx context.Context, p thrift.TProtocol) error {
	for {
		_, t, id, err := p.ReadFieldBegin(ctx)
		switch {
		case err != nil || t == thrift.STOP:
			return err
		case id == exceptionMessage && t == thrift.STRING:
			e.Message, err = p.ReadString(ctx)
		case id == exceptionType && t == thrift.I32:
			e.Type, err = p.ReadI32(ctx)
		default:
			err = p.Skip(ctx, t)
		}
		if err != nil {
			return err
		}
	}
}

// Write gives the struct of an exception message.
func (e *ApplicationError) Write(ctx context.Context, p thrift.TProtocol) error {
	return errors.Join(
		p.WriteFieldBegin(ctx, "message", thrift.STRING, exceptionMessage),
		p.WriteString(ctx, e.Message),
		p.WriteFieldBegin(ctx, "type", thrift.I32, exceptionType),
		p.WriteI32(ctx, e.Type),
		p.WriteFieldStop(ctx))
}
