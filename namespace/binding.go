package namespace

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The two lines in front of the settings of a namespace node. On disk: do not
// change.
const (
	bindingVersion = "1"
	bindingType    = "BKDL"
)

// Binding ties a namespace of streams to the cluster of bookies that keeps
// their ledgers. It is the value of the namespace's node, in DistributedLog's
// format, field by field. See docs/format/namespace-binding.md.
type Binding struct {
	ClusterServers       string // 1: metadata servers of the cluster, for writers: "host:port,host:port"
	ClusterScope         string // 2: where the cluster lies on them, "/ledgers"
	SkipTxIDCheck        bool   // 3, stored as its opposite, "sanity check txid"
	EncodeRegionID       bool   // 4
	ClusterReaderServers string // 5: the same for readers; "" = ClusterServers
	StreamServers        string // 6: metadata servers of the namespace; "" = those of the URI
	StreamReaderServers  string // 7: the same for readers; "" = StreamServers
	ACLRoot              string // 8: node of access control entries; "" = none
	FirstSegment         int64  // 9: number of a stream's first segment; 0 = 1
	Federated            bool   // 10: streams are spread over sub-namespaces
}

// bindingField is one row of the list of fields that encoder and decoder
// share. Exactly one of the three pointers is set.
type bindingField struct {
	id     int
	str    *string
	flag   *bool
	negate bool // the stored flag is the opposite
	num    *int64
	always bool // written even when it has its zero value
}

func (b *Binding) fields() []bindingField {
	return []bindingField{
		{id: 1, str: &b.ClusterServers, always: true},
		{id: 2, str: &b.ClusterScope, always: true},
		{id: 3, flag: &b.SkipTxIDCheck, negate: true, always: true},
		{id: 4, flag: &b.EncodeRegionID, always: true},
		{id: 5, str: &b.ClusterReaderServers},
		{id: 6, str: &b.StreamServers},
		{id: 7, str: &b.StreamReaderServers},
		{id: 8, str: &b.ACLRoot},
		{id: 9, num: &b.FirstSegment},
		{id: 10, flag: &b.Federated},
	}
}

// First is the number of a stream's first segment.
func (b Binding) First() int64 {
	if b.FirstSegment == 0 {
		return 1
	}
	return b.FirstSegment
}

// Marshal gives the node's value.
func (b Binding) Marshal() []byte {
	out := []byte(bindingVersion + "\n" + bindingType + "\n{")
	sep := ""
	for _, f := range b.fields() {
		var typ, val string
		switch {
		case f.str != nil:
			if *f.str == "" && !f.always {
				continue
			}
			typ, val = "str", quoteTJSON(*f.str)
		case f.num != nil:
			if *f.num == 0 && !f.always {
				continue
			}
			typ, val = "i64", strconv.FormatInt(*f.num, 10)
		default:
			if !*f.flag && !f.always {
				continue
			}
			typ, val = "tf", "0"
			if *f.flag != f.negate {
				val = "1"
			}
		}
		out = fmt.Appendf(out, `%s"%d":{"%s":%s}`, sep, f.id, typ, val)
		sep = ","
	}
	return append(out, '}')
}

// ParseBinding reads the value of a namespace node. servers, the metadata
// servers of the namespace's URI, stand in for fields 6 and 7 where they are
// absent. Unknown fields are skipped. Failures are ErrBadBinding.
func ParseBinding(value []byte, servers string) (Binding, error) {
	lines := strings.Split(string(value), "\n")
	if len(lines) < 3 {
		return Binding{}, fmt.Errorf("want three lines, got %d: %w", len(lines), ErrBadBinding)
	}
	if lines[0] != bindingVersion {
		return Binding{}, fmt.Errorf("format version %q, want %q: %w", lines[0], bindingVersion, ErrBadBinding)
	}
	if lines[1] != bindingType {
		return Binding{}, fmt.Errorf("type %q, want %q: %w", lines[1], bindingType, ErrBadBinding)
	}
	var raw map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(strings.Join(lines[2:], "")), &raw); err != nil {
		return Binding{}, fmt.Errorf("settings: %w: %w", err, ErrBadBinding)
	}
	var b Binding
	for _, f := range b.fields() {
		if err := f.decode(raw[strconv.Itoa(f.id)]); err != nil {
			return Binding{}, err
		}
	}
	return b, b.complete(servers)
}

func (f bindingField) decode(val map[string]json.RawMessage) error {
	if val == nil {
		return nil
	}
	typ, dst := "str", any(f.str)
	var flag int
	if f.num != nil {
		typ, dst = "i64", f.num
	} else if f.flag != nil {
		typ, dst = "tf", &flag
	}
	if val[typ] == nil {
		return fmt.Errorf("field %d has no value of type %s: %w", f.id, typ, ErrBadBinding)
	}
	if err := json.Unmarshal(val[typ], dst); err != nil {
		return fmt.Errorf("field %d: %w: %w", f.id, err, ErrBadBinding)
	}
	if f.flag != nil {
		*f.flag = (flag != 0) != f.negate
	}
	return nil
}

// complete fills in what absent fields stand for and checks the rest.
func (b *Binding) complete(servers string) error {
	if b.ClusterServers == "" || b.ClusterScope == "" {
		return fmt.Errorf("no cluster named (fields 1 and 2): %w", ErrBadBinding)
	}
	if b.FirstSegment < 0 {
		return fmt.Errorf("first segment %d: %w", b.FirstSegment, ErrBadBinding)
	}
	fill := func(s *string, dflt string) {
		if *s == "" {
			*s = dflt
		}
	}
	fill(&b.ClusterReaderServers, b.ClusterServers)
	fill(&b.StreamServers, servers)
	fill(&b.StreamReaderServers, b.StreamServers)
	return nil
}

// quoteTJSON quotes as Thrift's JSON protocol does: nothing is escaped that
// does not have to be.
func quoteTJSON(s string) string {
	out := []byte{'"'}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < 0x20:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '"'))
}
