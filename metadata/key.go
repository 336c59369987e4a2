package metadata

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKeyBytes is the longest key a store takes.
const MaxKeyBytes = 4096

// ValidKey checks that key is an absolute path that every store takes: it
// begins with a slash, does not end in one, has no empty, "." or ".."
// component, is UTF-8 without NUL, and is at most MaxKeyBytes long. "/" alone
// is valid: it is the root, which has children but no value. Every failure is
// ErrInvalidKey.
func ValidKey(key string) error {
	switch {
	case key == "/":
		return nil
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("key of %d bytes, %q…: at most %d: %w", len(key), key[:40], MaxKeyBytes, ErrInvalidKey)
	case !strings.HasPrefix(key, "/"):
		return fmt.Errorf("key %q: must begin with a slash: %w", key, ErrInvalidKey)
	case !utf8.ValidString(key) || strings.IndexByte(key, 0) >= 0:
		return fmt.Errorf("key %q: must be UTF-8 without NUL: %w", key, ErrInvalidKey)
	}
	for c := range strings.SplitSeq(key[1:], "/") {
		if c == "" || c == "." || c == ".." {
			return fmt.Errorf("key %q: component %q is not allowed: %w", key, c, ErrInvalidKey)
		}
	}
	return nil
}

// ValidOp checks an operation's key. The root cannot be written.
func ValidOp(op Op) error {
	if op.Key == "/" {
		return fmt.Errorf("key %q cannot be written: %w", op.Key, ErrInvalidKey)
	}
	if op.Kind == OpCreate && op.Sequential {
		return ValidKey(op.Key + "0") // the number may be the whole name
	}
	return ValidKey(op.Key)
}

// Child is the key of the child of key that has this name.
func Child(key, name string) string {
	if key == "/" {
		return "/" + name
	}
	return key + "/" + name
}

// Split takes a key apart: Child(parent, name) == key.
func Split(key string) (parent, name string) {
	i := strings.LastIndexByte(key, '/')
	if i <= 0 {
		return "/", key[i+1:]
	}
	return key[:i], key[i+1:]
}

// Name is the last component of a key.
func Name(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
