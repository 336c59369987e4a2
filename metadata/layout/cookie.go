package layout

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata/layout/internal/bkpb"
)

// CookieVersion is the layout version of the cookies we write.
const CookieVersion = 5

// Cookie is what ties a bookie's directories to its identity: the same text is
// in metadata and in file VERSION of each of its directories. A bookie that
// finds another one, or none beside data, has lost a disk or its identity and
// must not answer "no such entry".
//
// Text: line 1 = layout version, then protobuf text (versions 4 and 5), or the
// three fields bookie id, journal and ledger directories as bare lines
// (version 3).
type Cookie struct {
	LayoutVersion int    // 0 = CookieVersion; 3 and 4 are understood
	BookieID      string // "bookieHost" in the text
	JournalDirs   string // paths joined by ','
	LedgerDirs    string // count, then the paths, joined by TAB; see JoinDirs
	InstanceID    string // of the cluster; "" = none
	IndexDirs     string // as LedgerDirs; "" = none
}

// JoinDirs gives directories as LedgerDirs and IndexDirs hold them.
func JoinDirs(dirs []string) string {
	return strings.Join(append([]string{strconv.Itoa(len(dirs))}, dirs...), "\t")
}

// SplitDirs takes apart what JoinDirs made; bk.ErrCorrupt.
func SplitDirs(s string) ([]string, error) {
	fields := strings.Split(s, "\t")
	if n, err := strconv.Atoi(fields[0]); err != nil || n != len(fields)-1 {
		return nil, &bk.CorruptError{Where: "cookie, directories", Offset: -1, Want: "count TAB path…", Got: strconv.Quote(s)}
	}
	return fields[1:], nil
}

// Marshal gives the cookie's text.
func (c Cookie) Marshal() []byte {
	var t textWriter
	if c.LayoutVersion == 3 {
		fmt.Fprintf(&t, "3\n%s\n%s\n%s\n", c.BookieID, c.JournalDirs, c.LedgerDirs)
		return []byte(t.String())
	}
	version := c.LayoutVersion
	if version == 0 {
		version = CookieVersion
	}
	fmt.Fprintf(&t, "%d\n", version)
	t.quoted("bookieHost", c.BookieID)
	t.quoted("journalDir", c.JournalDirs)
	t.quoted("ledgerDirs", c.LedgerDirs)
	if c.InstanceID != "" {
		t.quoted("instanceId", c.InstanceID)
	}
	if c.IndexDirs != "" {
		t.quoted("indexDirs", c.IndexDirs)
	}
	return []byte(t.String())
}

// ParseCookie decodes a cookie's text; bk.ErrCorrupt. b is not kept.
func ParseCookie(b []byte) (Cookie, error) {
	corrupt := func(want, got string) (Cookie, error) {
		return Cookie{}, &bk.CorruptError{Where: "cookie", Offset: -1, Want: want, Got: got}
	}
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return corrupt("a version line", strconv.Quote(string(b[:min(len(b), 40)])))
	}
	switch string(line) {
	case "3":
		f := strings.Split(string(rest), "\n")
		if len(f) < 3 {
			return corrupt("four lines", strconv.Quote(string(b)))
		}
		return Cookie{LayoutVersion: 3, BookieID: f[0], JournalDirs: f[1], LedgerDirs: f[2]}, nil
	case "4", "5":
		var pb bkpb.CookieFormat
		if err := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(rest, &pb); err != nil {
			return corrupt("protobuf text", err.Error())
		}
		return Cookie{
			LayoutVersion: int(line[0] - '0'),
			BookieID:      pb.GetBookieHost(), JournalDirs: pb.GetJournalDir(), LedgerDirs: pb.GetLedgerDirs(),
			InstanceID: pb.GetInstanceId(), IndexDirs: pb.GetIndexDirs(),
		}, nil
	default:
		return corrupt("version 3, 4 or 5", strconv.Quote(string(line[:min(len(line), 20)])))
	}
}

// ProtocolBookie names the endpoint of a ServiceInfo that clients connect to.
const ProtocolBookie = "bookie-rpc"

// ServiceInfo is what a bookie tells about itself.
type ServiceInfo struct {
	Endpoints  []Endpoint
	Properties map[string]string
}

// Endpoint is one place a bookie serves at.
type Endpoint struct {
	ID         string // "bookie", "httpserver"
	Host       string
	Port       int
	Protocol   string // ProtocolBookie, "http"
	Auth       []string
	Extensions []string // "tls"
}

// Marshal gives the protobuf bytes; none for an empty ServiceInfo.
func (s ServiceInfo) Marshal() ([]byte, error) {
	pb := &bkpb.BookieServiceInfoFormat{Properties: s.Properties}
	for _, e := range s.Endpoints {
		pb.Endpoints = append(pb.Endpoints, &bkpb.BookieServiceInfoFormat_Endpoint{
			Id: &e.ID, Port: proto.Int32(int32(e.Port)), Host: &e.Host, Protocol: &e.Protocol,
			Auth: e.Auth, Extensions: e.Extensions,
		})
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(pb)
}

// ParseServiceInfo decodes what Marshal made; bk.ErrCorrupt. b is not kept.
func ParseServiceInfo(b []byte) (ServiceInfo, error) {
	var pb bkpb.BookieServiceInfoFormat
	if err := proto.Unmarshal(b, &pb); err != nil {
		return ServiceInfo{}, &bk.CorruptError{Where: "bookie service info", Offset: -1, Want: "protobuf", Got: err.Error()}
	}
	s := ServiceInfo{Properties: pb.GetProperties()}
	for _, e := range pb.GetEndpoints() {
		s.Endpoints = append(s.Endpoints, Endpoint{
			ID: e.GetId(), Host: e.GetHost(), Port: int(e.GetPort()), Protocol: e.GetProtocol(),
			Auth: e.GetAuth(), Extensions: e.GetExtensions(),
		})
	}
	return s, nil
}
