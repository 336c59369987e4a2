package wire

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
)

// addGolden seeds a fuzz target with the payloads of all golden frames.
func addGolden(f *testing.F) {
	for _, r := range readGolden[v2Frame](f, "v2_frames.json") {
		f.Add(unhex(f, r.FrameHex)[LengthSize:])
	}
	for _, r := range readGolden[v3Frame](f, "v3_frames.json") {
		f.Add(unhex(f, r.FrameHex)[LengthSize:])
	}
}

// What decodes encodes to the same bytes, but for what an encoder of ours never
// sends: other versions, unknown flags, bytes behind the fields.
func FuzzDecodeRequest(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		var r Request
		if DecodeRequest(&r, p) != nil || r.Version != V2Version {
			return
		}
		if r.Op == OpAuth {
			if m, err := DecodeAuth(r.Body); err == nil && m.Payload == nil {
				t.Fatalf("auth message %v without its required payload", m)
			}
			return
		}
		var got []byte
		var key *[bk.MasterKeySize]byte
		if r.MasterKey != nil {
			key = (*[bk.MasterKeySize]byte)(r.MasterKey)
		}
		switch r.Op {
		case OpAdd:
			got = append(AppendAddRequest(nil, r.Flags, key, len(r.Body)), r.Body...)
		case OpRead:
			got = AppendReadRequest(nil, r.Flags, r.Ledger, r.Entry, key)
		case OpBatchRead:
			got = AppendBatchReadRequest(nil, BatchRead{r.Flags, r.Ledger, r.Entry, r.RequestID, r.MaxCount, r.MaxSize, key})
		}
		if got = got[LengthSize:]; len(got) > len(p) || !bytes.Equal(got, p[:len(got)]) {
			t.Fatalf("decoded %+v\n from %x\nencodes to %x", r, p, got)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		var r Response
		if DecodeResponse(&r, p) != nil {
			return
		}
		for rest := r.Body; r.Op == OpBatchRead && len(rest) > 0; {
			body, next, err := NextBatchEntry(rest)
			if err != nil {
				return
			}
			if len(body)+len(next)+BatchEntryOverhead != len(rest) {
				t.Fatalf("batch entry of %d bytes leaves %d of %d", len(body), len(next), len(rest))
			}
			rest = next
		}
	})
}

// What decodes encodes again, to bytes that decode to the same.
func FuzzDecodeRequestV3(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := DecodeRequestV3(p)
		if err != nil {
			return
		}
		if !Op(r.Header.GetOperation()).Known() || r.Header.TxnId == nil {
			t.Fatalf("header %v", r.Header)
		}
		frame, err := AppendV3(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeRequestV3(frame[LengthSize:])
		if err != nil || !proto.Equal(r, again) {
			t.Fatalf("%v became %v, %v", r, again, err)
		}
	})
}

func FuzzDecodeResponseV3(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := DecodeResponseV3(p)
		if err != nil {
			return
		}
		if r.Status == nil || r.Header.TxnId == nil {
			t.Fatalf("answer %v without a status or a transaction id", r)
		}
		frame, err := AppendV3(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeResponseV3(frame[LengthSize:])
		if err != nil || !proto.Equal(r, again) {
			t.Fatalf("%v became %v, %v", r, again, err)
		}
	})
}

// A decoded auth message has both its required fields, and encodes to a frame
// that decodes to it.
func FuzzDecodeAuth(f *testing.F) {
	addGolden(f)
	f.Add(unhex(f, "0a047361736c120178"))
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := DecodeAuth(p)
		if err != nil {
			return
		}
		if m.AuthPluginName == nil || m.Payload == nil {
			t.Fatalf("%v lacks a required field", m)
		}
		frame, err := AppendAuth(nil, V2Version, m)
		if err != nil {
			t.Fatal(err)
		}
		var r Request
		if err := DecodeRequest(&r, frame[LengthSize:]); err != nil || r.Op != OpAuth {
			t.Fatalf("%+v, %v", r, err)
		}
		if again, err := DecodeAuth(r.Body); err != nil || !proto.Equal(m, again) {
			t.Fatalf("%v became %v, %v", m, again, err)
		}
	})
}

// The bodies that a batch read answer is cut into are the bytes of the answer,
// each once and in order.
func FuzzBatchEntries(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		var again []byte
		rest := p
		for len(rest) > 0 {
			body, next, err := NextBatchEntry(rest)
			if err != nil {
				break
			}
			if cap(body) != len(body) {
				t.Fatal("a body that reaches into the next")
			}
			again = append(AppendBatchEntry(again, len(body)), body...)
			rest = next
		}
		if !bytes.Equal(append(again, rest...), p) {
			t.Fatalf("%x became %x and %x", p, again, rest)
		}
	})
}

func FuzzDecodeAvailability(f *testing.F) {
	f.Add(AppendAvailability(nil, slices.Values([]bk.EntryID{0, 1, 3, 9})))
	f.Fuzz(func(t *testing.T, p []byte) {
		a, err := DecodeAvailability(p)
		if err != nil {
			return
		}
		n := 0
		last := bk.InvalidEntryID
		for e := range a.All() {
			if e <= last || !a.Contains(e) {
				t.Fatalf("entry %d after %d, contained: %v", e, last, a.Contains(e))
			}
			if last = e; n > 1000 {
				return
			}
			n++
		}
		if int64(n) != a.Len() {
			t.Fatalf("%d entries, Len says %d", n, a.Len())
		}
	})
}

func FuzzFrameReader(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 9, 0, 0, 0, 0}, uint8(3))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff}, uint8(1))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint8(5))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint8) {
		const limit = 64
		fr := NewFrameReaderLimit(&cutReader{stream, int(cut%16) + 1}, limit)
		frames, _ := readAll(fr)
		rest := stream
		for _, p := range frames {
			frame := frameOf(p)
			if !bytes.HasPrefix(rest, frame) {
				t.Fatalf("frame %x is not next in %x", p, rest)
			}
			rest = rest[len(frame):]
		}
		if len(fr.buf) > limit {
			t.Fatalf("buffer of %d bytes", len(fr.buf))
		}
	})
}

type cutReader struct {
	b []byte
	n int
}

func (r *cutReader) Read(p []byte) (int, error) {
	n := copy(p, r.b[:min(r.n, len(r.b))])
	r.b = r.b[n:]
	if n == 0 {
		return 0, bytes.ErrTooLarge
	}
	return n, nil
}
