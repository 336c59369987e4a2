package journal

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
)

// Open lists the files of a journal. It writes nothing. Replay comes next,
// then Start.
func Open(o Options) (*Journal, error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	j := &Journal{o: o, log: o.Logger.Named("journal"), pool: newPool(o), closed: make(chan struct{}), cur: &group{}, spare: &group{}}
	j.wake.L = &j.mu
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list journal %s: %w", o.Dir, err)
	}
	for _, name := range names {
		seq, ok := parseFileName(name)
		if !ok {
			continue
		}
		f, err := openInfo(o.FS, o.Dir, name)
		if err != nil {
			return nil, err
		}
		if f.header.seq != seq { // never started, or a recycled file in waiting
			f.header = fileHeader{}
			j.unstarted = append(j.unstarted, f)
			continue
		}
		j.files = append(j.files, f)
	}
	slices.SortFunc(j.files, func(a, b fileInfo) int {
		if a.header.seq < b.header.seq {
			return -1
		}
		return 1
	})
	return j, nil
}

func openInfo(fs vfs.FS, dir, name string) (fileInfo, error) {
	path := fs.PathJoin(dir, name)
	f, err := fs.Open(path)
	if err != nil {
		return fileInfo{}, fmt.Errorf("open journal file: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fileInfo{}, fmt.Errorf("stat journal file %s: %w", path, err)
	}
	info := fileInfo{name: name, size: st.Size()}
	var buf [fileHeaderSize]byte
	n, err := readAt(f, buf[:], 0)
	if err != nil {
		return fileInfo{}, fmt.Errorf("read header of journal file %s: %w", path, err)
	}
	h, ok, err := parseFileHeader(buf[:n])
	if err != nil {
		return fileInfo{}, fmt.Errorf("%s: %w", path, err)
	}
	if ok {
		info.header = h
	}
	return info, nil
}

// readAt is ReadAt for which the end of the file is no error.
func readAt(f vfs.File, p []byte, off int64) (int, error) {
	n, err := f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Replay calls fn with each record from LSN from on, in order. synced is an
// LSN below which every record is known to have been durable. Body is valid
// until fn returns.
//
// A torn end is where Replay stops. Damage that cannot be a torn end, or a
// missing file, is a *bk.CorruptError; fn has then seen the records before it.
func (j *Journal) Replay(from, synced LSN, fn func(lsn LSN, t Type, body []byte) error) error {
	j.end, j.from = from, from
	first := 0
	for first+1 < len(j.files) && j.files[first+1].header.prevEnd <= from {
		first++
	}
	for i := first; i < len(j.files); i++ {
		f := j.files[i]
		if i == first && f.header.prevEnd > from || i > first && f.header.prevSeq != j.files[i-1].header.seq {
			return j.corrupt(f, 0, "the file before it", "it is missing")
		}
		limit := LSN(0)
		if i+1 < len(j.files) {
			limit = j.files[i+1].header.prevEnd
		}
		end, err := j.walk(f, from, limit, fn)
		if err != nil {
			return err
		}
		if end < limit {
			return j.corrupt(f, end, fmt.Sprintf("records up to LSN %d", limit), "damage")
		}
		j.end = end
	}
	if reached := max(j.end, from); synced > reached {
		name := fileInfo{name: "(no file)"}
		if len(j.files) > 0 {
			name = j.files[len(j.files)-1]
		}
		return j.corrupt(name, reached, fmt.Sprintf("records that were synced, up to LSN %d", synced), "damage")
	}
	return j.checkUnstarted(max(from, j.end))
}

func (j *Journal) corrupt(f fileInfo, at LSN, want, got string) error {
	off := int64(-1)
	if at >= f.header.start && f.size > 0 {
		off = f.offset(at)
	}
	return &bk.CorruptError{Where: j.o.FS.PathJoin(j.o.Dir, f.name), Offset: off, Want: want, Got: got}
}

func (f fileInfo) offset(lsn LSN) int64 { return blockSize + int64(lsn-f.header.start) }

func (f fileInfo) lsn(off int64) LSN { return f.header.start + LSN(off-blockSize) }

// walk replays one file up to LSN limit (0: none) and tells where its good
// records end.
func (j *Journal) walk(f fileInfo, from, limit LSN, fn func(LSN, Type, []byte) error) (LSN, error) {
	file, err := j.o.FS.Open(j.o.FS.PathJoin(j.o.Dir, f.name), vfs.SequentialReadsOption)
	if err != nil {
		return 0, fmt.Errorf("open journal file: %w", err)
	}
	defer file.Close()
	w := walker{j: j, f: f, file: file, from: from, fn: fn}
	lsn := f.header.start
	for limit == 0 || lsn < limit {
		end, whole, err := w.group(lsn)
		if err != nil {
			return 0, err
		}
		if whole {
			lsn = alignUp(end)
			continue
		}
		if limit != 0 && end >= limit {
			return end, nil
		}
		next, found, err := w.nextGroup(end)
		if err != nil {
			return 0, err
		}
		switch {
		case !found:
			return end, nil
		case next > from:
			return 0, j.corrupt(f, end, "a record", fmt.Sprintf("damage, and a group of a later sync at LSN %d", next))
		}
		lsn = next // all that is damaged lies below from
	}
	return lsn, nil
}

type walker struct {
	j    *Journal
	f    fileInfo
	file vfs.File
	from LSN
	fn   func(LSN, Type, []byte) error
	buf  []byte
}

// group replays the group at lsn. end is where its good records end; whole
// says that nothing is missing.
func (w *walker) group(lsn LSN) (end LSN, whole bool, err error) {
	off := w.f.offset(lsn)
	var head [groupHeaderSize]byte
	n, err := readAt(w.file, head[:], off)
	if err != nil {
		return 0, false, fmt.Errorf("read journal file %s at %d: %w", w.f.name, off, err)
	}
	h, ok := parseGroupHeader(head[:n])
	if !ok || h.lsn != lsn {
		return lsn, false, nil
	}
	size := min(int64(h.size), w.f.size-off)
	w.buf = slices.Grow(w.buf[:0], int(size))[:size]
	n, err = readAt(w.file, w.buf, off)
	if err != nil {
		return 0, false, fmt.Errorf("read journal file %s at %d: %w", w.f.name, off, err)
	}
	b := w.buf[:n]
	pos := groupHeaderSize
	for range h.count {
		t, body, size, ok := parseRecord(b[pos:], lsn+LSN(pos))
		if !ok {
			return lsn + LSN(pos), false, nil
		}
		if lsn+LSN(pos) >= w.from {
			if err := w.fn(lsn+LSN(pos), t, body); err != nil {
				return 0, false, err
			}
		}
		pos += size
	}
	return lsn + LSN(pos), true, nil
}

// nextGroup looks for a good group behind the damage at lsn.
func (w *walker) nextGroup(lsn LSN) (LSN, bool, error) {
	const chunk = 256 * blockSize
	from := w.f.offset(alignUp(lsn + 1))
	buf := make([]byte, max(0, min(chunk, w.f.size-from)))
	for off := from; off < w.f.size; off += chunk {
		n, err := readAt(w.file, buf, off)
		if err != nil {
			return 0, false, fmt.Errorf("read journal file %s at %d: %w", w.f.name, off, err)
		}
		for i := 0; i < n; i += blockSize {
			h, ok := parseGroupHeader(buf[i:n])
			if ok && h.lsn == w.f.lsn(off+int64(i)) {
				return h.lsn, true, nil
			}
		}
	}
	return 0, false, nil
}

// checkUnstarted reports a file that was in use and lost its header: its first
// group can be torn, but a second one was written after a sync of the header.
func (j *Journal) checkUnstarted(from LSN) error {
	for _, f := range j.unstarted {
		file, err := j.o.FS.Open(j.o.FS.PathJoin(j.o.Dir, f.name))
		if err != nil {
			return fmt.Errorf("open journal file: %w", err)
		}
		bad, err := j.lostHeader(f, file, from)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		if bad {
			return j.corrupt(f, 0, "a file header", "damage, and groups behind it")
		}
	}
	return nil
}

func (j *Journal) lostHeader(f fileInfo, file vfs.File, from LSN) (bool, error) {
	var head [groupHeaderSize]byte
	start, found := LSN(0), false
	for off := int64(blockSize); off < f.size; off += blockSize {
		n, err := readAt(file, head[:], off)
		if err != nil {
			return false, fmt.Errorf("read journal file %s at %d: %w", f.name, off, err)
		}
		h, ok := parseGroupHeader(head[:n])
		if !ok || h.lsn < from {
			continue
		}
		if s := h.lsn - LSN(off-blockSize); found && s == start {
			return true, nil
		} else {
			start, found = s, true
		}
	}
	return false, nil
}

// Start begins a new file behind everything there is and takes appends. The
// last file is synced first: what was replayed from it may have been in the
// page cache only.
func (j *Journal) Start() error {
	// The mark can be above all that is on disk: it covers what was queued.
	start, seq, prevSeq := max(j.end, j.from), uint64(0), uint64(0)
	size := j.o.FileBytes
	for _, f := range j.files {
		start = max(start, f.header.start+LSN(f.size))
		seq, prevSeq = f.header.seq, f.header.seq
		size = max(size, f.size)
	}
	for _, f := range j.unstarted {
		size = max(size, f.size)
		n, _ := parseFileName(f.name)
		seq = max(seq, n)
	}
	if n := len(j.files); n > 0 {
		if err := j.syncFile(j.files[n-1].name); err != nil {
			return err
		}
	}
	// The torn first group of a file that the journal was rolling to can have
	// used LSNs that no header tells of; they lie less than a file and a group
	// above the rest.
	start = alignUp(start) + LSN(size) + bodySizeMax
	if err := j.pool.give(j.unstarted); err != nil {
		return fmt.Errorf("journal %s: %w", j.o.Dir, err)
	}
	j.unstarted = nil
	f, size, err := j.pool.start(seq + 1)
	if err != nil {
		return fmt.Errorf("journal %s: %w", j.o.Dir, err)
	}
	j.file, j.fileSize = f, size
	j.header = fileHeader{seq: seq + 1, start: start, prevSeq: prevSeq, prevEnd: j.end}
	// This header is synced now, or the next start would take the same LSNs.
	if err := j.writeHeader(); err != nil {
		return errors.Join(err, j.unstart())
	}
	if err := j.file.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync journal file %d: %w", j.header.seq, err), j.unstart())
	}
	j.cur.reset(start)
	j.synced = start
	j.stopped = make(chan struct{})
	go j.run()
	return nil
}

// unstart ends what Start began; it may be called again.
func (j *Journal) unstart() error {
	err := errors.Join(j.file.Close(), j.pool.close())
	j.pool = newPool(j.o)
	return err
}

func (j *Journal) syncFile(name string) error {
	f, err := j.o.FS.OpenReadWrite(j.o.FS.PathJoin(j.o.Dir, name), writeClass)
	if err != nil {
		return fmt.Errorf("open journal file: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync journal file %s: %w", name, err)
	}
	return nil
}
