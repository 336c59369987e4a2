package segment

import (
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/stream"
)

func load(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

type goldenInfo struct {
	Path           string
	Version        int
	LedgerID       int64 `json:"ledgerId"`
	InProgress     bool  `json:"inprogress"`
	FirstTxID      int64 `json:"firstTxId"`
	LastTxID       int64 `json:"lastTxId"`
	CompletionTime int64 `json:"completionTime"`
	RecordCount    int64 `json:"recordCount"`
	LSSN           int64 `json:"lssn"`
	LastEntry      int64 `json:"lastEntryId"`
	LastSlot       int64 `json:"lastSlotId"`
	Region         int   `json:"regionId"`
	Truncation     string
	MinActiveEntry int64 `json:"minActiveEntryId"`
	MinActiveSlot  int64 `json:"minActiveSlotId"`
	StartReported  int64 `json:"startSequenceId_reported"`
	Envelope       bool  `json:"envelopeEntries"`
}

var goldenTruncation = map[string]Truncation{
	"ACTIVE": Active, "PARTIALLY_TRUNCATED": PartiallyTruncated, "TRUNCATED": Truncated, "UNKNOWN": unknownTruncation,
}

func (g goldenInfo) require(t *testing.T, i Info) {
	t.Helper()
	require.Equal(t, g.Version, i.Version)
	require.Equal(t, bk.LedgerID(g.LedgerID), i.Ledger)
	require.Equal(t, g.InProgress, i.InProgress)
	require.Equal(t, stream.TxID(g.FirstTxID), i.FirstTxID)
	require.Equal(t, stream.TxID(g.LastTxID), i.LastTxID)
	if g.CompletionTime == 0 {
		require.True(t, i.Completed.IsZero())
	} else {
		require.Equal(t, g.CompletionTime, i.Completed.UnixMilli())
	}
	require.Equal(t, g.RecordCount, i.Records)
	require.Equal(t, g.LSSN, i.Segment)
	require.Equal(t, g.LastEntry, i.LastEntry)
	require.Equal(t, g.LastSlot, i.LastSlot)
	require.Equal(t, g.Region, i.Region)
	want, ok := goldenTruncation[g.Truncation]
	require.True(t, ok, g.Truncation)
	require.Equal(t, want, i.Status)
	require.Equal(t, g.MinActiveEntry, i.MinActiveEntry)
	require.Equal(t, g.MinActiveSlot, i.MinActiveSlot)
	require.Equal(t, g.StartReported, i.start())
	require.Equal(t, g.Envelope, i.Enveloped())
}

// built gives the Info that the vector's text was made from.
func (g goldenInfo) built() Info {
	i := Info{
		Version: g.Version, Ledger: bk.LedgerID(g.LedgerID), InProgress: g.InProgress, FirstTxID: stream.TxID(g.FirstTxID),
		LastTxID: stream.TxID(g.LastTxID), Completed: time.UnixMilli(g.CompletionTime), Records: g.RecordCount, Segment: g.LSSN,
		LastEntry: g.LastEntry, LastSlot: g.LastSlot, Region: g.Region, Status: goldenTruncation[g.Truncation],
		MinActiveEntry: g.MinActiveEntry, MinActiveSlot: g.MinActiveSlot, StartSequence: -1,
	}
	if g.StartReported >= 0 {
		i.StartSequence = g.StartReported
	}
	return i
}

func TestSegmentMetadataGolden(t *testing.T) {
	var v struct {
		Segments []struct {
			Name, Text    string
			Built, Parsed goldenInfo
		}
		ParseOnly []struct {
			Name, Text string
			Default    json.RawMessage
		} `json:"parse_only"`
	}
	load(t, "segment_metadata.json", &v)
	require.NotEmpty(t, v.Segments)
	for _, c := range v.Segments {
		t.Run(c.Name, func(t *testing.T) {
			built := c.Built.built()
			require.Equal(t, c.Text, string(built.text()))
			require.Equal(t, path.Base(c.Built.Path), built.name())
			got, err := parseInfo(c.Parsed.Path, []byte(c.Text))
			require.NoError(t, err)
			c.Parsed.require(t, got)
			require.Equal(t, c.Text, string(got.text()), "and back")
		})
	}
	require.NotEmpty(t, v.ParseOnly)
	for _, c := range v.ParseOnly {
		t.Run(c.Name, func(t *testing.T) {
			got, err := parseInfo("/p/x", []byte(c.Text))
			var g goldenInfo
			switch {
			case json.Unmarshal(c.Default, &g) == nil:
				require.NoError(t, err)
				g.require(t, got)
			case c.Text == "1;12345;1000":
				// Version 1 is read: the streams of DistributedLog's first layout
				// can be replayed, though not written.
				require.NoError(t, err)
			case strings.Contains(string(c.Default), "UnsupportedMetadataVersion"):
				require.ErrorIs(t, err, stream.ErrUnsupported, string(c.Default))
			default:
				require.ErrorIs(t, err, stream.ErrCorrupt, string(c.Default))
			}
		})
	}
}

// TestTextsOfOtherWriters: every segment text that DistributedLog wrote in its
// various modes parses, and comes out the same.
func TestTextsOfOtherWriters(t *testing.T) {
	var raw struct {
		Scenarios []map[string]json.RawMessage
	}
	load(t, "write_modes.json", &raw)
	seen := 0
	for _, sc := range raw.Scenarios {
		for key, nodes := range sc {
			if !strings.HasPrefix(key, "znodes") {
				continue
			}
			var zs []struct{ Path, Text string }
			require.NoError(t, json.Unmarshal(nodes, &zs))
			for _, z := range zs {
				if !strings.Contains(z.Path, "/ledgers/") {
					continue
				}
				require.True(t, isSegmentName(path.Base(z.Path)))
				i, err := parseInfo(z.Path, []byte(z.Text))
				require.NoError(t, err)
				require.Equal(t, z.Text, string(i.text()))
				require.Equal(t, strings.Contains(z.Path, "/inprogress_"), i.InProgress)
				if i.Version >= versionNumbered && !strings.Contains(string(sc["stream"]), "oldnames") {
					require.Equal(t, path.Base(z.Path), i.name())
				}
				seen++
			}
		}
	}
	require.Greater(t, seen, 30)
}

func FuzzParseInfo(f *testing.F) {
	for _, s := range []string{"5;0;1001;1;0;0;-1", "47244640261;0;1001;1011;1795956834211;1;20;0;0;0;0", "1;12345;1000", "2;1;2;3", ";;;", "-1;2;3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, err := parseInfo("/x", []byte(s))
		if err != nil {
			return
		}
		again, err := parseInfo("/x", i.text())
		require.NoError(t, err)
		require.Equal(t, string(i.text()), string(again.text()))
	})
}

func TestSequence(t *testing.T) {
	old := Info{Version: 4, Segment: 7, Records: 10, StartSequence: -1}
	require.Equal(t, int64(0), old.nextStart(), "DistributedLog starts to count at the first segment of version 5")
	require.Less(t, old.Sequence(1), int64(0))
	done := Info{Version: 5, Segment: 8, Records: 10, StartSequence: 40}
	require.Equal(t, int64(50), done.nextStart())
	require.Equal(t, int64(42), done.Sequence(3))
	list := []Info{old, done, {Version: 5, Segment: 9, InProgress: true, StartSequence: -1}, {Version: 5, Segment: 10, InProgress: true, StartSequence: -1}}
	fillSequence(list)
	require.Equal(t, int64(50), list[2].StartSequence)
	require.Equal(t, int64(-1), list[3].StartSequence, "not known before the one in front of it is complete")
}
