package zkstore

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/loglode/loglode/metadata"
)

// reserved is the server's own node.
const reserved = "/zookeeper"

// validKey checks a key: metadata.ValidKey, and what ZooKeeper takes.
func validKey(key string) error {
	if err := metadata.ValidKey(key); err != nil {
		return err
	}
	return takenByServer(key)
}

// validOp checks the key of an operation.
func validOp(op metadata.Op) error {
	if err := metadata.ValidOp(op); err != nil {
		return err
	}
	return takenByServer(op.Key)
}

// takenByServer checks what ZooKeeper refuses and metadata does not. Its
// servers count in UTF-16, so that all beyond the first 65536 code points looks
// like surrogates, which they refuse.
func takenByServer(key string) error {
	if key == reserved || strings.HasPrefix(key, reserved+"/") {
		return fmt.Errorf("key %q: ZooKeeper's own: %w", key, metadata.ErrInvalidKey)
	}
	for i, r := range key {
		switch {
		case r == utf8.RuneError, r <= 0x1f, r >= 0x7f && r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
			return fmt.Errorf("key %q: ZooKeeper does not take %U at byte %d: %w", key, r, i, metadata.ErrInvalidKey)
		}
	}
	return nil
}
