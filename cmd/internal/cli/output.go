package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is a result: rows of named columns. As JSON it is an array of objects
// with the columns as keys, as JSONL one object a line.
type table struct {
	Columns []string
	Rows    [][]any
}

// print writes a result to stdout in the form that -o asks for.
func (a *app) print(t table) error {
	switch a.output {
	case "json":
		all := make([]json.RawMessage, 0, len(t.Rows))
		for _, r := range t.Rows {
			obj, err := rowJSON(t.Columns, r)
			if err != nil {
				return err
			}
			all = append(all, obj)
		}
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	case "jsonl":
		for _, r := range t.Rows {
			obj, err := rowJSON(t.Columns, r)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.out, "%s\n", obj); err != nil {
				return err
			}
		}
		return nil
	default:
		return printTable(a.out, t)
	}
}

// rowJSON keeps the order of the columns, which a Go map would lose.
func rowJSON(columns []string, row []any) (json.RawMessage, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, c := range columns {
		if i > 0 {
			b.WriteByte(',')
		}
		k, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(row[i])
		if err != nil {
			return nil, err
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String()), nil
}

func printTable(w io.Writer, t table) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = strings.ToUpper(c)
	}
	fmt.Fprintln(tw, strings.Join(heads, "\t"))
	for _, r := range t.Rows {
		cells := make([]string, len(r))
		for i, v := range r {
			cells[i] = cell(v)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

func cell(v any) string {
	switch x := v.(type) {
	case nil:
		return "-"
	case string:
		if x == "" {
			return "-"
		}
		return x
	case []string:
		return strings.Join(x, ",")
	default:
		return fmt.Sprint(x)
	}
}
