package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// textWriter writes protobuf text format as Java's printer does, byte for
// byte. Go's own printer varies its spaces on purpose.
type textWriter struct {
	strings.Builder
	indent string
}

func (t *textWriter) number(field string, n int64) { t.word(field, strconv.FormatInt(n, 10)) }

func (t *textWriter) word(field, w string) { t.WriteString(t.indent + field + ": " + w + "\n") }

func (t *textWriter) open(field string) {
	t.WriteString(t.indent + field + " {\n")
	t.indent += "  "
}

func (t *textWriter) close() {
	t.indent = t.indent[2:]
	t.WriteString(t.indent + "}\n")
}

var textEscapes = map[byte]string{
	'\a': `\a`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\v': `\v`, '\\': `\\`, '\'': `\'`, '"': `\"`,
}

func (t *textWriter) quoted(field, s string) {
	t.WriteString(t.indent + field + `: "`)
	for i := range len(s) {
		c := s[i]
		esc, ok := textEscapes[c]
		switch {
		case ok:
			t.WriteString(esc)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(t, `\%03o`, c)
		default:
			t.WriteByte(c)
		}
	}
	t.WriteString("\"\n")
}
