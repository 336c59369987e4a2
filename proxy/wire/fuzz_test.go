package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDecodeCall: what decodes, encodes to something that decodes to the same.
func FuzzDecodeCall(f *testing.F) {
	for _, m := range loadVectors(f).Messages {
		f.Add(unhex(f, m.Message))
	}
	for _, b := range badFrames(f) {
		f.Add(b[min(4, len(b)):])
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		c, err := DecodeCall(msg)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		once, err := AppendCall(nil, c)
		require.NoError(t, err)
		again, err := DecodeCall(once[4:])
		require.NoError(t, err)
		twice, err := AppendCall(nil, again)
		require.NoError(t, err)
		if c.Context != nil && len(c.Context.TriedHosts) > 1 {
			return // a set has no order
		}
		require.Equal(t, once, twice)
	})
}

func FuzzDecodeReply(f *testing.F) {
	for _, m := range loadVectors(f).Messages {
		f.Add(unhex(f, m.Message))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		r, name, seq, err := DecodeReply(msg)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		b, err := AppendReply(nil, &Call{Method: methodOf(name), Name: name, Seq: seq}, r)
		require.NoError(t, err)
		_, name2, seq2, err := DecodeReply(b[4:])
		require.NoError(t, err)
		require.Equal(t, name, name2)
		require.Equal(t, seq, seq2)
	})
}

// FuzzFrameReader: any bytes, in frames of at most 1 KiB.
func FuzzFrameReader(f *testing.F) {
	for _, m := range loadVectors(f).Messages {
		f.Add(unhex(f, m.Frame))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr := NewFrameReader(bytes.NewReader(b), 1<<10)
		total := 0
		for {
			msg, err := fr.Next()
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(msg), 1<<10)
			total += 4 + len(msg)
		}
		require.LessOrEqual(t, total, len(b))
	})
}

// FuzzMetadata: values that others wrote.
func FuzzMetadata(f *testing.F) {
	f.Add("1;0;10.0.0.1:8000", []byte(`{"serviceEndpoint":{"host":"h","port":1},"status":"ALIVE","shard":0}`))
	f.Add("1;3;h:1;17", []byte(`{}`))
	f.Fuzz(func(t *testing.T, loc string, member []byte) {
		if l, err := ParseLocation(loc); err == nil {
			back, err := ParseLocation(l.String())
			require.NoError(t, err)
			require.Equal(t, l, back)
		}
		if o, err := ParseOwner([]byte(loc)); err == nil {
			back, err := ParseOwner(o.Marshal())
			require.NoError(t, err)
			require.Equal(t, o, back)
		}
		if m, err := ParseMember(member); err == nil {
			require.NotEmpty(t, m.Endpoint().Addr())
		}
	})
}
