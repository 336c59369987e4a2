package ledger_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// sockets serves fake bookies on the loopback interface.
type sockets struct {
	*fakebookie.Cluster
	addr map[string]string
	wg   sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func (s *sockets) listen(t *testing.T, b *fakebookie.Bookie) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr[string(b.ID)] = l.Addr().String()
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() { b.Serve(c) })
		}
	})
	return l
}

func (s *sockets) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", s.addr[addr])
}

// cut breaks one connection, the oldest first.
func (s *sockets) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) > 0 {
		s.conns[0].Close()
		s.conns = s.conns[1:]
	}
}

// Entries of all sizes over real sockets that break all the time: no bookie ever
// stores a frame whose memory was given to another entry meanwhile, and what was
// acknowledged is there.
func TestMemoryOfFramesOverBreakingSockets(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster, err := fakebookie.NewCluster(ctx, 5)
	require.NoError(t, err)
	s := &sockets{Cluster: cluster, addr: map[string]string{}}
	var listeners []net.Listener
	for _, b := range cluster.Bookies {
		listeners = append(listeners, s.listen(t, b))
	}
	c, err := ledger.New(cluster.Layout, ledger.Options{Dial: s.dial, Seed: seed, BytesInFlight: 1 << 20})
	require.NoError(t, err)

	stop := make(chan struct{})
	s.wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				s.cut()
			}
		}
	})
	var writers sync.WaitGroup
	for i := range uint64(4) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, i))
			for round := 0; round < 3; round++ {
				writeOverSockets(ctx, t, s, c, rng)
			}
		})
	}
	writers.Wait()
	close(stop)
	require.NoError(t, c.Close())
	for _, l := range listeners {
		require.NoError(t, l.Close())
	}
	s.wg.Wait()
	require.NoError(t, cluster.Close())
}

func writeOverSockets(ctx context.Context, t *testing.T, s *sockets, c *ledger.Client, rng *rand.Rand) {
	w, err := c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
	if err != nil {
		t.Error(err)
		return
	}
	var want [][]byte
	var mu sync.Mutex
	acked := bk.InvalidEntryID
	for range 400 {
		p := make([]byte, 1+rng.IntN(1<<(4+rng.IntN(13))))
		for i := range p {
			p[i] = byte(len(want) * 7)
		}
		want = append(want, p)
		w.Go(ctx, p, func(e bk.EntryID, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				acked = e
			}
		})
	}
	_ = w.Close(ctx) // enough breaks at once end a writer
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	d, err := bk.NewDigester(bk.DigestCRC32C, nil)
	if err != nil {
		t.Error(err)
	}
	copies := make([]int, len(want))
	for _, b := range s.Bookies {
		for e := range want {
			body := b.Entry(w.ID(), bk.EntryID(e))
			if body == nil {
				continue
			}
			ent, err := d.Verify(body, w.ID(), bk.EntryID(e))
			if err != nil || !bytes.Equal(ent.Payload, want[e]) {
				t.Errorf("bookie %s stores another entry as %d of ledger %d: %v", b.ID, e, w.ID(), err)
				return
			}
			copies[e]++
		}
	}
	for e := bk.EntryID(0); e <= acked; e++ {
		if copies[e] < 2 {
			t.Errorf("entry %d of ledger %d is acknowledged and has %d copies", e, w.ID(), copies[e])
			return
		}
	}
}
