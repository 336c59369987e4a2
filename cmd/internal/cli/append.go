package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// appender is what the library's writer and the proxy client have in common.
type appender interface {
	Go(ctx context.Context, r stream.Record, done func(stream.DLSN, error))
	Flush(ctx context.Context) error
	Close() error
	Done() <-chan struct{}
	Err() error
}

type appendFlags struct {
	via       string
	ack       bool
	jsonl     bool
	writeWait time.Duration
}

func (a *app) appendCommand() *cobra.Command {
	var f appendFlags
	cmd := &cobra.Command{
		Use: "append NAME", Short: "Append one record a line from stdin", Args: cobra.ExactArgs(1),
		Long: `Append one record for each line of stdin: the line without its newline. A carriage
return stays, and a last line without a newline counts. The command ends at the
end of its input, or with exit code 4 once another writer has fenced it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.via != "library" && f.via != "proxy" {
				return usageError{fmt.Errorf("--via %q: want library or proxy", f.via)}
			}
			return a.append(cmd.Context(), args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.via, "via", "library", "`who` writes: library (this process) or proxy")
	fl.BoolVar(&f.ack, "ack", false, "print the DLSN of each record once it is durable")
	fl.BoolVar(&f.jsonl, "jsonl", false, `lines are JSON: {"payload":"…"} or {"payload_base64":"…"}, and "txid" if you like`)
	fl.DurationVar(&f.writeWait, "write-timeout", 30*time.Second, "longest wait for one record to become durable")
	return cmd
}

func (a *app) append(ctx context.Context, name string, f appendFlags) error {
	w, closeAll, err := a.openAppender(ctx, name, f)
	if err != nil {
		return err
	}
	job := &appendJob{app: a, w: w, flags: f, acks: make(chan stream.DLSN, 64<<10), failed: make(chan struct{})}
	err = job.run(ctx)
	return closing(err, closeAll)
}

// appendJob moves lines from stdin into a stream. The goroutine of run reads,
// the writer's callbacks feed acks, and one goroutine prints them.
type appendJob struct {
	app   *app
	w     appender
	flags appendFlags

	acks     chan stream.DLSN
	durable  atomic.Int64
	failOnce sync.Once
	failed   chan struct{} // closed with failure set
	failure  error
}

func (j *appendJob) fail(err error) {
	j.failOnce.Do(func() { j.failure = err; close(j.failed) })
}

// run ends when all input is durable, or with the first failure. Reading stdin
// cannot be interrupted, so it has a goroutine of its own, which ends with the
// process if the job ends before its input.
func (j *appendJob) run(ctx context.Context) error {
	printed := make(chan error, 1)
	go func() { printed <- j.printAcks() }()
	stopProgress := j.app.progress(&j.durable)
	read := make(chan error, 1)
	go func() { read <- j.feed(ctx) }()

	var err error
	select {
	case err = <-read:
	case <-j.failed:
		err = j.failure
	case <-j.w.Done():
		err = j.w.Err()
	case <-ctx.Done():
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	// Whatever was handed over is settled before the last line is printed.
	if cerr := j.w.Close(); err == nil {
		err = cerr
	}
	select {
	case <-j.failed:
		if err == nil || errors.Is(err, stream.ErrClosed) {
			err = j.failure
		}
	default:
	}
	stopProgress()
	j.acks <- stream.InvalidDLSN // ends printAcks
	return errors.Join(err, <-printed)
}

// feed reads lines and hands them over until the end of input.
func (j *appendJob) feed(ctx context.Context) error {
	in := bufio.NewReaderSize(j.app.in, 1<<20)
	done := func(d stream.DLSN, err error) {
		if err != nil {
			j.fail(err)
			return
		}
		j.durable.Add(1)
		if j.flags.ack {
			j.acks <- d
		}
	}
	var long []byte
	for n := int64(1); ; n++ {
		line, err := readLine(in, &long)
		if err == io.EOF {
			return j.w.Flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("line %d of the input: %w", n, err)
		}
		rec := stream.Record{Payload: line}
		if j.flags.jsonl {
			if rec, err = parseRecord(line); err != nil {
				return usageError{fmt.Errorf("line %d of the input: %w", n, err)}
			}
		}
		select {
		case <-j.failed:
			return j.failure
		default:
		}
		j.w.Go(ctx, rec, done)
	}
}

// lineBytesMax is more than any record may have: a longer line is refused
// without reading it whole. JSON and base64 need more room than the record.
const lineBytesMax = 8 << 20

// readLine gives the next line without its newline, valid until the next call.
// A last line without a newline counts; an empty rest does not.
func readLine(in *bufio.Reader, long *[]byte) ([]byte, error) {
	*long = (*long)[:0]
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && len(*long) == 0 {
			return part[:len(part)-1], nil
		}
		*long = append(*long, part...)
		switch {
		case err == nil:
			return (*long)[:len(*long)-1], nil
		case err == io.EOF && len(*long) > 0:
			return *long, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		case len(*long) > lineBytesMax:
			return nil, fmt.Errorf("it goes on after %d bytes: %w", len(*long), &stream.RecordTooLongError{Size: len(*long), Limit: record.PayloadSizeMax})
		}
	}
}

func parseRecord(line []byte) (stream.Record, error) {
	var r recordJSON
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return stream.Record{}, fmt.Errorf("not a record in JSON: %w", err)
	}
	rec := stream.Record{TxID: stream.TxID(r.TxID), Payload: r.Base64}
	switch {
	case r.Payload != nil && r.Base64 != nil:
		return rec, errors.New("it has both payload and payload_base64")
	case r.Payload != nil:
		rec.Payload = []byte(*r.Payload)
	case r.Base64 == nil:
		return rec, errors.New("it has neither payload nor payload_base64")
	}
	return rec, nil
}

// printAcks prints each DLSN on a line of its own and flushes whenever nothing
// more is waiting. A failing stdout fails the job, and acks are still taken.
func (j *appendJob) printAcks() error {
	out := bufio.NewWriterSize(j.app.out, outputBufferBytes)
	var failed error
	note := func(err error) {
		if err != nil && failed == nil {
			failed = err
			j.fail(fmt.Errorf("print acknowledgements: %w", err))
		}
	}
	for {
		d := <-j.acks
		if d == stream.InvalidDLSN {
			note(out.Flush())
			return nil // a failure is the job's by now
		}
		_, err := out.WriteString(d.String() + "\n")
		note(err)
		if len(j.acks) == 0 {
			note(out.Flush())
		}
	}
}

// progress shows the number of durable records on a terminal until stopped.
func (a *app) progress(n *atomic.Int64) (stop func()) {
	if !isTerminal(a.err) {
		return func() {}
	}
	quit, gone, begin := make(chan struct{}), make(chan struct{}), time.Now()
	show := func() {
		s := time.Since(begin).Seconds()
		fmt.Fprintf(a.err, "\r%d records durable, %.0f/s ", n.Load(), float64(n.Load())/s)
	}
	go func() {
		defer close(gone)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-quit:
				show()
				fmt.Fprintln(a.err)
				return
			}
		}
	}()
	return func() { close(quit); <-gone }
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
