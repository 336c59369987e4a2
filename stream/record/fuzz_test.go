package record_test

import (
	"testing"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// FuzzIterator: no bytes make the iterator panic, loop, or give a payload that
// is not inside what it was given or decompressed.
func FuzzIterator(f *testing.F) {
	var v struct {
		Entries []struct {
			Enveloped bool
			BytesHex  string `json:"bytes_hex"`
		}
		EdgeInputs []struct {
			BytesHex string `json:"bytes_hex"`
		} `json:"edge_inputs"`
	}
	load(f, "entries.json", &v)
	for _, e := range v.Entries {
		f.Add(unhex(f, e.BytesHex), e.Enveloped)
	}
	for _, e := range v.EdgeInputs {
		f.Add(unhex(f, e.BytesHex), true)
	}
	var sets struct {
		EdgeInputs []struct {
			RawEntryHex string `json:"raw_entry_hex"`
		} `json:"edge_inputs"`
		RecordSets []struct {
			RecordBytesHex string `json:"record_bytes_hex"`
		} `json:"record_sets"`
	}
	load(f, "record_sets.json", &sets)
	for _, e := range sets.EdgeInputs {
		f.Add(unhex(f, e.RawEntryHex), false)
	}
	for _, e := range sets.RecordSets {
		f.Add(unhex(f, e.RecordBytesHex), false)
	}
	f.Fuzz(func(t *testing.T, entry []byte, enveloped bool) {
		expanded, err := decode(entry, enveloped, false, stream.DLSN{Segment: 1})
		total := 0
		for i, v := range expanded {
			if v.DLSN.Slot != int64(i) {
				t.Fatalf("record %d has slot %d", i, v.DLSN.Slot)
			}
			total += len(v.Payload)
		}
		if most := 256 * (len(entry) + 64); total > most {
			t.Fatalf("%d payload bytes out of %d", total, len(entry))
		}
		packed, perr := decode(entry, enveloped, true, stream.DLSN{Segment: 1})
		if err == nil && perr == nil {
			slots := int64(0)
			for _, v := range packed {
				if v.Flags&record.FlagSet != 0 {
					slots += v.LastPosition - v.Position + 1
				} else {
					slots++
				}
			}
			if slots != int64(len(expanded)) {
				t.Fatalf("%d slots packed, %d expanded", slots, len(expanded))
			}
		}
	})
}
