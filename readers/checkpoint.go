package readers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"

	"github.com/loglode/loglode/stream"
)

// Cell keeps the bytes of one checkpoint. Package namespace has it.
type Cell interface {
	// Load gives the stored value and its version; no value and version 0 if
	// there is none yet.
	Load(ctx context.Context) (value []byte, version int64, err error)
	// Store replaces the value that has this version and gives the new version.
	// It fails with stream.ErrConflict if it was changed. When it does not know
	// whether it did, the value may be there.
	Store(ctx context.Context, value []byte, version int64) (int64, error)
}

// Bytes of a checkpoint, big-endian; see docs/format/checkpoint.md. On disk: do
// not renumber.
const (
	checkpointMagic   = "LLCP"
	checkpointVersion = 1
	checkpointHeader  = 4 + 1 + 8 + stream.DLSNSize
	checkpointTrailer = 4
)

// StateBytesMax is the most bytes of state that a Checkpoint keeps.
const StateBytesMax = 512 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checkpoint is a saved position of a consumer together with the consumer's own
// state. Any number of goroutines may use it.
type Checkpoint struct {
	id   string
	cell Cell

	mu      sync.Mutex // guards what follows
	version int64
	at      stream.DLSN // the last record accounted for
	saved   bool        // at is set
	state   []byte
}

// OpenCheckpoint loads the checkpoint in a cell. id names it in errors.
func OpenCheckpoint(ctx context.Context, id string, cell Cell) (*Checkpoint, error) {
	value, version, err := cell.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint %s: %w", id, err)
	}
	c := &Checkpoint{id: id, cell: cell, version: version}
	if len(value) == 0 {
		return c, nil
	}
	if c.at, c.state, err = parseCheckpoint(id, value); err != nil {
		return nil, err
	}
	c.saved = true
	return c, nil
}

// Load gives the saved position, which is just after the record that was saved,
// and the state; the first position and no state if nothing was ever saved.
func (c *Checkpoint) Load() (stream.Position, []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.saved {
		return stream.First(), nil
	}
	return stream.After(c.at), bytes.Clone(c.state)
}

// Save replaces position and state in one step: at is the last record that
// state accounts for, Load then gives the position after it. It fails with
// stream.ErrConflict once another Checkpoint of the same id has saved; when it
// fails otherwise, it may have saved, and can be repeated.
func (c *Checkpoint) Save(ctx context.Context, at stream.DLSN, state []byte) error {
	if len(state) > StateBytesMax {
		return fmt.Errorf("save checkpoint %s: state of %d bytes, the limit is %d: %w", c.id, len(state), StateBytesMax, stream.ErrRecordTooLong)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	value := appendCheckpoint(nil, at, state, rand.Uint64())
	version, err := c.cell.Store(ctx, value, c.version)
	if err != nil {
		// A lost answer: what is there now tells.
		if now, v, lerr := c.cell.Load(ctx); lerr == nil && bytes.Equal(now, value) {
			version, err = v, nil
		} else if lerr == nil && v != c.version && !errors.Is(err, stream.ErrConflict) {
			err = fmt.Errorf("%w: %w", stream.ErrConflict, err)
		}
	}
	if err != nil {
		return fmt.Errorf("save checkpoint %s: %w", c.id, err)
	}
	c.version, c.at, c.saved, c.state = version, at, true, bytes.Clone(state)
	return nil
}

// appendCheckpoint appends the bytes of a checkpoint. token makes two saves of
// the same content differ.
func appendCheckpoint(dst []byte, at stream.DLSN, state []byte, token uint64) []byte {
	start := len(dst)
	dst = append(dst, checkpointMagic...)
	dst = append(dst, checkpointVersion)
	dst = binary.BigEndian.AppendUint64(dst, token)
	dst, _ = at.AppendBinary(dst) // cannot fail
	dst = append(dst, state...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func parseCheckpoint(id string, b []byte) (stream.DLSN, []byte, error) {
	bad := func(offset int, want, got string) (stream.DLSN, []byte, error) {
		return stream.DLSN{}, nil, &stream.CorruptError{Where: "checkpoint " + id, Offset: offset, Want: want, Got: got}
	}
	if len(b) < checkpointHeader+checkpointTrailer {
		return bad(0, fmt.Sprintf("at least %d bytes", checkpointHeader+checkpointTrailer), fmt.Sprint(len(b)))
	}
	if string(b[:4]) != checkpointMagic {
		return bad(0, checkpointMagic, fmt.Sprintf("%q", b[:4]))
	}
	if b[4] != checkpointVersion {
		return stream.DLSN{}, nil, fmt.Errorf("checkpoint %s: version %d, want %d: %w", id, b[4], checkpointVersion, stream.ErrUnsupported)
	}
	body, sum := b[:len(b)-checkpointTrailer], binary.BigEndian.Uint32(b[len(b)-checkpointTrailer:])
	if want := crc32.Checksum(body, castagnoli); sum != want {
		return bad(len(body), fmt.Sprintf("checksum %08x", want), fmt.Sprintf("%08x", sum))
	}
	var d stream.DLSN
	if err := d.UnmarshalBinary(body[13:checkpointHeader]); err != nil {
		return bad(13, "a DLSN", err.Error())
	}
	return d, bytes.Clone(body[checkpointHeader:]), nil
}
