package record_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

func load(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// goldenRecord is a record as the vectors show it; an error stands at the end
// of what could be decoded.
type goldenRecord struct {
	Name         string
	MetadataHex  string `json:"metadata_hex"`
	TxID         int64  `json:"txid"`
	Position     int64
	LastPosition int64 `json:"lastPosition"`
	Control      bool
	EndOfStream  bool   `json:"endOfStream"`
	RecordSet    bool   `json:"recordSet"`
	PayloadHex   string `json:"payload_hex"`
	BytesHex     string `json:"bytes_hex"`
	DLSN         struct {
		LSSN, Entry, Slot int64
	}
	Error string
}

func (g goldenRecord) view(t testing.TB) record.View {
	var f record.Flags
	for flag, set := range map[record.Flags]bool{record.FlagControl: g.Control, record.FlagEndOfStream: g.EndOfStream, record.FlagSet: g.RecordSet} {
		if set {
			f |= flag
		}
	}
	return record.View{
		Record: stream.Record{
			DLSN: stream.DLSN{Segment: g.DLSN.LSSN, Entry: g.DLSN.Entry, Slot: g.DLSN.Slot},
			TxID: stream.TxID(g.TxID), Payload: unhex(t, g.PayloadHex),
		},
		Flags: f, Position: g.Position, LastPosition: g.LastPosition,
	}
}

// add puts the golden record into a builder that stands at its position.
func (g goldenRecord) add(t testing.TB, b *record.Builder) {
	payload := unhex(t, g.PayloadHex)
	var err error
	switch {
	case g.Control:
		err = b.AppendControl(stream.TxID(g.TxID), string(payload))
	case g.EndOfStream:
		err = b.AppendEndOfStream()
	case g.RecordSet:
		err = b.AppendSet(stream.TxID(g.TxID), payload)
	default:
		err = b.Append(stream.TxID(g.TxID), payload)
	}
	require.NoError(t, err)
}

// before is the position of the segment in front of the record.
func (g goldenRecord) before() int64 {
	if g.Control || g.EndOfStream {
		return g.Position
	}
	return g.Position - 1
}

// decode walks an entry like the vectors do: the records, and then the error.
func decode(entry []byte, enveloped, keepSets bool, at stream.DLSN) ([]record.View, error) {
	it := record.Iterator{KeepSets: keepSets}
	it.Reset(entry, enveloped, at)
	views := []record.View{}
	for it.Next() {
		v := it.View()
		v.Record = v.Clone()
		views = append(views, v)
	}
	return views, it.Err()
}

func requireDecoded(t *testing.T, want []goldenRecord, entry []byte, enveloped, keepSets bool, at stream.DLSN) {
	t.Helper()
	got, err := decode(entry, enveloped, keepSets, at)
	if n := len(want); n > 0 && want[n-1].Error != "" {
		require.ErrorIs(t, err, stream.ErrCorrupt, want[n-1].Error)
		want = want[:n-1]
	} else {
		require.NoError(t, err)
	}
	require.Len(t, got, len(want))
	for i, g := range want {
		w := g.view(t)
		require.Equal(t, hex.EncodeToString(w.Payload), hex.EncodeToString(got[i].Payload))
		w.Payload, got[i].Payload = nil, nil
		require.Equal(t, w, got[i])
	}
}

func TestConstantsGolden(t *testing.T) {
	var v struct{ Constants map[string]int64 }
	load(t, "records.json", &v)
	require.EqualValues(t, v.Constants["MAX_LOGRECORD_SIZE"], record.RecordSizeMax)
	require.EqualValues(t, v.Constants["MAX_LOGRECORDSET_SIZE"], record.EntrySizeMax)
	require.EqualValues(t, v.Constants["INVALID_TXID"], stream.InvalidTxID)
	require.EqualValues(t, v.Constants["MAX_TXID"], stream.EndOfStreamTxID)
	require.EqualValues(t, v.Constants["EnvelopedEntry.HEADER_LENGTH"], record.EnvelopeSize)
	require.EqualValues(t, v.Constants["LogRecordSet.HEADER_LEN"], record.SetHeaderSize)
	require.EqualValues(t, 1040364, record.PayloadSizeMax)
}

func TestRecordsGolden(t *testing.T) {
	var v struct{ Records []goldenRecord }
	load(t, "records.json", &v)
	require.NotEmpty(t, v.Records)
	for _, g := range v.Records {
		t.Run(g.Name, func(t *testing.T) {
			var b record.Builder
			b.Reset(stream.CompressionNone, g.before())
			g.add(t, &b)
			require.Equal(t, g.BytesHex, hex.EncodeToString(b.Bare()))
			requireDecoded(t, []goldenRecord{g}, unhex(t, g.BytesHex), false, false, stream.DLSN{})
		})
	}
}

func TestRecordSetsGolden(t *testing.T) {
	var v struct {
		RecordSets []struct {
			Codec          string
			Payloads       []string
			PayloadHex     string `json:"payload_hex"`
			NumRecords     int    `json:"numRecords"`
			Record         goldenRecord
			RecordBytesHex string         `json:"record_bytes_hex"`
			Decoded        []goldenRecord `json:"decoded_from_entry_3_7"`
			Packed         []goldenRecord `json:"decoded_without_expanding"`
		} `json:"record_sets"`
		EdgeInputs []struct {
			Name        string
			RawEntryHex string `json:"raw_entry_hex"`
			Decoded     []goldenRecord
		} `json:"edge_inputs"`
	}
	load(t, "record_sets.json", &v)
	require.NotEmpty(t, v.RecordSets)
	for i, c := range v.RecordSets {
		t.Run(strconv.Itoa(i)+" "+c.Codec, func(t *testing.T) {
			n, err := record.SetCount(unhex(t, c.PayloadHex))
			require.NoError(t, err)
			require.Equal(t, c.NumRecords, n)
			if c.Codec == "NONE" { // LZ4 sizes are a compressor's own
				var s record.SetBuilder
				s.Reset(stream.CompressionNone)
				for _, p := range c.Payloads {
					require.NoError(t, s.Append([]byte(p)))
				}
				payload, err := s.Finish()
				require.NoError(t, err)
				require.Equal(t, c.PayloadHex, hex.EncodeToString(payload))
			}
			var b record.Builder
			c.Record.PayloadHex = c.PayloadHex
			b.Reset(stream.CompressionNone, c.Record.before())
			c.Record.add(t, &b)
			require.Equal(t, c.RecordBytesHex, hex.EncodeToString(b.Bare()))
			require.Equal(t, c.NumRecords, b.Summary().Records)
			require.Equal(t, c.Record.LastPosition, b.Summary().Position)
			at := stream.DLSN{Segment: 3, Entry: 7}
			requireDecoded(t, c.Decoded, unhex(t, c.RecordBytesHex), false, false, at)
			requireDecoded(t, c.Packed, unhex(t, c.RecordBytesHex), false, true, at)
		})
	}
	require.NotEmpty(t, v.EdgeInputs)
	for _, c := range v.EdgeInputs {
		t.Run(c.Name, func(t *testing.T) {
			requireDecoded(t, c.Decoded, unhex(t, c.RawEntryHex), false, false, stream.DLSN{Segment: 1})
		})
	}
}

func TestEntriesGolden(t *testing.T) {
	var v struct {
		Entries []struct {
			Name       string
			Enveloped  bool
			Codec      string
			Records    []goldenRecord
			BytesHex   string   `json:"bytes_hex"`
			NumRecords int      `json:"numRecords"`
			MaxTxID    int64    `json:"maxTxId"`
			HasUser    bool     `json:"hasUserRecords"`
			LastDLSN   string   `json:"lastDLSN_if_entry_3_9"`
			AckedDLSNs []string `json:"acked_dlsns_if_entry_3_9"`
			Decoded    []goldenRecord
			Packed     []goldenRecord `json:"decoded_without_expanding"`
		}
		EdgeInputs []struct {
			Name     string
			BytesHex string `json:"bytes_hex"`
			Decoded  []goldenRecord
		} `json:"edge_inputs"`
	}
	load(t, "entries.json", &v)
	require.NotEmpty(t, v.Entries)
	at := stream.DLSN{Segment: 3, Entry: 9}
	text := func(slot int) string {
		return fmt.Sprintf("DLSN{logSegmentSequenceNo=3, entryId=9, slotId=%d}", slot)
	}
	for _, c := range v.Entries {
		t.Run(fmt.Sprintf("%s enveloped %v %s", c.Name, c.Enveloped, c.Codec), func(t *testing.T) {
			codec := stream.CompressionNone
			if c.Codec == "LZ4" {
				codec = stream.CompressionLZ4
			}
			var b record.Builder
			b.Reset(codec, c.Records[0].before())
			for i, g := range c.Records {
				require.Equal(t, c.AckedDLSNs[i], text(b.Records()))
				g.add(t, &b)
			}
			sum := b.Summary()
			require.Equal(t, c.LastDLSN, text(sum.Records-1))
			require.Equal(t, c.MaxTxID, int64(sum.LastTxID))
			require.Equal(t, c.HasUser, sum.LastUser >= 0, "the end of a stream counts")
			entry := b.Bare()
			if c.Enveloped {
				var err error
				entry, err = b.Finish()
				require.NoError(t, err)
			}
			if codec == stream.CompressionNone {
				require.Equal(t, c.BytesHex, hex.EncodeToString(entry))
			}
			for _, bytes := range [][]byte{entry, unhex(t, c.BytesHex)} {
				requireDecoded(t, c.Decoded, bytes, c.Enveloped, false, at)
				requireDecoded(t, c.Packed, bytes, c.Enveloped, true, at)
			}
		})
	}
	require.NotEmpty(t, v.EdgeInputs)
	for _, c := range v.EdgeInputs {
		t.Run(c.Name, func(t *testing.T) {
			requireDecoded(t, c.Decoded, unhex(t, c.BytesHex), true, false, at)
		})
	}
}
