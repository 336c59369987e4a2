package record_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// TestR32EmptyRecords: records without payload take a slot and a position like
// any other.
func TestR32EmptyRecords(t *testing.T) {
	for _, codec := range []stream.Compression{stream.CompressionNone, stream.CompressionLZ4} {
		var b record.Builder
		b.Reset(codec, 0)
		for _, p := range []string{"", "x", ""} {
			require.NoError(t, b.Append(5, []byte(p)))
		}
		entry, err := b.Finish()
		require.NoError(t, err)
		views, err := decode(entry, true, false, stream.DLSN{Segment: 1, Entry: 4})
		require.NoError(t, err)
		require.Len(t, views, 3)
		for i, v := range views {
			require.Equal(t, stream.DLSN{Segment: 1, Entry: 4, Slot: int64(i)}, v.DLSN)
			require.Equal(t, int64(i+1), v.Position)
			require.Len(t, v.Payload, i%2)
		}
		require.Equal(t, record.Summary{Records: 3, User: 3, Position: 3, LastTxID: 5, LastUser: 2}, b.Summary())
	}
}

func TestRecordLimits(t *testing.T) {
	var b record.Builder
	b.Reset(stream.CompressionNone, 0)
	var tooLong *stream.RecordTooLongError
	require.ErrorAs(t, b.Append(1, make([]byte, record.PayloadSizeMax+1)), &tooLong)
	require.Equal(t, stream.RecordTooLongError{Size: record.PayloadSizeMax + 1, Limit: record.PayloadSizeMax}, *tooLong)
	require.True(t, b.Empty())
	require.NoError(t, b.Append(1, make([]byte, record.PayloadSizeMax)))
	require.Equal(t, record.EnvelopeSize+record.RecordSizeMax, b.SizeBytes())

	left := record.EntrySizeMax - b.SizeBytes()
	require.False(t, b.Fits(left-record.HeaderSize+1))
	require.ErrorIs(t, b.Append(1, make([]byte, left-record.HeaderSize+1)), record.ErrFull)
	require.True(t, b.Fits(left-record.HeaderSize))
	require.NoError(t, b.Append(1, make([]byte, left-record.HeaderSize)))
	entry, err := b.Finish()
	require.NoError(t, err)
	require.Len(t, entry, record.EntrySizeMax)
	require.ErrorIs(t, b.AppendControl(1, record.ControlPayload), record.ErrFull)
	views, err := decode(entry, true, false, stream.DLSN{})
	require.NoError(t, err)
	require.Len(t, views, 2)
	require.Len(t, views[0].Payload, record.PayloadSizeMax)

	var s record.SetBuilder
	s.Reset(stream.CompressionNone)
	require.ErrorAs(t, s.Append(make([]byte, record.PayloadSizeMax)), &tooLong)
	require.NoError(t, s.Append(make([]byte, record.PayloadSizeMax-record.SetHeaderSize-8)))
	require.ErrorIs(t, s.Append([]byte("x")), record.ErrFull)
	require.NoError(t, s.Append(nil))
	payload, err := s.Finish()
	require.NoError(t, err)
	require.Len(t, payload, record.PayloadSizeMax)
	b.Reset(stream.CompressionNone, 0)
	require.NoError(t, b.AppendSet(1, payload))
}

// TestRoundTrip packs random records with both codecs and walks them again; the
// builder and the iterator are used again and again.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d; to replay put it in place of rand.Uint64() in TestRoundTrip", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var b record.Builder
	var it record.Iterator
	for entry := range int64(200) {
		codec := stream.Compression(rng.IntN(2))
		position := rng.Int64N(1000)
		b.Reset(codec, position)
		var want []record.View
		at := stream.DLSN{Segment: 7, Entry: entry}
		for range rng.IntN(20) {
			txid := stream.TxID(rng.Int64N(1 << 40))
			switch rng.IntN(6) {
			case 0:
				require.NoError(t, b.AppendControl(txid, record.ControlPayload))
				want = append(want, record.View{Record: stream.Record{DLSN: at, TxID: txid, Payload: []byte(record.ControlPayload)},
					Flags: record.FlagControl, Position: position, LastPosition: position})
				at.Slot++
			case 1:
				var s record.SetBuilder
				s.Reset(stream.Compression(rng.IntN(2)))
				n := rng.IntN(5)
				for range n {
					p := payload(rng)
					require.NoError(t, s.Append(p))
					position++
					want = append(want, record.View{Record: stream.Record{DLSN: at, TxID: txid, Payload: p}, Position: position, LastPosition: position})
					at.Slot++
				}
				set, err := s.Finish()
				require.NoError(t, err)
				require.NoError(t, b.AppendSet(txid, set))
			default:
				p := payload(rng)
				require.NoError(t, b.Append(txid, p))
				position++
				want = append(want, record.View{Record: stream.Record{DLSN: at, TxID: txid, Payload: p}, Position: position, LastPosition: position})
				at.Slot++
			}
		}
		bytes, err := b.Finish()
		require.NoError(t, err)
		it.Reset(bytes, true, stream.DLSN{Segment: 7, Entry: entry, Slot: 99})
		var got []record.View // views stay valid until the next Reset
		for it.Next() {
			got = append(got, it.View())
		}
		require.NoError(t, it.Err())
		require.Equal(t, want, got, "seed %d entry %d", seed, entry)
		require.Equal(t, at.Slot, it.Slots())
		require.Equal(t, int(at.Slot), b.Summary().Records)
		require.Equal(t, position, b.Summary().Position)
	}
}

func payload(rng *rand.Rand) []byte {
	p := bytes.Repeat([]byte{byte(rng.IntN(4))}, rng.IntN(300))
	return append(p, []byte(fmt.Sprint(rng.Uint32()))...)
}

// TestNoAllocationPerRecord: a builder and an iterator in use allocate nothing.
func TestNoAllocationPerRecord(t *testing.T) {
	for _, codec := range []stream.Compression{stream.CompressionNone, stream.CompressionLZ4} {
		var b record.Builder
		var it record.Iterator
		payload := bytes.Repeat([]byte("abcdefgh"), 16)
		sum := 0
		allocs := testing.AllocsPerRun(100, func() {
			b.Reset(codec, 0)
			for i := range 50 {
				_ = b.Append(stream.TxID(i), payload)
			}
			entry, _ := b.Finish()
			it.Reset(entry, true, stream.DLSN{})
			for it.Next() {
				sum += len(it.View().Payload)
			}
		})
		require.NoError(t, it.Err())
		require.Positive(t, sum)
		require.Zero(t, allocs, "codec %v", codec)
	}
}

func TestMalformedEntries(t *testing.T) {
	var b record.Builder
	b.Reset(stream.CompressionLZ4, 0)
	require.NoError(t, b.Append(1, bytes.Repeat([]byte("a"), 1000)))
	packed, err := b.Finish()
	require.NoError(t, err)
	edit := func(f func(e []byte) []byte) []byte { return f(bytes.Clone(packed)) }
	for name, entry := range map[string][]byte{
		"empty":                edit(func(e []byte) []byte { return nil }),
		"half an envelope":     edit(func(e []byte) []byte { return e[:record.EnvelopeSize-1] }),
		"cut data":             edit(func(e []byte) []byte { return e[:len(e)-1] }),
		"huge raw length":      edit(func(e []byte) []byte { binary.BigEndian.PutUint32(e[5:], 1<<31-1); return e }),
		"negative raw length":  edit(func(e []byte) []byte { binary.BigEndian.PutUint32(e[5:], 1<<31); return e }),
		"short raw length":     edit(func(e []byte) []byte { binary.BigEndian.PutUint32(e[5:], 100); return e }),
		"long raw length":      edit(func(e []byte) []byte { binary.BigEndian.PutUint32(e[5:], 2000); return e }),
		"negative data length": edit(func(e []byte) []byte { binary.BigEndian.PutUint32(e[9:], 1<<31); return e }),
		"garbage block":        edit(func(e []byte) []byte { copy(e[record.EnvelopeSize:], "\xff\xff\xff\xff\xff"); return e }),
	} {
		_, err := decode(entry, true, false, stream.DLSN{Segment: 3, Entry: 9})
		require.ErrorIs(t, err, stream.ErrCorrupt, name)
		require.ErrorContains(t, err, "3:9", name)
	}
	half := make([]byte, record.HeaderSize-1)
	_, err = decode(half, false, false, stream.DLSN{})
	require.ErrorIs(t, err, stream.ErrCorrupt)
}

func TestMalformedRecordSets(t *testing.T) {
	set := func(count, raw, data uint32, bytes string) []byte {
		p := binary.BigEndian.AppendUint32(nil, 0x1000)
		p = binary.BigEndian.AppendUint32(p, count)
		p = binary.BigEndian.AppendUint32(p, raw)
		p = binary.BigEndian.AppendUint32(p, data)
		return append(p, bytes...)
	}
	for name, p := range map[string][]byte{
		"more records than data":  set(2, 5, 5, "\x00\x00\x00\x01a"),
		"inner length too long":   set(1, 5, 5, "\x00\x00\x00\x02a"),
		"inner length negative":   set(1, 4, 4, "\xff\xff\xff\xff"),
		"inner length cut":        set(1, 2, 2, "\x00\x00"),
		"data longer than record": set(1, 9, 9, "\x00\x00\x00\x01a"),
	} {
		var b record.Builder
		b.Reset(stream.CompressionNone, 0)
		require.NoError(t, b.AppendSet(1, p), name)
		_, err := decode(b.Bare(), false, false, stream.DLSN{})
		require.ErrorIs(t, err, stream.ErrCorrupt, name)
	}
	var b record.Builder
	b.Reset(stream.CompressionNone, 0)
	require.ErrorIs(t, b.AppendSet(1, set(1<<31, 0, 0, "")), stream.ErrCorrupt)
	require.ErrorIs(t, b.AppendSet(1, []byte("short")), stream.ErrCorrupt)
	require.True(t, b.Empty())
}

func TestGapCheck(t *testing.T) {
	user := func(first, last int64) record.View { return record.View{Position: first, LastPosition: last} }
	var g record.GapCheck
	require.NoError(t, g.Check(user(7, 7)), "the first one may be anywhere")
	require.NoError(t, g.Check(user(8, 10)))
	require.NoError(t, g.Check(record.View{Flags: record.FlagControl, Position: 10}))
	require.NoError(t, g.Check(record.View{Flags: record.FlagEndOfStream, Position: 99}))
	require.NoError(t, g.Check(user(11, 11)))
	require.ErrorIs(t, g.Check(user(13, 13)), stream.ErrCorrupt)
	require.ErrorIs(t, g.Check(user(13, 13)), stream.ErrCorrupt, "a record twice is no better")
	require.NoError(t, g.Check(user(1, 1)), "a new segment")
	g.Reset()
	require.NoError(t, g.Check(user(5, 5)))
	var none record.GapCheck
	for range 3 {
		require.NoError(t, none.Check(user(0, 0)), "a writer that does not count")
	}
}

func TestSummary(t *testing.T) {
	var b record.Builder
	b.Reset(stream.CompressionNone, 10)
	require.Equal(t, record.Summary{Position: 10, LastUser: -1}, b.Summary())
	require.NoError(t, b.AppendControl(4, record.ControlPayload))
	require.Equal(t, record.Summary{Records: 1, Position: 10, LastTxID: 4, LastUser: -1}, b.Summary())
	require.NoError(t, b.Append(5, nil))
	require.NoError(t, b.AppendControl(5, record.ControlPayload))
	require.Equal(t, record.Summary{Records: 3, User: 1, Position: 11, LastTxID: 5, LastUser: 1}, b.Summary())
	require.NoError(t, b.AppendEndOfStream())
	require.Equal(t, record.Summary{Records: 4, User: 1, Position: 11, LastTxID: stream.EndOfStreamTxID, LastUser: 3, EndOfStream: true}, b.Summary())
}
