package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// chaos does one random fault after the other to a cluster with a producer.
type chaos struct {
	c   *proc.Cluster
	rnd *rand.Rand
	ps  []*producer
	via []string
}

// fault is one thing that may happen; it leaves all servers running.
type fault struct {
	name string
	do   func(*chaos, *testing.T)
}

var faults = []fault{
	{"bookie killed", func(x *chaos, t *testing.T) { x.bounce(t, x.bookie(), syscall.SIGKILL) }},
	{"bookie drained", func(x *chaos, t *testing.T) { x.bounce(t, x.bookie(), syscall.SIGTERM) }},
	{"bookie paused", func(x *chaos, t *testing.T) { x.hold(t, x.bookie()) }},
	{"owner killed", func(x *chaos, t *testing.T) { x.bounce(t, x.proxy(t), syscall.SIGKILL) }},
	{"owner drained", func(x *chaos, t *testing.T) { x.bounce(t, x.proxy(t), syscall.SIGTERM) }},
	{"owner paused", func(x *chaos, t *testing.T) { x.hold(t, x.proxy(t)) }},
	{"metadata server killed", func(x *chaos, t *testing.T) { x.bounce(t, x.c.Etcd, syscall.SIGKILL) }},
	{"producer killed", func(x *chaos, t *testing.T) {
		x.now().stop(t)
		x.produce(t)
	}},
	{"everything killed", func(x *chaos, t *testing.T) {
		x.c.KillAll()
		x.now().stop(t)
		require.NoError(t, x.c.StartAll(t.Context()))
		x.produce(t)
	}},
}

func (x *chaos) now() *producer { return x.ps[len(x.ps)-1] }

func (x *chaos) produce(t *testing.T) {
	p := produce(t, x.c, fmt.Sprintf("p%d", len(x.ps)), "--via", x.via[x.rnd.IntN(len(x.via))])
	go p.feed(1_000_000, 50*time.Microsecond)
	x.ps = append(x.ps, p)
}

func (x *chaos) bookie() *proc.Process { return x.c.Bookies[x.rnd.IntN(len(x.c.Bookies))] }

// proxy is the owner of the stream, or any proxy if the library writes it.
func (x *chaos) proxy(t *testing.T) *proc.Process {
	if p, owned := ownerIfAny(t, x.c); owned {
		return p
	}
	return x.c.Proxies[x.rnd.IntN(len(x.c.Proxies))]
}

// bounce ends a process, and starts it again after a while.
func (x *chaos) bounce(t *testing.T, p *proc.Process, s syscall.Signal) {
	if s == syscall.SIGKILL {
		p.Kill()
	} else {
		p.Stop()
	}
	<-time.After(time.Duration(x.rnd.IntN(1000)) * time.Millisecond)
	require.NoError(t, p.Start(t.Context()))
}

// hold stops a process for up to three leases of a proxy.
func (x *chaos) hold(t *testing.T, p *proc.Process) {
	pause(t, p)
	<-time.After(time.Duration(x.rnd.Int64N(int64(3 * lease))))
	resume(t, p)
}

// TestChaos: random faults on a whole cluster, one after the other, for a few
// seconds, or for as long as LOGLODE_SIM_SOAK says. After each one the producer
// gets acknowledgements again, and in the end each acknowledged line is there
// once and in order.
func TestChaos(t *testing.T) {
	c := startWith(t, proc.Options{Bookies: 4, Proxies: 2, BookieLease: restartLease})
	newStream(t, c)
	long := 5 * time.Second
	if text := os.Getenv("LOGLODE_SIM_SOAK"); text != "" {
		var err error
		long, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	x := &chaos{c: c, rnd: random(t), via: []string{"proxy", "library"}}
	x.produce(t)
	x.now().requireMore(t, 1, 20*time.Second)
	for began := time.Now(); time.Since(began) < long; {
		x.now().requireMore(t, 1+x.rnd.IntN(500), 20*time.Second)
		f := faults[x.rnd.IntN(len(faults))]
		t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), f.name)
		f.do(x, t)
		x.now().requireMore(t, 1, 20*time.Second)
	}
	x.now().stop(t)
	requireKept(t, c, streamName, x.ps...)
}
