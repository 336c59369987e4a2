package fakebookie

import (
	"bytes"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// session is one connection.
type session struct {
	b    *Bookie
	conn net.Conn
	stop chan struct{} // closed with the connection
	wg   sync.WaitGroup
	v2   bool // a real bookie takes a connection for version 2 after one such frame

	mu sync.Mutex // guards writes to conn
}

// Serve answers on conn until it is closed.
func (b *Bookie) Serve(conn net.Conn) {
	s := &session{b: b, conn: conn, stop: make(chan struct{})}
	defer s.wg.Wait()
	defer close(s.stop)
	defer conn.Close()
	fr := wire.NewFrameReader(conn)
	for {
		if fr.Fill() != nil {
			return
		}
		for {
			frame, err := fr.Next()
			if err != nil {
				return
			}
			if frame == nil {
				break
			}
			if !s.frame(frame) {
				return
			}
		}
	}
}

func (s *session) frame(frame []byte) bool {
	if wire.IsV3(frame) {
		m, err := wire.DecodeRequestV3(frame)
		return err == nil && !s.v2 && s.serveV3(m)
	}
	s.v2 = true
	var r wire.Request
	if wire.DecodeRequest(&r, bytes.Clone(frame)) != nil {
		return false
	}
	return s.serveV2(&r)
}

// answer carries out a verdict: effect makes the answer's frame.
func (s *session) answer(v Verdict, effect func(refused bk.Status, corrupt bool) []byte) bool {
	switch v.kind {
	case silent:
		return true
	case drop:
		return false
	case refuse:
		s.write(effect(v.status, false))
	case corrupt:
		s.write(effect(bk.StatusOK, true))
	case lose:
		effect(bk.StatusOK, false)
	case forged:
		s.write((*v.forge)(effect(bk.StatusOK, false)))
	case hold:
		frame := effect(bk.StatusOK, false)
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			select {
			case <-v.until:
				s.write(frame)
			case <-s.stop:
			}
		}()
	default:
		s.write(effect(bk.StatusOK, false))
	}
	return true
}

func (s *session) write(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.conn.Write(frame); err != nil {
		s.conn.Close() // the reader ends the session
	}
}

func spoil(body []byte) []byte {
	body = bytes.Clone(body)
	if len(body) > 0 {
		body[len(body)-1] ^= 1
	}
	return body
}

func (s *session) serveV2(r *wire.Request) bool {
	req := Request{
		Op: r.Op, Ledger: r.Ledger, Entry: r.Entry,
		Fence: r.Flags&wire.FlagFence != 0, Recovery: r.Flags&wire.FlagRecoveryAdd != 0,
	}
	return s.answer(s.b.judge(req), func(status bk.Status, bad bool) []byte {
		switch r.Op {
		case wire.OpAdd:
			if status == bk.StatusOK {
				status = s.b.add(r.Ledger, r.MasterKey, r.Body, req.Recovery)
			}
			return wire.AppendAddAnswer(nil, r.Version, status, r.Ledger, r.Entry)
		case wire.OpBatchRead:
			return s.batch(r, status, bad)
		}
		var body []byte
		if status == bk.StatusOK {
			body, _, status = s.b.read(r.Ledger, r.Entry)
		}
		if bad {
			body = spoil(body)
		}
		if status != bk.StatusOK {
			body = nil
		}
		return append(wire.AppendReadAnswer(nil, r.Version, status, r.Ledger, r.Entry, len(body)), body...)
	})
}

func (s *session) batch(r *wire.Request, status bk.Status, bad bool) []byte {
	var out []byte
	size := int64(wire.BatchAnswerOverhead)
	for e := r.Entry; status == bk.StatusOK; e++ {
		body, _, st := s.b.read(r.Ledger, e)
		if e == r.Entry {
			status = st
		}
		size += int64(wire.BatchEntryOverhead + len(body))
		over := e > r.Entry && (size > min(r.MaxSize, wire.MaxFrame) || r.MaxCount > 0 && int32(e-r.Entry) >= r.MaxCount)
		if st != bk.StatusOK || over {
			break
		}
		out = append(wire.AppendBatchEntry(out, len(body)), body...)
	}
	if bad {
		out = spoil(out)
	}
	return append(wire.AppendBatchReadAnswer(nil, r.Version, status, r.Ledger, r.Entry, r.RequestID, len(out)), out...)
}

func (s *session) serveV3(m *bkpb.Request) bool {
	req := Request{Op: wire.Op(m.GetHeader().GetOperation()), V3: true, Priority: m.GetHeader().GetPriority()}
	switch {
	case m.ReadRequest != nil:
		r := m.ReadRequest
		req.Ledger, req.Entry = bk.LedgerID(r.GetLedgerId()), bk.EntryID(r.GetEntryId())
		req.Fence = r.Flag != nil && r.GetFlag() == bkpb.ReadRequest_FENCE_LEDGER
		if r.PreviousLac != nil {
			req.LongPoll, req.Entry = true, bk.EntryID(r.GetPreviousLac())
		}
	case m.AddRequest != nil:
		req.Ledger, req.Entry = bk.LedgerID(m.AddRequest.GetLedgerId()), bk.EntryID(m.AddRequest.GetEntryId())
		req.Recovery = m.AddRequest.Flag != nil
	case m.WriteLacRequest != nil:
		req.Ledger, req.Entry = bk.LedgerID(m.WriteLacRequest.GetLedgerId()), bk.EntryID(m.WriteLacRequest.GetLac())
	case m.ReadLacRequest != nil:
		req.Ledger = bk.LedgerID(m.ReadLacRequest.GetLedgerId())
	case m.ForceLedgerRequest != nil:
		req.Ledger = bk.LedgerID(m.ForceLedgerRequest.GetLedgerId())
	}
	v := s.b.judge(req)
	if req.LongPoll && v.kind == pass {
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			frame := s.longPoll(m, req)
			if v.forge != nil {
				frame = (*v.forge)(frame)
			}
			s.write(frame)
		}()
		return true
	}
	return s.answer(v, func(status bk.Status, bad bool) []byte { return s.effectV3(m, req, status, bad) })
}

func (s *session) effectV3(m *bkpb.Request, req Request, status bk.Status, bad bool) []byte {
	out := &bkpb.Response{Header: wire.V3Header(req.Op, m.GetHeader().GetTxnId(), 0)}
	code := func() *bkpb.StatusCode { return bkpb.StatusCode(status.V3()).Enum() }
	id := proto.Int64(int64(req.Ledger))
	switch {
	case m.ReadRequest != nil:
		body, maxLAC := []byte(nil), bk.InvalidEntryID
		if status == bk.StatusOK && req.Fence {
			status = s.b.fence(req.Ledger, m.ReadRequest.GetMasterKey())
		}
		if status == bk.StatusOK {
			body, maxLAC, status = s.b.read(req.Ledger, req.Entry)
		}
		if bad {
			body = spoil(body)
		}
		out.ReadResponse = &bkpb.ReadResponse{Status: code(), LedgerId: id, EntryId: m.ReadRequest.EntryId, Body: body}
		if !req.Fence {
			out.ReadResponse.MaxLac = proto.Int64(int64(maxLAC))
		}
	case m.AddRequest != nil:
		if status == bk.StatusOK {
			status = s.b.add(req.Ledger, m.AddRequest.GetMasterKey(), m.AddRequest.GetBody(), req.Recovery)
		}
		out.AddResponse = &bkpb.AddResponse{Status: code(), LedgerId: id, EntryId: m.AddRequest.EntryId}
	case m.WriteLacRequest != nil:
		if status == bk.StatusOK {
			status = s.b.writeLAC(req.Ledger, m.WriteLacRequest.GetMasterKey(), m.WriteLacRequest.GetBody())
		}
		out.WriteLacResponse = &bkpb.WriteLacResponse{Status: code(), LedgerId: id}
	case m.ReadLacRequest != nil:
		var lacBody, last []byte
		if status == bk.StatusOK {
			lacBody, last, status = s.b.readLAC(req.Ledger)
		}
		if bad {
			last = spoil(last)
		}
		out.ReadLacResponse = &bkpb.ReadLacResponse{Status: code(), LedgerId: id, LacBody: lacBody, LastEntryBody: last}
	case m.ForceLedgerRequest != nil:
		out.ForceLedgerResponse = &bkpb.ForceLedgerResponse{Status: code(), LedgerId: id}
	}
	out.Status = code()
	return mustFrame(out)
}

func (s *session) longPoll(m *bkpb.Request, req Request) []byte {
	wait := time.Duration(m.ReadRequest.GetTimeOut()) * time.Millisecond
	lac, body, status := s.b.waitLAC(req.Ledger, req.Entry, wait, s.stop)
	code := bkpb.StatusCode(status.V3()).Enum()
	e := bk.InvalidEntryID
	if body != nil {
		e = req.Entry + 1
	}
	return mustFrame(&bkpb.Response{
		Header: wire.V3Header(req.Op, m.GetHeader().GetTxnId(), 0), Status: code,
		ReadResponse: &bkpb.ReadResponse{
			Status: code, LedgerId: proto.Int64(int64(req.Ledger)), EntryId: proto.Int64(int64(e)),
			Body: body, MaxLac: proto.Int64(int64(lac)),
		},
	})
}

func mustFrame(m *bkpb.Response) []byte {
	frame, err := wire.AppendV3(nil, m)
	if err != nil {
		panic(err) // a message of our own
	}
	return frame
}
