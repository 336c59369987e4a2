package layout

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata/layout/internal/bkpb"
)

// On disk: do not change.
const (
	ledgerHeader = "BookieMetadataFormatVersion\t"
	v1Closed     = "CLOSED"
	v1InRecovery = -102 // in place of the last entry of a closed ledger
)

// maxLedgerMetadataBytes bounds what is parsed. etcd takes 1.5 MiB, ZooKeeper
// 1 MiB by default.
const maxLedgerMetadataBytes = 8 << 20

func ledgerCorrupt(field, want, got string) error {
	return &bk.CorruptError{Where: "ledger metadata, " + field, Offset: -1, Want: want, Got: got}
}

// ParseLedgerMetadata decodes stored bytes of format 1, 2 or 3. Bytes that do
// not parse or break a rule of the format are bk.ErrCorrupt. b is not kept.
func ParseLedgerMetadata(b []byte) (*LedgerMetadata, error) {
	if len(b) > maxLedgerMetadataBytes {
		return nil, ledgerCorrupt("size", fmt.Sprintf("at most %d bytes", maxLedgerMetadataBytes), strconv.Itoa(len(b)))
	}
	rest, ok := bytes.CutPrefix(b, []byte(ledgerHeader))
	line, body, ok2 := bytes.Cut(rest, []byte("\n"))
	if !ok || !ok2 {
		return nil, ledgerCorrupt("first line", strconv.Quote(ledgerHeader+"<version>\n"), strconv.Quote(string(b[:min(len(b), 40)])))
	}
	var m *LedgerMetadata
	var err error
	switch string(line) {
	case "1":
		m, err = parseLedgerV1(string(body))
	case "2":
		var pb bkpb.LedgerMetadataFormat
		if err = prototext.Unmarshal(body, &pb); err == nil {
			m = ledgerFromProto(&pb)
			m.FormatVersion = FormatVersion2
		}
	case "3":
		m, err = parseLedgerV3(body)
	default:
		return nil, ledgerCorrupt("format version", "1, 2 or 3", strconv.Quote(string(line[:min(len(line), 20)])))
	}
	if err != nil {
		return nil, ledgerCorrupt("format "+string(line), "valid bytes", err.Error())
	}
	return m, m.validate()
}

func parseLedgerV3(body []byte) (*LedgerMetadata, error) {
	size, n := protowire.ConsumeVarint(body)
	if n < 0 || size != uint64(len(body)-n) {
		return nil, fmt.Errorf("message of %d bytes behind its size %d", len(body)-max(n, 0), size)
	}
	var pb bkpb.LedgerMetadataFormat
	if err := proto.Unmarshal(body[n:], &pb); err != nil {
		return nil, err
	}
	m := ledgerFromProto(&pb)
	m.FormatVersion = FormatVersion3
	return m, nil
}

func ledgerFromProto(pb *bkpb.LedgerMetadataFormat) *LedgerMetadata {
	m := &LedgerMetadata{
		Quorum: bk.Quorum{
			Ensemble: int(pb.GetEnsembleSize()), Write: int(pb.GetQuorumSize()), Ack: int(pb.GetQuorumSize()),
		},
		State:       State(pb.GetState()),
		LastEntry:   bk.InvalidEntryID,
		Length:      pb.GetLength(),
		HasPassword: pb.Password != nil,
		Digest:      bk.DigestType(pb.GetDigestType()),
		Password:    bytes.Clone(pb.GetPassword()),
		CToken:      pb.GetCToken(),
		unknown:     bytes.Clone(pb.ProtoReflect().GetUnknown()),
	}
	if pb.DigestType == nil {
		m.Digest = 0
	}
	if pb.LastEntryId != nil {
		m.LastEntry = bk.EntryID(pb.GetLastEntryId())
	}
	if pb.AckQuorumSize != nil {
		m.Quorum.Ack = int(pb.GetAckQuorumSize())
	}
	if pb.Ctime != nil {
		m.CTime = time.UnixMilli(pb.GetCtime())
	}
	for _, s := range pb.GetSegment() {
		seg := Segment{First: bk.EntryID(s.GetFirstEntryId()), unknown: bytes.Clone(s.ProtoReflect().GetUnknown())}
		for _, b := range s.GetEnsembleMember() {
			seg.Ensemble = append(seg.Ensemble, bk.BookieID(b))
		}
		m.Segments = append(m.Segments, seg)
	}
	for _, c := range pb.GetCustomMetadata() {
		if m.Custom == nil {
			m.Custom = map[string][]byte{}
		}
		m.Custom[c.GetKey()] = append([]byte{}, c.GetValue()...)
	}
	return m
}

// validate checks what every reader relies on.
func (m *LedgerMetadata) validate() error {
	if err := m.Quorum.Validate(); err != nil {
		return ledgerCorrupt("quorum", "ensemble >= write >= ack >= 1", err.Error())
	}
	if m.State < StateOpen || m.State > StateClosed {
		return ledgerCorrupt("state", "1 to 3", m.State.String())
	}
	if len(m.Segments) == 0 {
		return ledgerCorrupt("segments", "at least one", "none")
	}
	last := bk.InvalidEntryID
	for i, s := range m.Segments {
		if s.First <= last || i == 0 && s.First != 0 {
			return ledgerCorrupt(fmt.Sprintf("first entry of segment %d", i), "0, then ascending", s.First.String())
		}
		if len(s.Ensemble) != m.Quorum.Ensemble {
			return ledgerCorrupt(fmt.Sprintf("ensemble of segment %d", i), strconv.Itoa(m.Quorum.Ensemble), strconv.Itoa(len(s.Ensemble)))
		}
		last = s.First
	}
	if m.LastEntry < bk.InvalidEntryID && m.State == StateClosed {
		return ledgerCorrupt("last entry", "-1 or more", m.LastEntry.String())
	}
	return nil
}

// Marshal gives the stored bytes, in m.FormatVersion. What the format cannot
// hold is an error, not lost.
func (m *LedgerMetadata) Marshal() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	switch m.FormatVersion {
	case FormatVersion1:
		return m.marshalV1()
	case FormatVersion2:
		return m.marshalV2()
	case 0, FormatVersion3:
		return m.marshalV3()
	default:
		return nil, fmt.Errorf("ledger metadata format %d: want 1, 2 or 3: %w", m.FormatVersion, bk.ErrBadVersion)
	}
}

func (m *LedgerMetadata) marshalV3() ([]byte, error) {
	pb := &bkpb.LedgerMetadataFormat{
		QuorumSize:    proto.Int32(int32(m.Quorum.Write)),
		EnsembleSize:  proto.Int32(int32(m.Quorum.Ensemble)),
		Length:        proto.Int64(m.Length),
		LastEntryId:   proto.Int64(int64(m.LastEntry)),
		State:         bkpb.LedgerMetadataFormat_State(m.State).Enum(),
		AckQuorumSize: proto.Int32(int32(m.Quorum.Ack)),
		CToken:        proto.Int64(m.CToken),
	}
	if m.Digest != 0 {
		pb.DigestType = bkpb.LedgerMetadataFormat_DigestType(m.Digest).Enum()
	}
	if m.HasPassword {
		pb.Password = append([]byte{}, m.Password...)
	}
	if !m.CTime.IsZero() {
		pb.Ctime = proto.Int64(m.CTime.UnixMilli())
	}
	for _, s := range m.Segments {
		seg := &bkpb.LedgerMetadataFormat_Segment{FirstEntryId: proto.Int64(int64(s.First))}
		for _, b := range s.Ensemble {
			seg.EnsembleMember = append(seg.EnsembleMember, string(b))
		}
		seg.ProtoReflect().SetUnknown(s.unknown)
		pb.Segment = append(pb.Segment, seg)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Custom)) {
		pb.CustomMetadata = append(pb.CustomMetadata,
			&bkpb.LedgerMetadataFormat_CustomMetadata{Key: proto.String(k), Value: append([]byte{}, m.Custom[k]...)})
	}
	pb.ProtoReflect().SetUnknown(m.unknown)
	var buf bytes.Buffer
	buf.WriteString(ledgerHeader + "3\n")
	if _, err := (protodelim.MarshalOptions{MarshalOptions: proto.MarshalOptions{Deterministic: true}}).MarshalTo(&buf, pb); err != nil {
		return nil, fmt.Errorf("marshal ledger metadata: %w", err)
	}
	return buf.Bytes(), nil
}

func (m *LedgerMetadata) marshalV2() ([]byte, error) {
	if len(m.unknown) > 0 {
		return nil, fmt.Errorf("ledger metadata format 2 cannot hold unknown fields: %w", bk.ErrBadVersion)
	}
	var t textWriter
	t.WriteString(ledgerHeader + "2\n")
	t.number("quorumSize", int64(m.Quorum.Write))
	t.number("ensembleSize", int64(m.Quorum.Ensemble))
	t.number("length", m.Length)
	t.number("lastEntryId", int64(m.LastEntry))
	t.word("state", m.State.String())
	for _, s := range m.Segments {
		t.open("segment")
		for _, b := range s.Ensemble {
			t.quoted("ensembleMember", string(b))
		}
		t.number("firstEntryId", int64(s.First))
		t.close()
	}
	if m.Digest != 0 {
		t.word("digestType", bkpb.LedgerMetadataFormat_DigestType(m.Digest).String())
	}
	if m.HasPassword {
		t.quoted("password", string(m.Password))
	}
	t.number("ackQuorumSize", int64(m.Quorum.Ack))
	if !m.CTime.IsZero() {
		t.number("ctime", m.CTime.UnixMilli())
	}
	for _, k := range slices.Sorted(maps.Keys(m.Custom)) {
		t.open("customMetadata")
		t.quoted("key", k)
		t.quoted("value", string(m.Custom[k]))
		t.close()
	}
	return []byte(t.String()), nil
}

func (m *LedgerMetadata) marshalV1() ([]byte, error) {
	if m.HasPassword || len(m.Custom) > 0 || m.Quorum.Ack != m.Quorum.Write || len(m.unknown) > 0 {
		return nil, fmt.Errorf("ledger metadata format 1 cannot hold a password, custom metadata or an ack quorum: %w", bk.ErrBadVersion)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s1\n%d\n%d\n%d\n", ledgerHeader, m.Quorum.Write, m.Quorum.Ensemble, m.Length)
	for _, s := range m.Segments {
		b.WriteString(s.First.String())
		for _, id := range s.Ensemble {
			b.WriteString("\t" + string(id))
		}
		b.WriteString("\n")
	}
	switch m.State {
	case StateInRecovery:
		fmt.Fprintf(&b, "%d\t%s", v1InRecovery, v1Closed)
	case StateClosed:
		fmt.Fprintf(&b, "%d\t%s", m.LastEntry, v1Closed)
	}
	return []byte(b.String()), nil
}

func parseLedgerV1(body string) (*LedgerMetadata, error) {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if len(lines) < 4 {
		return nil, fmt.Errorf("%d lines, want at least 4", len(lines))
	}
	var head [3]int64
	for i := range head {
		n, err := strconv.ParseInt(lines[i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		head[i] = n
	}
	m := &LedgerMetadata{
		FormatVersion: FormatVersion1,
		Quorum:        bk.Quorum{Ensemble: int(head[1]), Write: int(head[0]), Ack: int(head[0])},
		State:         StateOpen,
		LastEntry:     bk.InvalidEntryID,
		Length:        head[2],
	}
	for i, line := range lines[len(head):] {
		fields := strings.Split(line, "\t")
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || m.State != StateOpen {
			return nil, fmt.Errorf("line %d: %q", i+len(head)+2, line)
		}
		switch {
		case len(fields) == 2 && fields[1] == v1Closed && n == v1InRecovery:
			m.State = StateInRecovery
		case len(fields) == 2 && fields[1] == v1Closed:
			m.State, m.LastEntry = StateClosed, bk.EntryID(n)
		default:
			seg := Segment{First: bk.EntryID(n)}
			for _, f := range fields[1:] {
				seg.Ensemble = append(seg.Ensemble, bk.BookieID(f))
			}
			m.Segments = append(m.Segments, seg)
		}
	}
	return m, nil
}
