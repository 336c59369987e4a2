package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/daemon"
)

// dev is a whole system that the tests of this package share.
var dev *daemon.Dev

func TestMain(m *testing.M) {
	os.Exit(withDev(m))
}

func withDev(m *testing.M) int {
	dir, err := os.MkdirTemp("", "loglode-cli-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dev, err = startDev(filepath.Join(dir, "data"))
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("LOGLODE_NAMESPACE", dev.NamespaceURI()); err != nil {
		panic(err)
	}
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := dev.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
		return 1
	}
	return code
}

// startDev tries a few port ranges, as other tests listen too.
func startDev(dir string) (d *daemon.Dev, err error) {
	for range 10 {
		base, perr := freePort()
		if perr != nil {
			return nil, perr
		}
		d, err = daemon.StartDev(context.Background(), daemon.DevOptions{Dir: dir, Bookies: 3, PortBase: base})
		if err == nil {
			return d, nil
		}
		os.RemoveAll(dir)
	}
	return nil, err
}

// freePort gives a port that nobody listens on now. It lies below those that
// the system gives to clients, and leaves room for the ones that follow it.
func freePort() (int, error) {
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}

// result is what a command line did.
type result struct {
	code     int
	out, err string
}

func run(t *testing.T, in string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	code := Main(ctx, args, strings.NewReader(in), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// must runs a command that has to succeed and gives its output.
func must(t *testing.T, in string, args ...string) string {
	t.Helper()
	r := run(t, in, args...)
	require.Zero(t, r.code, "loglode %s: %s", strings.Join(args, " "), r.err)
	return r.out
}

var made atomic.Int64

// unique is a suffix for names, so that a test can run again on the same system.
func unique() string { return fmt.Sprintf("-%d", made.Add(1)) }

// newStream creates a stream named after the test.
func newStream(t *testing.T, args ...string) string {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), " ", "_") + unique()
	must(t, "", append([]string{"stream", "create", name}, args...)...)
	return name
}
