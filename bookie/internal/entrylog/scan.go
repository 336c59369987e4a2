package entrylog

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/loglode/loglode/bookie/bk"
)

// Scan calls fn with each record of a log in order. It ends without an error
// at the footer, and in a log without one at the end of the file or at a torn
// record. body is valid until fn returns.
func (s *Store) Scan(log LogID, fn func(off int64, body []byte) error) error {
	f, err := s.fs.Open(s.fs.PathJoin(s.dir, fileName(log)), vfs.SequentialReadsOption)
	if err != nil {
		return fmt.Errorf("open entry log: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat entry log %s: %w", fileName(log), err)
	}
	end, closed, err := footerOffset(f, st.Size())
	if err != nil {
		return err
	}
	var head [headerSize]byte
	if err := readFull(f, head[:], 0); err != nil {
		return fmt.Errorf("read entry log %s: %w", fileName(log), err)
	}
	if err := checkHeader(head[:], log); err != nil {
		return err
	}
	var buf []byte
	for off := int64(headerSize); off < end; {
		body, grown, err := readRecord(f, buf, log, off, end)
		buf = grown
		if !closed && errors.Is(err, bk.ErrCorrupt) {
			return nil // torn by a crash: no index names it
		}
		if err != nil {
			return err
		}
		if err := fn(off, body); err != nil {
			return err
		}
		off += int64(recordHeaderSize + len(body))
	}
	return nil
}

func footerOffset(f vfs.File, size int64) (end int64, closed bool, err error) {
	if size < headerSize+trailerSize {
		return size, false, nil
	}
	var t [trailerSize]byte
	if err := readFull(f, t[:], size-trailerSize); err != nil {
		return 0, false, fmt.Errorf("read entry log trailer: %w", err)
	}
	if off, _, ok := parseTrailer(t[:], size); ok {
		return off, true, nil
	}
	return size, false, nil
}

func readRecord(f vfs.File, buf []byte, log LogID, off, end int64) (body, grown []byte, err error) {
	var head [recordHeaderSize]byte
	if end-off < recordHeaderSize {
		return nil, buf, recordCorrupt(log, off, "a record", fmt.Sprintf("%d bytes", end-off))
	}
	if err := readFull(f, head[:], off); err != nil {
		return nil, buf, fmt.Errorf("read entry log %s at %d: %w", fileName(log), off, err)
	}
	n := int64(head[4])<<24 | int64(head[5])<<16 | int64(head[6])<<8 | int64(head[7])
	n = min(n, end-off-recordHeaderSize) // parseRecord refuses what was cut
	if int64(cap(buf)) < recordHeaderSize+n {
		buf = make([]byte, recordHeaderSize+n)
	}
	buf = buf[:recordHeaderSize+n]
	if err := readFull(f, buf, off); err != nil {
		return nil, buf, fmt.Errorf("read entry log %s at %d: %w", fileName(log), off, err)
	}
	body, err = parseRecord(buf, log, off)
	return body, buf, err
}

func readFull(f vfs.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Ledgers gives the ledger map of a closed log; ok is false if it has none.
func (s *Store) Ledgers(log LogID) (rows []LedgerBytes, ok bool, err error) {
	f, err := s.fs.Open(s.fs.PathJoin(s.dir, fileName(log)))
	if err != nil {
		return nil, false, fmt.Errorf("open entry log: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("stat entry log %s: %w", fileName(log), err)
	}
	off, closed, err := footerOffset(f, st.Size())
	if err != nil || !closed {
		return nil, false, err
	}
	b := make([]byte, st.Size()-off)
	if err := readFull(f, b, off); err != nil {
		return nil, false, fmt.Errorf("read footer of entry log %s: %w", fileName(log), err)
	}
	rows, ok = parseFooter(b, uint64(len(b)-trailerSize)/footerRowSize)
	if !ok {
		return nil, false, recordCorrupt(log, off, "the ledger map", "damage")
	}
	return rows, true, nil
}
