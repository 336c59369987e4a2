package tidy

const module = "github.com/loglode/loglode/"

// layer says what the tree below Prefix may import of this module. The longest
// matching prefix wins. "public" in May stands for everything that is not
// internal to another tree.
type layer struct {
	Prefix string
	May    []string
}

var layers = []layer{
	{"stream", nil},
	{"stream/record", []string{"stream"}},
	{"bookie/bk", nil},
	{"bookie/wire", []string{"bookie/bk"}},
	{"bookie", []string{"bookie", "metadata"}},
	{"metadata", []string{"metadata"}},
	{"metadata/layout", []string{"metadata", "bookie/bk"}},
	{"ledger", []string{"ledger", "bookie/bk", "bookie/wire", "metadata"}},
	{"segment", []string{"ledger", "bookie/bk", "stream", "metadata"}},
	{"writers", []string{"segment", "stream"}},
	{"readers", []string{"segment", "stream"}},
	{"namespace", []string{"writers", "readers", "segment", "ledger", "stream", "metadata"}},
	{"proxy", []string{"proxy", "namespace", "writers", "stream", "metadata"}},
	{"proxy/client", []string{"proxy/wire", "stream", "metadata"}},
	{"proxy/wire", []string{"stream"}},
	{"benchmarks", []string{"public"}},
	{"cmd", []string{"public", "cmd"}},
}

// testOnly names trees that any test may import beside its layer: real bookies
// and stores to test against. Nothing but tests may import them.
var testOnly = []string{"bookie/bookietest", "metadata/storetest"}

// testMay says what tests (files *_test.go and testOnly trees) below a prefix
// may import in addition to their layer.
var testMay = []layer{
	{"", []string{"bookie/bookietest", "metadata/storetest", "metadata"}},
	{"metadata", []string{"bookie/bk"}},
	{"segment", []string{"bookie/bk"}},
	{"writers", []string{"ledger", "bookie/bk", "namespace", "stream/record"}},
	{"readers", []string{"ledger", "bookie/bk", "namespace", "writers", "stream/record"}},
	{"namespace", []string{"bookie/bk", "stream/record"}},
	{"proxy", []string{"ledger", "bookie/bk", "segment", "readers", "proxy"}},
	{"bookie/bookietest", []string{"ledger"}},
	{"ledger", []string{"bookie"}},
}

// bound says that a third-party package (or one of the standard library) may
// be imported only below Only, or nowhere below Never.
type bound struct {
	Import    string // path prefix
	Only      []string
	Never     []string
	TestsFree bool // tests may do as they like
}

var pure = []string{"ledger/internal/quorum", "ledger/placement"}

var bounds = []bound{
	{Import: "go.uber.org/zap", Never: append([]string{"stream", "bookie/bk", "bookie/wire"}, pure...)},
	{Import: "github.com/prometheus", Never: append([]string{"stream", "bookie/bk", "bookie/wire"}, pure...)},
	{Import: "go.etcd.io/etcd", Only: []string{"metadata/etcdstore", "cmd/internal/daemon"}},
	{Import: "github.com/go-zookeeper/zk", Only: []string{"metadata/zkstore"}},
	{Import: "github.com/cockroachdb/pebble/v2/vfs", Only: []string{"bookie", "cmd", "benchmarks"}, TestsFree: true},
	{Import: "github.com/cockroachdb/pebble/v2", Only: []string{"bookie/internal/index"}, TestsFree: true},
	{Import: "github.com/apache/thrift", Only: []string{"proxy/wire"}},
	{Import: "github.com/twmb/franz-go", Only: []string{"benchmarks"}},
	{Import: "time", Never: pure, TestsFree: true},
	{Import: "sync", Never: pure, TestsFree: true},
	{Import: "net", Never: pure, TestsFree: true},
}

// Package os may be imported below osOnly alone, so that every file goes
// through vfs; elsewhere only osMay of it, which touch no file.
var (
	osOnly = []string{"cmd", "benchmarks"}
	osMay  = []string{"ErrDeadlineExceeded", "FileMode", "FileInfo"}
)

// Sizes that a hand-written file and function must keep.
const (
	fileLinesMax         = 800
	functionLinesMax     = 70
	testFunctionLinesMax = 120 // tables and stories read well at length
)
