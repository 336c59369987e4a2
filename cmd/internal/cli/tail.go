package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/readers"
	"github.com/loglode/loglode/stream"
)

const outputBufferBytes = 64 << 10

// recordWriter prints records: payload lines, or one JSON object a line.
type recordWriter struct {
	*bufio.Writer
	asJSON bool
}

func (a *app) newRecordWriter() recordWriter {
	return recordWriter{Writer: bufio.NewWriterSize(a.out, outputBufferBytes), asJSON: a.output != "table"}
}

// recordJSON is one record of -o jsonl, and of append --jsonl. A payload that
// is not UTF-8 is in payload_base64 instead.
type recordJSON struct {
	DLSN    string  `json:"dlsn,omitempty"`
	TxID    int64   `json:"txid"`
	Payload *string `json:"payload,omitempty"`
	Base64  []byte  `json:"payload_base64,omitempty"`
}

func (w recordWriter) write(r stream.Record) error {
	if !w.asJSON {
		if _, err := w.Write(r.Payload); err != nil {
			return err
		}
		return w.WriteByte('\n')
	}
	j := recordJSON{DLSN: r.DLSN.String(), TxID: int64(r.TxID)}
	if utf8.Valid(r.Payload) {
		p := string(r.Payload)
		j.Payload = &p
	} else {
		j.Base64 = r.Payload
	}
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

func (a *app) tailCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use: "tail NAME [--from POS]", Short: "Print records from a position on, and follow", Args: cobra.ExactArgs(1),
		Long: "Print the records of a stream from a position on, and then each new one, until the\nstream is sealed or the command is interrupted.",
		RunE: func(cmd *cobra.Command, args []string) error {
			pos, err := parsePosition("--from", from)
			if err != nil {
				return err
			}
			return a.withStream(cmd.Context(), args[0], func(ctx context.Context, s *namespace.Stream) error {
				return a.tail(ctx, s, pos)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "now", "`POS` to begin at: "+positionHelp)
	return cmd
}

// tail prints batches as they come: what is there goes out in one write, and
// nothing is held back when the stream is quiet.
func (a *app) tail(ctx context.Context, s *namespace.Stream, from stream.Position) error {
	octx, cancel := a.bounded(ctx)
	r, err := s.Reader(octx, from, readers.WithLogger(a.log))
	cancel()
	if err != nil {
		return err
	}
	out := a.newRecordWriter()
	batch := make([]stream.Record, 1024)
	for {
		n, err := r.NextBatch(ctx, batch)
		for _, rec := range batch[:n] {
			if werr := out.write(rec); werr != nil {
				return closing(werr, r.Close)
			}
		}
		if ferr := out.Flush(); ferr != nil {
			return closing(ferr, r.Close)
		}
		if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
			return r.Close() // sealed, or interrupted: the usual ways to end
		}
		if err != nil {
			return closing(err, r.Close)
		}
	}
}

func (a *app) replayCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use: "replay NAME [--from POS] [--to POS]", Short: "Print the records between two positions, and end", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			first, last, err := parseRange(from, to)
			if err != nil {
				return err
			}
			return a.withStream(cmd.Context(), args[0], func(ctx context.Context, s *namespace.Stream) error {
				out := a.newRecordWriter()
				for rec, err := range s.Replay(ctx, first, last, readers.WithLogger(a.log)) {
					if err != nil {
						return errors.Join(err, out.Flush())
					}
					if err := out.write(rec); err != nil {
						return err
					}
				}
				return out.Flush()
			})
		},
	}
	rangeFlags(cmd, &from, &to)
	return cmd
}

func (a *app) countCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use: "count NAME [--from POS] [--to POS]", Short: "Count the records between two positions", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			first, last, err := parseRange(from, to)
			if err != nil {
				return err
			}
			return a.withStream(cmd.Context(), args[0], func(ctx context.Context, s *namespace.Stream) error {
				n, err := s.Count(ctx, first, last)
				if err != nil {
					return err
				}
				if a.output == "table" {
					_, err = fmt.Fprintln(a.out, n)
					return err
				}
				return a.print(table{Columns: []string{"stream", "records"}, Rows: [][]any{{args[0], n}}})
			})
		},
	}
	rangeFlags(cmd, &from, &to)
	return cmd
}

func rangeFlags(cmd *cobra.Command, from, to *string) {
	cmd.Flags().StringVar(from, "from", "first", "first `POS`: "+positionHelp)
	cmd.Flags().StringVar(to, "to", "now", "`POS` to end at, in the same forms: a DLSN, a txid and a time are not included; after:DLSN, last and now include the record there")
}

func parseRange(from, to string) (first, last stream.Position, err error) {
	if first, err = parsePosition("--from", from); err != nil {
		return first, last, err
	}
	last, err = parsePosition("--to", to)
	return first, last, err
}
