package zkstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Operation code and transaction ids of the protocol that are looked at here.
const (
	opCloseSession = -11
	xidEvent       = -1 // a watch event: the answer to nothing
)

// Bytes of frames behind their length that are looked at: of an answer
// | xid 4B | zxid 8B | error 4B |, and of the answer to the connect request
// | protocol 4B | timeout ms 4B | session 8B | length 4B | password 16B |.
const (
	answerHead    = 16
	connectAnswer = 36
	passwordBytes = 16
)

// connectAnswerMax bounds the first answer: the client would make room for
// whatever length another kind of server seems to send.
const connectAnswerMax = 1 << 10

var errNotZooKeeper = errors.New("zkstore: not a ZooKeeper server")

// identity is what continues a session on a new connection.
type identity struct {
	session  int64
	password [passwordBytes]byte
	zxid     int64 // newest transaction seen: a server that is behind it refuses the connection
}

// put writes it into a connect request
//
//	| length 4B | protocol 4B | zxid 8B | timeout ms 4B | session 8B | length 4B | password 16B |
func (id identity) put(frame []byte) {
	if len(frame) < 48 {
		return // not a connect request: the server will refuse it
	}
	binary.BigEndian.PutUint64(frame[8:], uint64(id.zxid))
	binary.BigEndian.PutUint64(frame[20:], uint64(id.session))
	copy(frame[32:48], id.password[:])
}

// request is a frame that has no answer yet.
type request struct {
	sent time.Time
	ends bool // asks to end the session
}

// wire is one TCP connection under a zk.Conn. It puts the session to continue
// into the connect request, takes the session's password from the answer, knows
// when the request that was answered last had been sent, and can let go of the
// session without ending it; none of these the ZooKeeper client offers. The
// client writes one frame a call.
type wire struct {
	net.Conn

	mu      sync.Mutex // guards what follows
	id      identity   // session 0 once the server has said that it expired
	timeout time.Duration
	alive   time.Time // sending of the last request that was answered
	pending []request // in order of sending, which is the order of answers
	begun   bool      // the connect request is written
	granted bool      // and answered
	ended   bool      // the server has ended the session because it was asked to
	muted   bool
	head    []byte // of the frame being read: its length and what of it is looked at
	skip    int    // bytes of that frame still to come
}

func newWire(c net.Conn, id identity) *wire { return &wire{Conn: c, id: id} }

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if w.muted {
		w.mu.Unlock()
		return 0, net.ErrClosed
	}
	r := request{sent: time.Now()}
	if !w.begun {
		w.begun = true
		w.id.put(b)
	} else if len(b) >= 12 {
		r.ends = int32(binary.BigEndian.Uint32(b[8:])) == opCloseSession
	}
	w.pending = append(w.pending, r)
	w.mu.Unlock()
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observe(b[:n])
	if !w.granted && len(w.head) >= 4 {
		if length := binary.BigEndian.Uint32(w.head); length > connectAnswerMax {
			return 0, fmt.Errorf("%w: an answer of %d bytes", errNotZooKeeper, length)
		}
	}
	return n, err
}

// observe follows the frames in what was read.
func (w *wire) observe(b []byte) {
	for len(b) > 0 {
		if w.skip > 0 {
			n := min(w.skip, len(b))
			w.skip -= n
			b = b[n:]
			continue
		}
		if n := min(4-len(w.head), len(b)); n > 0 { // the length first
			w.head = append(w.head, b[:n]...)
			b = b[n:]
			if len(w.head) < 4 {
				return
			}
		}
		length, look := int(binary.BigEndian.Uint32(w.head)), answerHead
		if !w.granted {
			look = connectAnswer
		}
		need := min(length, look)
		n := min(need-(len(w.head)-4), len(b))
		w.head = append(w.head, b[:n]...)
		b = b[n:]
		if len(w.head)-4 == need {
			w.skip = length - need
			w.answer(w.head[4:])
			w.head = w.head[:0]
		}
	}
}

// answer takes the head of one frame from the server.
func (w *wire) answer(b []byte) {
	switch {
	case !w.granted && len(b) >= connectAnswer:
		w.granted = true
		w.timeout = time.Duration(binary.BigEndian.Uint32(b[4:])) * time.Millisecond
		w.id.session = int64(binary.BigEndian.Uint64(b[8:]))
		copy(w.id.password[:], b[20:])
	case len(b) < answerHead, int32(binary.BigEndian.Uint32(b)) == xidEvent:
		return
	default:
		w.id.zxid = max(w.id.zxid, int64(binary.BigEndian.Uint64(b[4:])))
	}
	if len(w.pending) == 0 {
		return
	}
	w.alive, w.ended = w.pending[0].sent, w.ended || w.pending[0].ends
	w.pending = w.pending[1:]
}

// state gives what is known of the session, how long it lives without a word,
// and since when.
func (w *wire) state() (id identity, timeout time.Duration, alive time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id, w.timeout, w.alive
}

// over says whether the server has ended the session as it was asked to.
func (w *wire) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// cut breaks the connection; nothing is sent on it any more.
func (w *wire) cut() {
	w.mu.Lock()
	w.muted = true
	w.mu.Unlock()
	w.Conn.Close()
}
