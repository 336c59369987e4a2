package conn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// Adds of all sizes over real sockets, from several goroutines: writes without
// waiting, partial writes, and writes that have to wait, whose bytes must all
// arrive once and in order.
func TestOverTCP(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	b := fakebookie.New("b0:1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				b.Serve(c)
			}()
		}
	}()
	pool := conn.NewPool(conn.Options{
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
		Resolve:     func(context.Context, bk.BookieID) (string, error) { return l.Addr().String(), nil },
		DialTimeout: 10 * time.Second, Tick: 100 * time.Millisecond, QueueBytes: 1 << 30, StallTimeout: 30 * time.Second,
		BackoffMin: time.Second, BackoffMax: time.Second,
	})
	d, err := bk.NewDigester(bk.DigestCRC32C, nil)
	require.NoError(t, err)

	const ledgers, entries = 4, 300
	sinks := make([]sink, ledgers)
	var senders sync.WaitGroup
	for id := range ledgers {
		senders.Add(1)
		go func() {
			defer senders.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(id)))
			a := pool.Bookie("b0:1").Adds(bk.LedgerID(id), time.Minute, &sinks[id])
			for e := range bk.EntryID(entries) {
				payload := make([]byte, rng.IntN(1<<rng.IntN(21)))
				payload = append(payload, fmt.Sprintf("%d/%d", id, e)...)
				size := wire.AddRequestOverhead + d.Overhead() + len(payload)
				c := pool.Chunks().Get(size)
				frame := wire.AppendAddRequest(c.Tail(0), 0, &key, size-wire.AddRequestOverhead)
				d.AppendEntry(frame, bk.LedgerID(id), e, e-1, 0, payload)
				if err := a.Send(e, c, 0, size); err != nil {
					t.Errorf("entry %d: %v, lost: %v", e, err, sinks[id].cause())
					c.Release()
					return
				}
				c.Release()
				if rng.IntN(2) == 0 {
					a.Flush()
				} else {
					a.Kick()
				}
			}
		}()
	}
	senders.Wait()
	require.Eventually(t, func() bool {
		for id := range sinks {
			sinks[id].mu.Lock()
			n := len(sinks[id].acks)
			sinks[id].mu.Unlock()
			if n < entries {
				return false
			}
		}
		return true
	}, 10*time.Second, 5*time.Millisecond)
	for id := range ledgers {
		for e := range bk.EntryID(entries) {
			_, err := d.Verify(b.Entry(bk.LedgerID(id), e), bk.LedgerID(id), e)
			require.NoError(t, err, "seed %d", seed)
		}
	}
	pool.Close()
	require.NoError(t, l.Close())
	wg.Wait()
}
