package layout

import (
	"encoding/hex"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// withMessage gives format 3 bytes around a protobuf message.
func withMessage(msg []byte) []byte {
	b := []byte(ledgerHeader + "3\n")
	return append(protowire.AppendVarint(b, uint64(len(msg))), msg...)
}

// message is the protobuf message in format 3 bytes.
func message(t *testing.T, b []byte) []byte {
	t.Helper()
	rest := strings.TrimPrefix(string(b), ledgerHeader+"3\n")
	msg, n := protowire.ConsumeBytes([]byte(rest))
	require.Equal(t, len(rest), n)
	return msg
}

// Rule 47: fields that this version does not know survive a rewrite, in the
// message and in its segments.
func TestRule47UnknownFieldsAreKept(t *testing.T) {
	b, err := newMetadata().Marshal()
	require.NoError(t, err)
	msg := message(t, b)
	extra := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7)
	seg := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "c:1")
	seg = protowire.AppendString(protowire.AppendTag(seg, 1, protowire.BytesType), "d:1")
	seg = protowire.AppendVarint(protowire.AppendTag(seg, 2, protowire.VarintType), 10)
	seg = append(seg, protowire.AppendString(protowire.AppendTag(nil, 77, protowire.BytesType), "later")...)
	msg = protowire.AppendBytes(protowire.AppendTag(msg, 6, protowire.BytesType), seg)
	msg = append(msg, extra...)
	// A digest type of the future.
	msg = protowire.AppendVarint(protowire.AppendTag(msg, 7, protowire.VarintType), 9)

	m, err := ParseLedgerMetadata(withMessage(msg))
	require.NoError(t, err)
	require.Len(t, m.Segments, 2)
	m = m.Clone()
	m.State, m.LastEntry, m.Length = StateClosed, 3, 4
	b, err = m.Marshal()
	require.NoError(t, err)
	again, err := ParseLedgerMetadata(b)
	require.NoError(t, err)
	require.Equal(t, m, again)
	require.Contains(t, string(b), "later")
	require.Contains(t, string(b), string(extra))
}

// Rule 47: a ledger keeps the format it was made with.
func TestRule47FormatVersionIsKept(t *testing.T) {
	c, _ := newCluster(t)
	for format := FormatVersion1; format <= FormatVersion3; format++ {
		m := newMetadata()
		m.FormatVersion = format
		if format == FormatVersion1 {
			m.HasPassword, m.Digest, m.Quorum.Ack = false, 0, 2
		}
		v, err := c.CreateLedger(t.Context(), bk.LedgerID(format), m)
		require.NoError(t, err)
		m, _, err = c.Ledger(t.Context(), bk.LedgerID(format))
		require.NoError(t, err)
		_, err = c.UpdateLedger(t.Context(), bk.LedgerID(format), m, v)
		require.NoError(t, err)
		m, _, err = c.Ledger(t.Context(), bk.LedgerID(format))
		require.NoError(t, err)
		require.Equal(t, format, m.FormatVersion)
	}
}

// What a format cannot hold is refused, not dropped.
func TestOldFormatsRefuseNewFields(t *testing.T) {
	m := newMetadata()
	m.FormatVersion = FormatVersion1
	_, err := m.Marshal()
	require.ErrorIs(t, err, bk.ErrBadVersion)
	m.FormatVersion, m.unknown = FormatVersion2, []byte{1}
	_, err = m.Marshal()
	require.ErrorIs(t, err, bk.ErrBadVersion)
	m.FormatVersion = 4
	_, err = m.Marshal()
	require.ErrorIs(t, err, bk.ErrBadVersion)
}

// Absent optional fields have their documented meaning.
func TestOptionalFields(t *testing.T) {
	const text = ledgerHeader + "2\nstate: CLOSED ensembleSize: 1 quorumSize: 1 length: 0\n" +
		"segment { firstEntryId: 0 ensembleMember: 'a:1' }"
	m, err := ParseLedgerMetadata([]byte(text))
	require.NoError(t, err)
	require.Equal(t, &LedgerMetadata{
		FormatVersion: 2, Quorum: bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, State: StateClosed,
		LastEntry: bk.InvalidEntryID, Segments: []Segment{{Ensemble: []bk.BookieID{"a:1"}}},
	}, m)
}

func TestCorruptLedgerMetadata(t *testing.T) {
	good, err := newMetadata().Marshal()
	require.NoError(t, err)
	const head2 = ledgerHeader + "2\n"
	const body = "quorumSize: 1 ensembleSize: 1 length: 0 state: OPEN "
	const seg = "segment { ensembleMember: 'a:1' firstEntryId: 0 } "
	for name, b := range map[string]string{
		"empty":            "",
		"no header":        "hello",
		"no version line":  ledgerHeader + "3",
		"version 0":        ledgerHeader + "0\n",
		"version 4":        ledgerHeader + "4\n" + string(good[len(ledgerHeader)+2:]),
		"cut":              string(good[:len(good)-1]),
		"longer":           string(good) + "x",
		"no message":       ledgerHeader + "3\n",
		"huge size":        ledgerHeader + "3\n\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"required absent":  head2 + "quorumSize: 1",
		"unknown text":     head2 + body + seg + "newField: 1",
		"no segment":       head2 + body,
		"first not 0":      head2 + body + "segment { ensembleMember: 'a:1' firstEntryId: 1 }",
		"not ascending":    head2 + body + seg + seg,
		"ensemble size":    head2 + body + "segment { ensembleMember: 'a:1' ensembleMember: 'b:1' firstEntryId: 0 }",
		"quorum":           head2 + "quorumSize: 2 ensembleSize: 1 length: 0 state: OPEN " + seg,
		"ack quorum":       head2 + body + seg + "ackQuorumSize: 2",
		"v1 few lines":     ledgerHeader + "1\n1\n1\n",
		"v1 number":        ledgerHeader + "1\nx\n1\n0\n0\ta:1\n",
		"v1 after closing": ledgerHeader + "1\n1\n1\n0\n0\ta:1\n5\tCLOSED\n6\ta:1\n",
		"v1 quorum":        ledgerHeader + "1\n0\n0\n0\n0\ta:1\n",
	} {
		_, err := ParseLedgerMetadata([]byte(b))
		require.ErrorIs(t, err, bk.ErrCorrupt, name)
	}
	_, err = ParseLedgerMetadata(make([]byte, maxLedgerMetadataBytes+1))
	require.ErrorIs(t, err, bk.ErrCorrupt)
}

func TestSegmentOf(t *testing.T) {
	m := &LedgerMetadata{Segments: []Segment{{First: 0}, {First: 4}, {First: 9}}}
	for e, want := range map[bk.EntryID]bk.EntryID{0: 0, 3: 0, 4: 4, 8: 4, 9: 9, 100: 9} {
		require.Equal(t, want, m.SegmentOf(e).First)
	}
	require.Equal(t, bk.EntryID(9), m.LastSegment().First)
}

func TestCorruptCookies(t *testing.T) {
	for _, b := range []string{"", "5", "2\na\nb\nc\n", "3\na\n", "5\nbookieHost: \"x\"\n", "5\nnonsense", "x\n"} {
		_, err := ParseCookie([]byte(b))
		require.ErrorIs(t, err, bk.ErrCorrupt, "%q", b)
	}
	for _, s := range []string{"", "x", "2\ta", "0\ta", "-1"} {
		_, err := SplitDirs(s)
		require.ErrorIs(t, err, bk.ErrCorrupt, "%q", s)
	}
	_, err := ParseServiceInfo([]byte{0x32, 0xff})
	require.ErrorIs(t, err, bk.ErrCorrupt)
}

// Cookies of versions 3 and 4 are understood and written as they were.
func TestOldCookies(t *testing.T) {
	for _, text := range []string{
		"3\nh:1\n/j\n1\t/l\n",
		"4\nbookieHost: \"h:1\"\njournalDir: \"/j\"\nledgerDirs: \"1\\t/l\"\ninstanceId: \"i\"\n",
	} {
		c, err := ParseCookie([]byte(text))
		require.NoError(t, err)
		require.Equal(t, "h:1", c.BookieID)
		require.Equal(t, "1\t/l", c.LedgerDirs)
		require.Equal(t, text, string(c.Marshal()))
	}
}

// pageBlock is a code block of docs/format/metadata.md.
func pageBlock(t *testing.T, info string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/format/metadata.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```" + info + "\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, block, info)
	return string(block[1])
}

// hexBlock is one of hex digits with remarks.
func hexBlock(t *testing.T, info string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(pageBlock(t, info)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return b
}

// The hex example of docs/format/metadata.md says what the page says.
func TestFormatPageExample(t *testing.T) {
	b := hexBlock(t, "hex ledger metadata")
	m, err := ParseLedgerMetadata(b)
	require.NoError(t, err)
	want := &LedgerMetadata{
		FormatVersion: 3, Quorum: bk.Quorum{Ensemble: 3, Write: 2, Ack: 2}, State: StateClosed,
		Segments: []Segment{
			{First: 0, Ensemble: []bk.BookieID{"a:1", "b:1", "c:1"}},
			{First: 5, Ensemble: []bk.BookieID{"a:1", "d:1", "c:1"}},
		},
		LastEntry: 9, Length: 4200, HasPassword: true, Password: []byte("pw"), Digest: bk.DigestCRC32C,
		CTime: time.UnixMilli(1700000000000), Custom: map[string][]byte{"app": []byte("x")},
	}
	require.Equal(t, want, m)
	again, err := want.Marshal()
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(b), hex.EncodeToString(again))
}

// So do the examples of ZooKeeper's tree.
func TestFormatPageZooKeeperExamples(t *testing.T) {
	text := strings.TrimSuffix(pageBlock(t, "layout hierarchical"), "\n")
	require.Equal(t, text, string(Hierarchical.layoutText()))
	info, err := ParseServiceInfo(hexBlock(t, "hex service info"))
	require.NoError(t, err)
	require.Equal(t, ServiceInfo{Endpoints: []Endpoint{{ID: "bookie", Host: "10.0.0.1", Port: 3181, Protocol: ProtocolBookie}}}, info)
	seen := map[Kind]bool{}
	for line := range strings.Lines(pageBlock(t, "ledger paths below /ledgers")) {
		f := strings.Fields(line)
		require.Len(t, f, 3)
		kind := Kind(f[0])
		id, err := strconv.ParseInt(f[1], 10, 64)
		require.NoError(t, err)
		require.Equal(t, f[2], newZKForm("/ledgers", kind).key(bk.LedgerID(id)))
		dirs, leaf := metadata.Split(strings.TrimPrefix(f[2], "/ledgers"))
		got, ok := kind.leafID(strings.ReplaceAll(dirs, "/", ""), leaf)
		require.True(t, ok, line)
		require.Equal(t, bk.LedgerID(id), got)
		seen[kind] = true
	}
	require.Len(t, seen, len(allZKKinds))
}

func FuzzParseLedgerMetadata(f *testing.F) {
	var vs []ledgerVector
	vectors(f, "ledger_metadata.json", &vs)
	for _, v := range vs {
		f.Add([]byte(v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseLedgerMetadata(b)
		if err != nil {
			require.ErrorIs(t, err, bk.ErrCorrupt)
			return
		}
		out, err := m.Marshal()
		require.NoError(t, err)
		again, err := ParseLedgerMetadata(out)
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func FuzzParseCookie(f *testing.F) {
	f.Add([]byte("3\nh:1\n/j\n1\t/l\n"))
	var vs []struct{ Hex hexBytes }
	vectors(f, "cookies.json", &vs)
	for _, v := range vs {
		f.Add([]byte(v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCookie(b)
		if err != nil {
			require.ErrorIs(t, err, bk.ErrCorrupt)
			return
		}
		again, err := ParseCookie(c.Marshal())
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}
