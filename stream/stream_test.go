package stream_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

// TestR40NamesThatEscape: names that would leave the namespace's prefix, or
// that a store or a shell would misread, are refused with the reason.
func TestR40NamesThatEscape(t *testing.T) {
	for name, reason := range map[string]string{
		"":                                    "is empty",
		"/":                                   "is empty",
		"//":                                  "ends with a slash",
		".":                                   "reserved",
		"..":                                  "reserved",
		"../x":                                "reserved",
		"a/../../b":                           `relative component ".."`,
		"a/./b":                               `relative component "."`,
		"a//b":                                "empty component",
		"a/":                                  "ends with a slash",
		"//a":                                 "empty component",
		"a\x00b":                              "not allowed",
		"trailing space ":                     "not allowed",
		"<img src=x onerror=alert(1)>":        "reserved",
		"a<b":                                 "not allowed",
		"<default>":                           "reserved",
		"a/<default>/ledgers":                 "not allowed",
		"\xff\xfe":                            "not UTF-8",
		strings.Repeat("a", 4096):             "4096 bytes, the limit is 1024",
		strings.Repeat("a/", 511) + "aaa/":    "1026 bytes",
		strings.Repeat("é", 512) + "x":        "1025 bytes",
		"a\nb":                                "not allowed",
		"line\u0085":                          "not allowed",
		"\ue000":                              "not allowed",
		"smile\U0001F600":                     "not allowed",
		"inside.allowed/.hidden/../../escape": "relative component",
	} {
		_, err := stream.ParseName(name)
		var ne *stream.NameError
		require.ErrorAs(t, err, &ne, "name %q", name)
		require.ErrorIs(t, err, stream.ErrInvalidName)
		require.Contains(t, ne.Reason, reason, "name %q", name)
		require.Less(t, len(err.Error()), 300, "an error shows a long name cut")
		if name != "/" && name != "//a" { // ParseName drops one leading slash
			require.ErrorIs(t, stream.Name(name).Validate(), stream.ErrInvalidName)
		}
	}
	for _, name := range []string{"a", "a%2f..%2fb", "a.", "a..b", "x/y/z", strings.Repeat("a", 1024), "\u001f", "\u007f", "\u009f", "中文"} {
		got, err := stream.ParseName(name)
		require.NoError(t, err, "name %q", name)
		require.Equal(t, name, got.String())
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"a", "/a/b", "..", "a//b", "a\x00", "<x", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := stream.ParseName(s)
		if err != nil {
			require.ErrorIs(t, err, stream.ErrInvalidName)
			return
		}
		require.NoError(t, n.Validate())
		for part := range strings.SplitSeq(string(n), "/") {
			require.NotContains(t, []string{"", ".", ".."}, part)
			require.NotContains(t, part, "\x00")
			require.NotContains(t, part, "<")
		}
	})
}

func TestDLSNCompare(t *testing.T) {
	ascending := []stream.DLSN{
		{math.MinInt64, 0, 0}, stream.InvalidDLSN, stream.BeforeFirstDLSN, stream.InitialDLSN, {1, 0, 1}, {1, 2, -1}, {1, 2, 3}, {2, 0, 0},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			require.Equal(t, want, a.Compare(b), "%v and %v", a, b)
			require.Equal(t, want < 0, a.Less(b))
		}
	}
}

func TestParseDLSNRefuses(t *testing.T) {
	for _, s := range []string{"", "1", "1:2", "1:2:3:4", "1:2:x", "1::3", ":::", "+1:2:3", " 1:2:3", "1:2:3 ", "9223372036854775808:0:0",
		"AQ==", "AgAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAA==", "!!!!", "1:2:3\n", strings.Repeat("A", 1<<16)} {
		_, err := stream.ParseDLSN(s)
		require.ErrorIs(t, err, stream.ErrInvalidDLSN, "%q", s)
		require.Less(t, len(err.Error()), 300)
	}
}

func FuzzParseDLSN(f *testing.F) {
	f.Add("1:20:0")
	f.Add("AQAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAA==")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := stream.ParseDLSN(s)
		if err != nil {
			require.ErrorIs(t, err, stream.ErrInvalidDLSN)
			return
		}
		again, err := stream.ParseDLSN(d.String())
		require.NoError(t, err)
		require.Equal(t, d, again)
		again, err = stream.ParseDLSN(d.Base64())
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}

func TestDLSNText(t *testing.T) {
	b, err := json.Marshal(struct{ At stream.DLSN }{stream.DLSN{Segment: 1, Entry: 20}})
	require.NoError(t, err)
	require.JSONEq(t, `{"At":"1:20:0"}`, string(b))
	var back struct{ At stream.DLSN }
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 20}, back.At)
}

func TestParsePosition(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	d := stream.DLSN{Segment: 1, Entry: 20}
	for s, want := range map[string]stream.Position{
		"first":                  stream.First(),
		"last":                   stream.Last(),
		"now":                    stream.Now(),
		"1:20:0":                 stream.At(d),
		d.Base64():               stream.At(d),
		"after:1:20:0":           stream.After(d),
		"txid:42":                stream.FromTxID(42),
		"txid:0":                 stream.FromTxID(0),
		"-2h":                    stream.FromTime(now.Add(-2 * time.Hour)),
		"-1h30m":                 stream.FromTime(now.Add(-90 * time.Minute)),
		"-7d":                    stream.FromTime(now.AddDate(0, 0, -7)),
		"-1d12h":                 stream.FromTime(now.Add(-36 * time.Hour)),
		"2026-11-29T10:00:00Z":   stream.FromTime(now.Add(-2 * time.Hour)),
		"2026-11-29T10:00:00.5Z": stream.FromTime(now.Add(-2*time.Hour + 500*time.Millisecond)),
		"-1:0:0":                 stream.At(stream.DLSN{Segment: -1}),
		"1:0:-1":                 stream.At(stream.BeforeFirstDLSN),
	} {
		got, err := stream.ParsePosition(s, now)
		require.NoError(t, err, "%q", s)
		require.Equal(t, want, got, "%q", s)
		again, err := stream.ParsePosition(got.String(), now)
		require.NoError(t, err, "%q", got.String())
		require.Equal(t, got, again)
	}
	for _, s := range []string{"", "First", "txid:", "txid:-1", "txid:1.5", "after:", "after:first", "-", "-2", "--2h", "-+2h", "-xd", "2h",
		"2026-11-29", "2026-13-29T10:00:00Z", "1:2", "nonsense", "\x00"} {
		_, err := stream.ParsePosition(s, now)
		require.ErrorIs(t, err, stream.ErrInvalidPosition, "%q", s)
	}
}

func TestPositionToken(t *testing.T) {
	d := stream.DLSN{Segment: 3, Entry: 9, Slot: 2}
	b, err := d.MarshalBinary()
	require.NoError(t, err)
	p, err := stream.Token(b)
	require.NoError(t, err)
	require.Equal(t, stream.At(d), p)
	_, err = stream.Token(b[:24])
	require.ErrorIs(t, err, stream.ErrInvalidPosition)
	require.ErrorIs(t, err, stream.ErrInvalidDLSN)
	require.Equal(t, stream.TxID(1500), stream.FromTime(time.UnixMilli(1500)).TxID())
	require.Equal(t, stream.TxID(7), stream.FromTxID(7).TxID())
}

func TestConfigDefaults(t *testing.T) {
	c := stream.Config{}.WithDefaults()
	require.Equal(t, stream.Quorum{Ensemble: 3, Write: 3, Ack: 2}, c.Quorum)
	require.Equal(t, int64(256<<20), c.Roll.SizeBytes)
	require.Equal(t, 2*time.Hour, c.Roll.Every)
	require.NoError(t, c.Validate())
	require.Equal(t, stream.Quorum{Ensemble: 1, Write: 1, Ack: 1}, stream.Config{Quorum: stream.Quorum{Ensemble: 1}}.WithDefaults().Quorum)
	require.Equal(t, stream.Quorum{Ensemble: 5, Write: 3, Ack: 2}, stream.Config{Quorum: stream.Quorum{Ensemble: 5}}.WithDefaults().Quorum)
	require.Equal(t, stream.Quorum{Ensemble: 5, Write: 5, Ack: 3}, stream.Config{Quorum: stream.Quorum{Write: 5}}.WithDefaults().Quorum)
}

func TestConfigValidate(t *testing.T) {
	for want, c := range map[string]stream.Config{
		"ensemble 2, write quorum 3":   {Quorum: stream.Quorum{Ensemble: 2, Write: 3, Ack: 2}},
		"write quorum 2, ack quorum 3": {Quorum: stream.Quorum{Ensemble: 3, Write: 2, Ack: 3}},
		"ack quorum -1":                {Quorum: stream.Quorum{Ensemble: 3, Write: 3, Ack: -1}},
		"ensemble 500":                 {Quorum: stream.Quorum{Ensemble: 500}},
		"roll size -1 bytes":           {Roll: stream.Roll{SizeBytes: -1}},
		"roll size 10 bytes":           {Roll: stream.Roll{SizeBytes: 10}},
		"retention age -1s is":         {Retention: stream.Retention{Age: -time.Second}},
		"compression 7":                {Compression: 7},
		`label ""`:                     {Labels: map[string]string{"": "x"}},
		"65 labels":                    {Labels: manyLabels(65)},
	} {
		err := c.Validate()
		require.ErrorIs(t, err, stream.ErrInvalidConfig, want)
		require.ErrorContains(t, err, want)
	}
	both := stream.Config{Quorum: stream.Quorum{Ensemble: 1, Write: 2, Ack: 1}, Compression: 9}
	require.ErrorContains(t, both.Validate(), "write quorum 2")
	require.ErrorContains(t, both.Validate(), "compression 9")
}

func manyLabels(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[strings.Repeat("k", i+1)] = "v"
	}
	return m
}

func TestConfigJSON(t *testing.T) {
	b, err := json.Marshal(stream.Config{})
	require.NoError(t, err)
	require.Equal(t, "{}", string(b))
	c := stream.Config{Quorum: stream.Quorum{Ensemble: 5, Write: 3, Ack: 2}, Compression: stream.CompressionLZ4,
		Roll: stream.Roll{SizeBytes: 1 << 20}, Retention: stream.Retention{Age: time.Hour}, Labels: map[string]string{"a": "b"}}
	b, err = json.Marshal(c)
	require.NoError(t, err)
	require.Contains(t, string(b), `"compression":"lz4"`)
	var back stream.Config
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, c, back)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"compression":"zip"}`), &back), stream.ErrInvalidConfig)
}

func TestErrorsCarryFactsAndConditions(t *testing.T) {
	cause := errors.New("ledger fenced")
	for cond, err := range map[error]error{
		stream.ErrTruncated:     &stream.TruncatedError{At: stream.InitialDLSN, First: stream.DLSN{Segment: 6}},
		stream.ErrRecordTooLong: &stream.RecordTooLongError{Size: 2 << 20, Limit: 1 << 20},
		stream.ErrTxIDOrder:     &stream.TxIDOrderError{TxID: 5, Last: 7},
		stream.ErrNotOwner:      &stream.OwnerError{Stream: "s", Owner: "h:1"},
		stream.ErrFenced:        &stream.FencedError{Stream: "s", Cause: cause},
		stream.ErrCorrupt:       &stream.CorruptError{Where: "entry 1:2", Offset: 3, Want: "a", Got: "b"},
	} {
		require.ErrorIs(t, err, cond)
	}
	require.ErrorIs(t, &stream.FencedError{Cause: cause}, cause)
	require.EqualError(t, &stream.TruncatedError{At: stream.InitialDLSN, First: stream.DLSN{Segment: 6}}, "1:0:0 is truncated, the stream begins at 6:0:0")
	require.EqualError(t, &stream.TxIDOrderError{TxID: 5, Last: 7}, "txid 5 goes back: the last one is 7")
	require.ErrorContains(t, &stream.TxIDOrderError{TxID: -1, Last: 7}, "want 0 to")
	require.EqualError(t, &stream.RecordTooLongError{Size: 3, Limit: 2}, "record payload of 3 bytes is over the limit of 2 bytes")
}
