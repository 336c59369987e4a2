//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
)

// driverEnv makes this test's binary a driver of our client.
const driverEnv = "LOGLODE_INTEROP_DRIVER"

// request is one line to a driver; each op uses some of it.
type request struct {
	ID int64  `json:"id"`
	Op string `json:"op"`

	URI      string            `json:"uri"`
	Client   int64             `json:"client"`
	Handle   int64             `json:"handle"`
	Ledger   *int64            `json:"ledger"`
	Ensemble int               `json:"ensemble"`
	Write    int               `json:"write"`
	Ack      int               `json:"ack"`
	Digest   string            `json:"digest"`
	Password string            `json:"password"`
	Custom   map[string]string `json:"custom"`
	Deferred bool              `json:"deferred"`
	Advanced bool              `json:"advanced"`
	Recover  bool              `json:"recover"`

	Seed   int64   `json:"seed"`
	Index  int64   `json:"index"`
	Size   int     `json:"size"`
	Sizes  []int   `json:"sizes"`
	IDs    []int64 `json:"ids"`
	Window int     `json:"window"`

	First         int64  `json:"first"`
	Last          int64  `json:"last"`
	Unconfirmed   bool   `json:"unconfirmed"`
	Entry         int64  `json:"entry"`
	TimeoutMillis int64  `json:"timeoutMillis"`
	Bookie        string `json:"bookie"`
	Count         int64  `json:"count"`
}

// library is our client under control: the counterpart of java/Commands.java.
type library struct {
	mu      sync.Mutex // guards what follows
	last    int64
	clients map[int64]*ledger.Client
	writers map[int64]writer
	readers map[int64]*ledger.Reader
	streams map[int64]*appends
}

// writer is what both kinds of writer have.
type writer interface {
	ID() bk.LedgerID
	LAC() bk.EntryID
	Length() int64
	Force(ctx context.Context) error
	Close(ctx context.Context) error
}

// serveDriver answers requests until the input ends.
func serveDriver(in io.Reader, out io.Writer) error {
	l := &library{
		clients: map[int64]*ledger.Client{}, writers: map[int64]writer{},
		readers: map[int64]*ledger.Reader{}, streams: map[int64]*appends{},
	}
	var outMu sync.Mutex // one answer a line
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("request %q: %w", line, err)
		}
		go func() {
			text := l.answer(&r)
			outMu.Lock()
			defer outMu.Unlock()
			_, _ = out.Write(append(text, '\n')) // nobody listens any more otherwise
		}()
	}
}

func (l *library) answer(r *request) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	a := answer{ID: r.ID}
	result, err := l.run(ctx, r)
	if err == nil {
		a.Result, err = json.Marshal(result)
	}
	if err != nil {
		a.Code, a.Error = javaCode(err), err.Error()
		fmt.Fprintln(os.Stderr, r.Op, err)
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return text
}

// javaCode is the number that Java's client has for an error of ours.
func javaCode(err error) int {
	for _, row := range []struct {
		err  error
		code int
	}{
		{bk.ErrUnauthorized, codeUnauthorized}, {bk.ErrFenced, codeFenced}, {bk.ErrNoSuchLedger, codeNoSuchLedger},
		{bk.ErrLedgerExists, codeLedgerExists}, {bk.ErrReadPastLAC, codeReadPastLAC}, {bk.ErrNoSuchEntry, codeNoSuchEntry},
		{bk.ErrLedgerClosed, codeLedgerClosed}, {bk.ErrPayloadTooLong, codeTooLong},
	} {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return codeOtherFailures
}

func (l *library) run(ctx context.Context, r *request) (any, error) {
	switch r.Op {
	case "client":
		return l.client(ctx, r)
	case "closeClient":
		return true, l.clientOf(r).Close()
	case "create":
		return l.create(ctx, r)
	case "open":
		return l.open(ctx, r)
	case "delete":
		return true, l.clientOf(r).Delete(ctx, bk.LedgerID(*r.Ledger))
	case "metadata":
		return l.metadata(ctx, r)
	case "ledgers":
		return l.ledgers(ctx, r)
	case "bookieInfo":
		return l.bookieInfo(ctx, r)
	case "entries":
		return l.entries(ctx, r)
	case "state":
		return l.state(r)
	case "setPassword":
		return true, l.setPassword(ctx, r)
	case "maxPayload":
		return ledger.MaxPayload(digests[r.Digest]), nil
	}
	if w := l.writerOf(r); w != nil {
		return l.runWriter(ctx, w, r)
	}
	if rd := l.readerOf(r); rd != nil {
		return l.runReader(ctx, rd, r)
	}
	return nil, fmt.Errorf("no handle %d for %s", r.Handle, r.Op)
}

func (l *library) runWriter(ctx context.Context, w writer, r *request) (any, error) {
	switch r.Op {
	case "append":
		return appendAll(ctx, w.(*ledger.Writer), r)
	case "write":
		return writeAll(ctx, w.(*ledger.AdvancedWriter), r)
	case "stream":
		s := newAppends(w.(*ledger.Writer), r)
		l.mu.Lock()
		l.streams[r.Handle] = s
		l.mu.Unlock()
		go s.run()
		return true, nil
	case "progress":
		return l.streamOf(r).progress(), nil
	case "stop":
		return l.streamOf(r).finish(), nil
	case "force":
		return true, w.Force(ctx)
	case "close":
		return true, w.Close(ctx)
	}
	return nil, fmt.Errorf("%q is no request to a writer", r.Op)
}

func (l *library) runReader(ctx context.Context, rd *ledger.Reader, r *request) (any, error) {
	switch r.Op {
	case "read":
		return readAll(ctx, rd, r)
	case "readLAC":
		lac, err := rd.ReadLAC(ctx)
		return int64(lac), err
	case "poll":
		return poll(ctx, rd, r)
	case "close":
		return true, rd.Close()
	}
	return nil, fmt.Errorf("%q is no request to a reader", r.Op)
}

func (l *library) next() int64 {
	l.last++
	return l.last
}

func (l *library) clientOf(r *request) *ledger.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[r.Client]
}

func (l *library) writerOf(r *request) writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writers[r.Handle]
}

func (l *library) readerOf(r *request) *ledger.Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readers[r.Handle]
}

func (l *library) streamOf(r *request) *appends {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[r.Handle]
}
