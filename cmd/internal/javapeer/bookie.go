package javapeer

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/cmd/internal/proc"
)

// BookieOptions say what a bookie of Apache's is made of.
type BookieOptions struct {
	Name     string // of its files, and its bookie id unless that is ID
	Dir      string // data and log go below it
	Metadata string // URI, "zk://host:port/ledgers"
	// ID is its bookie id. Default: host:port, as bookies have by themselves.
	ID string
	// Settings are lines of its configuration file beside, or instead of, ours.
	Settings map[string]string
}

// Bookie is one bookie of Apache's.
type Bookie struct {
	*proc.Process
	Addr string // host:port
	ID   string // its bookie id
	Conf string // its configuration file
}

// NewBookie writes the configuration of a bookie on a free port; Start starts
// it, again and again on the same data. The cluster must exist: InitCluster.
func (j *Java) NewBookie(o BookieOptions) (*Bookie, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return nil, err
	}
	b := &Bookie{Addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), ID: o.ID, Conf: filepath.Join(o.Dir, o.Name+".conf")}
	if b.ID == "" {
		b.ID = b.Addr
	}
	journal, ledgers := filepath.Join(o.Dir, o.Name, "journal"), filepath.Join(o.Dir, o.Name, "ledgers")
	for _, d := range []string{journal, ledgers} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	settings := map[string]string{
		"bookiePort": fmt.Sprint(ports[0]), "listeningInterface": "lo", "advertisedAddress": "127.0.0.1", "allowLoopback": "true",
		"journalDirectories": journal, "ledgerDirectories": ledgers, "metadataServiceUri": o.Metadata,
		"httpServerEnabled": "false", "statsProviderClass": "org.apache.bookkeeper.stats.NullStatsProvider",
		"zkTimeout":                         "5000",  // how long a busy machine may keep it from running
		"diskUsageThreshold":                "0.999", // that of the machine is none of ours
		"minUsableSizeForEntryLogCreation":  "1000000",
		"minUsableSizeForIndexFileCreation": "1000000",
		// small, and little work when idle
		"logSizeLimit": "67108864", "journalPreAllocSizeMB": "4", "skipListSizeLimit": "16777216",
		"numAddWorkerThreads": "1", "numReadWorkerThreads": "2", "numLongPollWorkerThreads": "1", "numHighPriorityWorkerThreads": "1",
		"serverNumIOThreads": "2", "gcWaitTime": "900000",
	}
	if o.ID != "" {
		settings["bookieId"] = o.ID
	}
	maps.Copy(settings, o.Settings)
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", k, settings[k])
	}
	if err := os.WriteFile(b.Conf, []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	b.Process, err = j.process(o.Dir, o.Name, "192m", "org.apache.bookkeeper.server.Main", "--conf", b.Conf)
	if err != nil {
		return nil, err
	}
	b.Ready = func(ctx context.Context) error { return answers(ctx, b.Addr) }
	b.ReadyWithin = 3 * time.Minute // the machine may be busy
	return b, nil
}

// InitCluster makes a new cluster at a metadata URI by Apache's own shell, with
// the hierarchical layout. It fails if there is one.
func (j *Java) InitCluster(ctx context.Context, dir, uri string) error {
	uri = strings.Replace(uri, "zk://", "zk+hierarchical://", 1)
	_, err := j.Shell(ctx, dir, uri, "initnewcluster")
	return err
}

// Shell runs a command of BookieShell on the cluster at a metadata URI and
// gives what it told, among other lines of its log.
func (j *Java) Shell(ctx context.Context, dir, uri string, args ...string) (string, error) {
	conf := filepath.Join(dir, "shell.conf")
	if err := os.WriteFile(conf, []byte("metadataServiceUri="+uri+"\n"), 0o644); err != nil {
		return "", err
	}
	log, err := logs(dir, "shell.properties", "info", "SYSTEM_OUT", "%m%n") // the shell tells all by its log
	if err != nil {
		return "", err
	}
	all := append(jvmArgs("128m", log), "-cp", j.Classpath(), "org.apache.bookkeeper.bookie.BookieShell", "-conf", conf)
	return run(ctx, "java", append(all, args...)...)
}

// answers asks a bookie for its disks; nil when it serves requests. Its port is
// open before that.
func answers(ctx context.Context, addr string) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	return askInfo(c)
}

// askInfo is one GET_BOOKIE_INFO and its answer.
func askInfo(c net.Conn) error {
	answer, err := Ask(c, &bkpb.Request{
		Header:               wire.V3Header(wire.OpGetBookieInfo, 1, 0),
		GetBookieInfoRequest: &bkpb.GetBookieInfoRequest{Requested: proto.Int64(0)},
	})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != bkpb.StatusCode_EOK {
		return fmt.Errorf("bookie answers %v", s)
	}
	return nil
}

// Ask sends one request of version 3 on a connection on which nothing else is
// going on, and gives its answer.
func Ask(c net.Conn, request *bkpb.Request) (*bkpb.Response, error) {
	frame, err := wire.AppendV3(nil, request)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	in := wire.NewFrameReader(c)
	for {
		if err := in.Fill(); err != nil {
			return nil, err
		}
		payload, err := in.Next()
		if err != nil {
			return nil, err
		}
		if payload != nil {
			return wire.DecodeResponseV3(payload)
		}
	}
}
