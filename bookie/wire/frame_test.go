package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func frameOf(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// readAll gives each frame of r, copied.
func readAll(fr *FrameReader) (frames [][]byte, err error) {
	for {
		if err := fr.Fill(); err != nil {
			return frames, err
		}
		for {
			p, err := fr.Next()
			if err != nil {
				return frames, err
			}
			if p == nil {
				break
			}
			frames = append(frames, bytes.Clone(p))
		}
	}
}

func TestFrameReaderAnyCut(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var stream []byte
	var want [][]byte
	for range 300 {
		size := 1 + rng.IntN(2000)
		if rng.IntN(50) == 0 {
			size = 1 + rng.IntN(900<<10)
		}
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		want = append(want, p)
		stream = append(stream, frameOf(p)...)
	}
	for name, r := range map[string]io.Reader{
		"whole":           bytes.NewReader(stream),
		"halves":          iotest.HalfReader(bytes.NewReader(stream)),
		"random":          &randomReader{r: bytes.NewReader(stream), rng: rng},
		"data with error": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		got, err := readAll(NewFrameReader(r))
		require.Equal(t, io.EOF, err, name)
		require.Equal(t, len(want), len(got), name)
		for i := range want {
			require.True(t, bytes.Equal(want[i], got[i]), "%s: frame %d", name, i)
		}
	}
}

type randomReader struct {
	r   io.Reader
	rng *rand.Rand
}

func (r *randomReader) Read(p []byte) (int, error) {
	n := 1 + r.rng.IntN(min(len(p), 100<<10))
	return r.r.Read(p[:n])
}

// A read that brings many frames costs one Fill.
func TestFrameReaderOneFillManyFrames(t *testing.T) {
	var stream []byte
	for i := range 100 {
		stream = append(stream, frameOf([]byte{byte(i)})...)
	}
	fr := NewFrameReader(bytes.NewReader(stream))
	require.NoError(t, fr.Fill())
	for i := range 100 {
		p, err := fr.Next()
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, p)
	}
	p, err := fr.Next()
	require.NoError(t, err)
	require.Nil(t, p)
	require.Zero(t, fr.Buffered())
}

func TestFrameReaderLengthLimits(t *testing.T) {
	for name, prefix := range map[string]uint32{
		"zero": 0, "one above": MaxFrame - LengthSize + 1, "2^31-1": 1<<31 - 1, "-1": 1<<32 - 1,
	} {
		fr := NewFrameReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, prefix)))
		require.NoError(t, fr.Fill())
		_, err := fr.Next()
		require.ErrorIs(t, err, ErrFrameLength, name)
		require.LessOrEqual(t, len(fr.buf), readBufferTypical, name)
	}
	big := make([]byte, MaxFrame-LengthSize)
	got, err := readAll(NewFrameReader(bytes.NewReader(frameOf(big))))
	require.Equal(t, io.EOF, err)
	require.Len(t, got, 1)
	require.Len(t, got[0], MaxFrame-LengthSize)
}

func TestFrameReaderEndsInsideFrame(t *testing.T) {
	_, err := readAll(NewFrameReader(bytes.NewReader([]byte{0, 0, 0, 9, 1})))
	require.Equal(t, io.ErrUnexpectedEOF, err)
	boom := errors.New("boom")
	_, err = readAll(NewFrameReader(iotest.ErrReader(boom)))
	require.Equal(t, boom, err)
}

// chunkReader gives what was sent, as far as the buffer takes it.
type chunkReader struct{ pending []byte }

func (r *chunkReader) Read(p []byte) (int, error) {
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

// A length prefix alone allocates nothing; the buffer follows the bytes that
// really arrive, and shrinks again.
func TestFrameReaderBuffer(t *testing.T) {
	r := new(chunkReader)
	fr := NewFrameReader(r)
	send := func(b []byte) {
		for r.pending = b; len(r.pending) > 0; {
			require.NoError(t, fr.Fill())
			for p, err := fr.Next(); p != nil; p, err = fr.Next() {
				require.NoError(t, err)
			}
		}
	}
	big := frameOf(make([]byte, 4<<20))
	send(big[:4])
	require.Equal(t, readBufferMin, len(fr.buf))
	send(big[4:])
	require.Zero(t, fr.Buffered())
	require.GreaterOrEqual(t, len(fr.buf), 4<<20)
	require.LessOrEqual(t, len(fr.buf), MaxFrame)
	for range 20 * shrinkAfter {
		send(frameOf([]byte{1}))
	}
	require.LessOrEqual(t, len(fr.buf), readBufferMin)
	fr.Release()
	require.Nil(t, fr.buf)
	send(frameOf([]byte{1}))
	require.Zero(t, fr.Buffered())
}

func TestFrameReaderAllocatesNothing(t *testing.T) {
	stream := bytes.Repeat(frameOf(make([]byte, 1000)), 64)
	r := bytes.NewReader(stream)
	fr := NewFrameReader(r)
	run := func() {
		r.Reset(stream)
		for r.Len() > 0 {
			if fr.Fill() != nil {
				panic("fill")
			}
			for p, err := fr.Next(); p != nil; p, err = fr.Next() {
				if err != nil {
					panic(err)
				}
			}
		}
	}
	for range 100 {
		run() // the buffer finds its size
	}
	require.Zero(t, testing.AllocsPerRun(10, run))
}
