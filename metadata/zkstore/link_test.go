package zkstore

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// hello is a connect request as a server sees it.
type hello struct {
	session, zxid int64
	password      string
	conn          net.Conn
}

// scripted grants or refuses sessions as its test says, and answers syncs,
// pings and the end of a session: what a link needs, and no more.
type scripted struct {
	l      net.Listener
	wg     sync.WaitGroup
	hellos chan hello // one for each connection
	grants chan int64 // the session that each gets; 0: it has expired; below 0: cut off as soon as it is granted
}

func newScripted(t *testing.T) *scripted {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &scripted{l: l, hellos: make(chan hello, 100), grants: make(chan int64, 100)}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(s.grants)
		s.wg.Wait()
	})
	return s
}

func (s *scripted) serve(c net.Conn) {
	defer c.Close()
	read := func() []byte {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			return nil
		}
		b := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c, b); err != nil {
			return nil
		}
		return b
	}
	b := read()
	if b == nil {
		return
	}
	s.hellos <- hello{
		zxid: int64(binary.BigEndian.Uint64(b[4:])), session: int64(binary.BigEndian.Uint64(b[16:])),
		password: string(b[28:44]), conn: c,
	}
	session, ok := <-s.grants
	if !ok {
		return
	}
	timeout := time.Second
	if session == 0 {
		timeout = 0
	}
	if _, err := c.Write(granted(max(session, -session), timeout, "password-is-here")); err != nil || session < 0 {
		return
	}
	for zxid := int64(100); ; zxid++ {
		b := read()
		if b == nil {
			return
		}
		answer := append([]byte(nil), b[:4]...)
		answer = binary.BigEndian.AppendUint64(answer, uint64(zxid))
		answer = append(answer, 0, 0, 0, 0)
		switch int32(binary.BigEndian.Uint32(b[4:])) {
		case 9, 11: // sync gives the path back
			answer = append(answer, b[8:]...)
		case opCloseSession:
		default:
			return
		}
		if _, err := c.Write(frame(answer)); err != nil {
			return
		}
	}
}

func (s *scripted) link(renew bool) *link {
	l := newLink(Options{Servers: []string{s.l.Addr().String()}}, time.Second, zap.NewNop())
	l.renew = renew
	return l
}

func (s *scripted) next(t *testing.T) hello {
	t.Helper()
	select {
	case h := <-s.hellos:
		return h
	case <-time.After(30 * time.Second):
		t.Fatal("no connection")
		return hello{}
	}
}

// A link takes its session along to the next connection, and tells each time
// that there is a new one.
func TestLinkContinuesItsSession(t *testing.T) {
	s := newScripted(t)
	l := s.link(false)
	ups := make(chan struct{}, 10)
	l.onUp = func() { ups <- struct{}{} }
	l.start()
	s.grants <- 77
	h := s.next(t)
	require.Zero(t, h.session)
	require.Zero(t, h.zxid)
	<-ups
	c, err := l.use(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 77, l.identity().session)
	h.conn.Close()
	<-c.down
	s.grants <- 77
	h = s.next(t)
	require.EqualValues(t, 77, h.session)
	require.Equal(t, "password-is-here", h.password)
	require.EqualValues(t, 100, h.zxid, "of the sync")
	<-ups
	require.NoError(t, l.finish(t.Context()))
	_, err = l.use(t.Context())
	require.ErrorIs(t, err, metadata.ErrSessionLost)
	require.NoError(t, l.finish(t.Context()), "twice")
}

// A connection that ends between the grant and the first answer is followed by
// another.
func TestLinkCutOffAtOnce(t *testing.T) {
	s := newScripted(t)
	l := s.link(false)
	l.start()
	for range 20 {
		s.grants <- -77
		s.next(t)
	}
	s.grants <- 77
	s.next(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := l.use(ctx)
	require.NoError(t, err)
	l.abandon()
}

// The end of a session is the end of its link, but not of one that renews.
func TestLinkWhoseSessionExpires(t *testing.T) {
	for _, renew := range []bool{false, true} {
		s := newScripted(t)
		l := s.link(renew)
		l.start()
		s.grants <- 77
		h := s.next(t)
		_, err := l.use(t.Context())
		require.NoError(t, err)
		h.conn.Close()
		s.grants <- 0
		require.EqualValues(t, 77, s.next(t).session)
		if !renew {
			<-l.done
			_, err := l.use(t.Context())
			require.ErrorIs(t, err, metadata.ErrSessionLost)
			continue
		}
		s.grants <- 78
		h = s.next(t)
		require.Zero(t, h.session)
		require.Zero(t, h.zxid)
		l.abandon()
		_, err = l.use(t.Context())
		require.ErrorIs(t, err, metadata.ErrClosed)
	}
}

// A session that cannot be reached is over when its time is, by this clock.
func TestLinkGivesUpInTime(t *testing.T) {
	s := newScripted(t)
	l := s.link(false)
	l.start()
	s.grants <- 77
	h := s.next(t)
	_, err := l.use(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.l.Close())
	h.conn.Close()
	begin := time.Now()
	<-l.done
	require.Less(t, time.Since(begin), 5*time.Second) // the session has one
	_, err = l.use(t.Context())
	require.ErrorIs(t, err, metadata.ErrSessionLost)
	l.abandon()
}

// Waiting for a connection ends with the context, and with the link.
func TestLinkWithoutAServer(t *testing.T) {
	s := newScripted(t)
	l := s.link(true)
	require.NoError(t, s.l.Close())
	l.start()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.use(ctx)
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ended := make(chan error, 1)
	go func() {
		_, err := l.use(t.Context())
		ended <- err
	}()
	l.abandon()
	require.ErrorIs(t, <-ended, metadata.ErrClosed)
}

// What answers is no ZooKeeper server: it is left, without making room for the
// length that its bytes would be.
func TestAnotherKindOfServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") // the client may be gone
			c.Close()
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Open(t.Context(), Options{Servers: []string{l.Addr().String()}, DialTimeout: 100 * time.Millisecond})
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20))
	require.NoError(t, l.Close())
	<-served
}
