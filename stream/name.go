package stream

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// NameBytesMax is the most bytes of a stream name: it becomes a metadata key,
// and keys are kept short.
const NameBytesMax = 1024

// Name is a stream's name in its namespace. Components are separated by
// slashes: "a/b" lies below "a", and both may be streams.
type Name string

// ParseName checks a name by the one rule that all of Loglode uses. A leading
// slash is dropped, as DistributedLog does. Every refusal is a *NameError.
//
// Refused are: the empty name; more than NameBytesMax bytes; bytes that are not
// UTF-8; a first character '.' or '<', which are reserved; an empty component,
// a component "." or ".."; a slash at the end; space, '<', '>'; control
// characters, surrogates, private use and everything above the basic plane.
func ParseName(s string) (Name, error) {
	n := strings.TrimPrefix(s, "/")
	if reason := nameFault(n); reason != "" {
		return "", &NameError{Name: shorten(s), Reason: reason}
	}
	return Name(n), nil
}

// Validate checks a name that did not come from ParseName.
func (n Name) Validate() error {
	if reason := nameFault(string(n)); reason != "" {
		return &NameError{Name: shorten(string(n)), Reason: reason}
	}
	return nil
}

func (n Name) String() string { return string(n) }

func nameFault(n string) string {
	switch {
	case n == "":
		return "is empty"
	case len(n) > NameBytesMax:
		return fmt.Sprintf("has %d bytes, the limit is %d", len(n), NameBytesMax)
	case !utf8.ValidString(n):
		return "is not UTF-8"
	case n[0] == '.' || n[0] == '<':
		return fmt.Sprintf("begins with %q, which is reserved", n[0])
	case n[len(n)-1] == '/':
		return "ends with a slash"
	}
	for part := range strings.SplitSeq(n, "/") {
		switch part {
		case "":
			return "has an empty component"
		case ".", "..":
			return fmt.Sprintf("has the relative component %q", part)
		}
	}
	for i, r := range n {
		if !nameRune(r) {
			return fmt.Sprintf("has the character %q at byte %d, which is not allowed", r, i)
		}
	}
	return ""
}

// nameRune tells whether a character may stand in a name. The bounds are
// DistributedLog's own: U+001F, U+007F, U+009F and U+F8FF themselves pass.
func nameRune(r rune) bool {
	switch {
	case r == 0, r == ' ', r == '<', r == '>':
		return false
	case r > 0 && r < 0x1f, r > 0x7f && r < 0x9f, r > 0xd800 && r < 0xf8ff, r > 0xfff0 && r < 0xffff, r > 0xffff:
		return false
	}
	return true
}

func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
