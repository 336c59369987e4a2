package javapeer

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// ZooKeeper is one standalone server. Sessions of a client may time out from
// one second on.
type ZooKeeper struct {
	*proc.Process
	Addr string // host:port
}

// URI is the metadata service of a cluster at path ("/ledgers"), as Java and
// `--metadata` take it.
func (z *ZooKeeper) URI(path string) string { return "zk://" + z.Addr + path }

// StartZooKeeper starts a server with its data and log in dir, on a free port.
// Stop it by its method Stop, Kill or Signal; Start starts it again on its data.
func (j *Java) StartZooKeeper(ctx context.Context, dir string) (*ZooKeeper, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "zookeeper")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=1000\n4lw.commands.whitelist=srvr\n", data, ports[0])
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	z := &ZooKeeper{Addr: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	z.Process, err = j.process(dir, "zookeeper", "128m", "org.apache.zookeeper.server.ZooKeeperServerMain", conf)
	if err != nil {
		return nil, err
	}
	z.ReadyWithin = 3 * time.Minute // the machine may be busy
	z.Ready = func(ctx context.Context) error { return serves(ctx, z.Addr) }
	return z, z.Start(ctx)
}

// serves asks a ZooKeeper server for its state; nil when it takes requests.
func serves(ctx context.Context, addr string) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	if !strings.Contains(string(answer), "Mode: ") {
		return fmt.Errorf("ZooKeeper answers %q", answer)
	}
	return nil
}

// dial connects to a server that may not be there yet; the connection is good
// for one question.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(2 * time.Second))
}
