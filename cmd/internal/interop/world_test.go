//go:build interop

package interop

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/javapeer"
	"github.com/loglode/loglode/cmd/internal/proc"
)

// bookieKind is whose bookie it is.
type bookieKind string

const (
	apacheBookie  bookieKind = "Apache"
	loglodeBookie bookieKind = "Loglode"
)

// bookie is one bookie's process.
type bookie struct {
	*proc.Process
	id        string
	kind      bookieKind
	restarted chan error // nil: it runs, as far as the test knows
}

// cluster is bookies below one path of ZooKeeper.
type cluster struct {
	uri     string
	bookies []*bookie
}

// clusterKind names a cluster by what it is made of.
type clusterKind string

const (
	apacheCluster  clusterKind = "apache"
	loglodeCluster clusterKind = "loglode"
	mixedCluster   clusterKind = "mixed"
)

// members is what a cluster has of each kind: a spare beyond ensembles of three,
// and three of each where they mix.
var members = map[clusterKind]map[bookieKind]int{
	apacheCluster:  {apacheBookie: 4},
	loglodeCluster: {loglodeBookie: 4},
	mixedCluster:   {apacheBookie: 3, loglodeBookie: 3},
}

// world is what all tests of a run share: it starts what is asked for first,
// and ends with the test it was made by.
type world struct {
	t      *testing.T
	j      *javapeer.Java
	dir    string
	binary string // loglode
	zk     *javapeer.ZooKeeper

	mu       sync.Mutex // guards what follows
	clusters map[clusterKind]*cluster
	drivers  map[clientKind]*driver
	clients  map[string]*client
	legacies map[column]*legacy
	named    int   // processes named so far
	chosen   int64 // the last ledger id that a test chose
}

// chosenID is a ledger id that no metadata store gives by itself.
func (w *world) chosenID() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chosen++
	return 1_000_000_000 + w.chosen
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, j: java(t), dir: dataDir(t),
		clusters: map[clusterKind]*cluster{}, drivers: map[clientKind]*driver{}, clients: map[string]*client{},
		legacies: map[column]*legacy{},
	}
	w.binary = filepath.Join(w.dir, "loglode")
	out, err := exec.Command("go", "build", "-o", w.binary, "../../loglode").CombinedOutput()
	require.NoError(t, err, "%s", out)
	w.zk, err = w.j.StartZooKeeper(t.Context(), w.dir)
	if w.zk != nil {
		t.Cleanup(w.zk.Kill)
	}
	require.NoError(t, err)
	return w
}

// cluster gives a running cluster. Apache's own tools make it where a bookie of
// theirs is in it, ours otherwise.
func (w *world) cluster(t *testing.T, kind clusterKind) *cluster {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.clusters[kind]; c != nil {
		return c
	}
	c := &cluster{uri: w.zk.URI("/" + string(kind))}
	if members[kind][apacheBookie] > 0 {
		require.NoError(t, w.j.InitCluster(t.Context(), w.dir, c.uri))
	} else {
		out, err := exec.Command(w.binary, "init", "--metadata", c.uri).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for k, n := range members[kind] {
		for i := range n {
			b := w.newBookie(t, k, fmt.Sprintf("%s-%s%d", kind, k, i+1), c.uri)
			c.bookies = append(c.bookies, b)
			w.t.Cleanup(b.Kill)
		}
	}
	errs := make([]error, len(c.bookies))
	var wg sync.WaitGroup
	for i, b := range c.bookies {
		wg.Go(func() { errs[i] = b.Start(w.t.Context()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	w.clusters[kind] = c
	return c
}

func (w *world) newBookie(t *testing.T, kind bookieKind, name, uri string) *bookie {
	if kind == apacheBookie {
		b, err := w.j.NewBookie(javapeer.BookieOptions{Name: name, Dir: w.dir, Metadata: uri})
		require.NoError(t, err)
		return &bookie{Process: b.Process, id: b.ID, kind: kind}
	}
	ports, err := proc.FreePorts(1)
	require.NoError(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p := proc.New(name, filepath.Join(w.dir, name+".log"), w.binary, "server", "bookie", "--metadata", uri, "--listen", addr,
		"--journal", filepath.Join(w.dir, name, "journal"), "--ledgers", filepath.Join(w.dir, name, "ledgers"), "--lease", "3s")
	p.ReadyWithin = 3 * time.Minute // the machine may be busy
	return &bookie{Process: p, id: addr, kind: kind}
}

// driver gives the process that runs clients of a kind.
func (w *world) driver(t *testing.T, kind clientKind) *driver {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	library := kind
	if kind == javaV2 {
		library = javaV3 // a JVM has clients of both
	}
	if w.drivers[library] == nil {
		w.drivers[library] = w.newDriver(t, w.t, library)
	}
	return w.drivers[library]
}

// newDriver starts a process that ends with owner.
func (w *world) newDriver(t, owner *testing.T, kind clientKind) *driver {
	t.Helper()
	w.named++
	name := fmt.Sprintf("client%d", w.named)
	var d *driver
	var err error
	if kind == ours {
		d, err = startOurDriver(w.dir, name)
	} else {
		d, err = startJavaDriver(w.t.Context(), w.j, w.dir, name)
	}
	require.NoError(t, err)
	owner.Cleanup(d.stop)
	return d
}

// client gives a client with the usual settings.
func (w *world) client(t *testing.T, kind clientKind, on clusterKind) *client {
	t.Helper()
	uri, d := w.cluster(t, on).uri, w.driver(t, kind)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := string(kind) + " on " + string(on)
	if w.clients[key] == nil {
		w.clients[key] = newClient(t, w.t, d, kind, uri, nil)
	}
	return w.clients[key]
}

// find gives the bookie with this id.
func (c *cluster) find(t testing.TB, id string) *bookie {
	t.Helper()
	for _, b := range c.bookies {
		if b.id == id {
			return b
		}
	}
	require.FailNow(t, "no bookie "+id)
	return nil
}

// kill ends a bookie by SIGKILL. When the test is over it is started again, on
// its data, while tests go on that need no bookie of its kind to be killed.
func (c *cluster) kill(t *testing.T, b *bookie) {
	t.Helper()
	t.Cleanup(func() {
		b.restarted = make(chan error, 1)
		go func() { b.restarted <- b.Start(context.Background()) }()
	})
	b.Kill()
}

// settle waits until all bookies of a kind, of both if it is "", are up.
func (c *cluster) settle(t testing.TB, kind bookieKind) {
	t.Helper()
	for _, b := range c.bookies {
		if b.restarted != nil && (kind == "" || kind == b.kind) {
			require.NoError(t, <-b.restarted, "restart of %s", b.Name)
			b.restarted = nil
		}
	}
}
