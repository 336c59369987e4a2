package wire

import (
	"context"
	"encoding/base64"
	"encoding/binary"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/loglode/loglode/stream"
)

// Item is the answer for one record of a bulk call. Bulk answers are read and
// written by hand: the generated code makes five objects for each record.
type Item struct {
	Code Code
	DLSN stream.DLSN // of a success
	Err  string      // message of a failure
}

// Failure is the error that the item carries, nil for success.
func (i *Item) Failure() error {
	if i.Code == Success {
		return nil
	}
	return &StatusError{Code: i.Code, Message: i.Err}
}

// Field ids of the answer's structs, as in loglode.thrift. On the wire: do not
// renumber.
const (
	fieldResult  = 0 // of a reply
	fieldHeader  = 1 // of WriteResponse and BulkWriteResponse
	fieldDLSN    = 2 // of WriteResponse
	fieldItems   = 2 // of BulkWriteResponse
	fieldCode    = 1 // of ResponseHeader
	fieldMessage = 2 // of ResponseHeader
)

// dlsnTextSize is the size of a DLSN in base64.
const dlsnTextSize = 36

func (e *encoder) field(t byte, id byte) { e.b = append(e.b, t, 0, id) }

func (e *encoder) i32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }

// header writes a ResponseHeader with its field.
func (e *encoder) header(c Code, msg string) {
	e.field(thrift.STRUCT, fieldHeader)
	e.field(thrift.I32, fieldCode)
	e.i32(int32(c))
	if msg != "" {
		e.field(thrift.STRING, fieldMessage)
		e.str(msg)
	}
	e.b = append(e.b, thrift.STOP)
}

// items writes the result struct of a bulk reply whose header is a success.
func (e *encoder) items(items []Item) {
	e.field(thrift.STRUCT, fieldResult)
	e.header(Success, "")
	e.field(thrift.LIST, fieldItems)
	e.b = append(e.b, thrift.STRUCT)
	e.i32(int32(len(items)))
	for i := range items {
		it := &items[i]
		e.header(it.Code, it.Err)
		if it.Code == Success {
			e.field(thrift.STRING, fieldDLSN)
			e.i32(dlsnTextSize)
			var bin [stream.DLSNSize]byte
			b, _ := it.DLSN.AppendBinary(bin[:0]) // cannot fail
			e.b = base64.StdEncoding.AppendEncode(e.b, b)
		}
		e.b = append(e.b, thrift.STOP)
	}
	e.b = append(e.b, thrift.STOP, thrift.STOP)
}

// bulkReply reads the result struct of a bulk reply into r.Items, or into
// r.Bulk if the whole call failed.
func (d *decoder) bulkReply(r *Reply) error {
	ctx := context.Background()
	for {
		_, t, id, err := d.ReadFieldBegin(ctx)
		switch {
		case err != nil:
			return err
		case t == thrift.STOP:
			if r.Bulk == nil && r.Items == nil {
				return protocolErrorf("no result")
			}
			return nil
		case id == fieldResult && t == thrift.STRUCT:
			err = d.bulkResult(r)
		default:
			err = d.Skip(ctx, t)
		}
		if err != nil {
			return err
		}
	}
}

func (d *decoder) bulkResult(r *Reply) error {
	ctx := context.Background()
	var h *ResponseHeader
	items := []Item{}
	for {
		_, t, id, err := d.ReadFieldBegin(ctx)
		switch {
		case err != nil:
			return err
		case t == thrift.STOP:
			switch {
			case h == nil:
				return protocolErrorf("no header")
			case h.Code != Success:
				r.Bulk, r.Items = &BulkWriteResponse{Header: h}, nil
			default:
				r.Items = items
			}
			return nil
		case id == fieldHeader && t == thrift.STRUCT:
			h = &ResponseHeader{}
			err = h.Read(ctx, d)
		case id == fieldItems && t == thrift.LIST:
			items, err = d.itemList()
		default:
			err = d.Skip(ctx, t)
		}
		if err != nil {
			return err
		}
	}
}

func (d *decoder) itemList() ([]Item, error) {
	t, n, err := d.ReadListBegin(context.Background())
	if err != nil {
		return nil, err
	}
	if t != thrift.STRUCT && n > 0 {
		return nil, protocolErrorf("items of type %d", t)
	}
	items := make([]Item, n)
	for i := range items {
		if err := d.item(&items[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (d *decoder) item(it *Item) error {
	ctx := context.Background()
	hasHeader, hasDLSN := false, false
	for {
		_, t, id, err := d.ReadFieldBegin(ctx)
		switch {
		case err != nil:
			return err
		case t == thrift.STOP:
			if !hasHeader || it.Code == Success && !hasDLSN {
				return protocolErrorf("item without header or DLSN")
			}
			return nil
		case id == fieldHeader && t == thrift.STRUCT:
			hasHeader = true
			err = d.itemHeader(it)
		case id == fieldDLSN && t == thrift.STRING:
			hasDLSN = true
			var text []byte
			if text, err = d.sized(); err == nil {
				it.DLSN, err = parseDLSN(text)
			}
		default:
			err = d.Skip(ctx, t)
		}
		if err != nil {
			return err
		}
	}
}

func (d *decoder) itemHeader(it *Item) error {
	ctx := context.Background()
	hasCode := false
	for {
		_, t, id, err := d.ReadFieldBegin(ctx)
		switch {
		case err != nil:
			return err
		case t == thrift.STOP:
			if !hasCode {
				return protocolErrorf("header without a code")
			}
			return nil
		case id == fieldCode && t == thrift.I32:
			hasCode = true
			var v int32
			v, err = d.i32()
			it.Code = Code(v)
		case id == fieldMessage && t == thrift.STRING:
			it.Err, err = d.ReadString(ctx)
		default:
			err = d.Skip(ctx, t)
		}
		if err != nil {
			return err
		}
	}
}

// parseDLSN reads base64 without making anything of the usual form.
func parseDLSN(text []byte) (stream.DLSN, error) {
	var d stream.DLSN
	if len(text) == dlsnTextSize {
		var bin [base64MaxDecoded]byte
		if n, err := base64.StdEncoding.Decode(bin[:], text); err == nil && n == stream.DLSNSize {
			if d.UnmarshalBinary(bin[:n]) == nil {
				return d, nil
			}
		}
	}
	d, err := stream.ParseDLSN(string(text))
	if err != nil {
		return d, protocolErrorf("%v", err)
	}
	return d, nil
}

// base64MaxDecoded is what dlsnTextSize characters may decode to.
const base64MaxDecoded = dlsnTextSize / 4 * 3
