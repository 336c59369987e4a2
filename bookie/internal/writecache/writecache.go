package writecache

import (
	"cmp"
	"slices"
	"sync"

	"github.com/loglode/loglode/bookie/bk"
)

// Cache is the write cache of one ledger directory.
type Cache struct {
	mu       sync.RWMutex // guards what follows
	active   *Arena
	flushing *Arena        // frozen, nil if no flush is under way
	idle     *Arena        // empty, waits for its turn; nil while the other one is frozen
	room     chan struct{} // closed when a flush gave room; nil if nobody waits
}

// New makes a cache of two arenas of arenaBytes each.
func New(arenaBytes int) *Cache {
	return &Cache{active: newArena(arenaBytes), idle: newArena(arenaBytes)}
}

// Put stores bodies, each of at least 24 bytes that name their ledger and
// entry. All are stored or, when the active arena lacks room, none. An arena
// that is empty takes anything.
func (c *Cache) Put(bodies [][]byte) bool {
	n := 0
	for _, b := range bodies {
		n += len(b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.active.fits(n) {
		return false
	}
	for _, b := range bodies {
		c.active.put(b)
	}
	return true
}

// PutAnyway stores a body whether or not the active arena has room for it.
func (c *Cache) PutAnyway(body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active.put(body)
}

// Get appends the body of an entry to dst.
func (c *Cache) Get(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if b := c.active.get(l, e); b != nil {
		return append(dst, b...), true
	}
	if c.flushing != nil {
		if b := c.flushing.get(l, e); b != nil {
			return append(dst, b...), true
		}
	}
	return dst, false
}

// Entries appends the ids of a ledger's entries here, in no order, maybe
// twice.
func (c *Cache) Entries(l bk.LedgerID, dst []bk.EntryID) []bk.EntryID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	dst = c.active.entries(l, dst)
	if c.flushing != nil {
		dst = c.flushing.entries(l, dst)
	}
	return dst
}

// Freeze takes the active arena away for a flush. There must be no other flush
// under way. The arena does not change any more.
func (c *Cache) Freeze() *Arena {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushing, c.active, c.idle = c.active, c.idle, nil
	c.wakeRoom()
	return c.flushing
}

// Drop forgets the frozen arena: its entries are in the index.
func (c *Cache) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushing.reset()
	c.flushing, c.idle = nil, c.flushing
	c.wakeRoom()
}

// Room gives a channel that is closed when the active arena was exchanged, or
// can be.
func (c *Cache) Room() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}

func (c *Cache) wakeRoom() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// Close frees the memory. Nothing may use the cache or an arena of it any more:
// a panic is better than an answer that an entry is not here.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range []*Arena{c.active, c.flushing, c.idle} {
		if a != nil {
			a.free()
			*a = Arena{}
		}
	}
	c.active, c.flushing, c.idle = nil, nil, nil
}

// Bytes is what the active arena holds.
func (c *Cache) Bytes() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.active.buf)
}

// Arena is one half of a cache.
type Arena struct {
	buf   []byte
	own   []byte // where buf begins each time, outside the Go heap; one too large entry moves buf off it
	free  func() // of own
	list  []slot // of Sorted, to be used again
	slots []slot // open addressing, a power of two of them
	used  int
}

// slot says where a body lies. size 0 is an empty slot.
type slot struct {
	ledger bk.LedgerID
	entry  bk.EntryID
	off    uint32
	size   uint32
}

const slotsMin = 1 << 10

func newArena(bytes int) *Arena {
	buf, free := allocate(bytes)
	return &Arena{buf: buf, own: buf, free: free, slots: make([]slot, slotsMin)}
}

func (a *Arena) fits(n int) bool {
	// Slots count too: many small entries must not let the table grow for ever.
	return len(a.buf) == 0 || len(a.buf)+n+a.used*16 <= cap(a.own)
}

func (a *Arena) put(body []byte) {
	if a.used*4 >= len(a.slots)*3 {
		a.grow()
	}
	l, e := bk.BodyLedger(body), bk.BodyEntry(body)
	s := a.find(l, e)
	if s.size == 0 {
		a.used++
	}
	*s = slot{ledger: l, entry: e, off: uint32(len(a.buf)), size: uint32(len(body))}
	a.buf = append(a.buf, body...)
}

func (a *Arena) get(l bk.LedgerID, e bk.EntryID) []byte {
	s := a.find(l, e)
	if s.size == 0 {
		return nil
	}
	return a.body(s)
}

func (a *Arena) body(s *slot) []byte { return a.buf[s.off : s.off+s.size] }

// find gives the slot of an entry, or the empty one where it would go.
func (a *Arena) find(l bk.LedgerID, e bk.EntryID) *slot {
	mask := uint64(len(a.slots) - 1)
	h := uint64(l)*0x9e3779b97f4a7c15 + uint64(e)
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	for i := h & mask; ; i = (i + 1) & mask {
		s := &a.slots[i]
		if s.size == 0 || s.entry == e && s.ledger == l {
			return s
		}
	}
}

func (a *Arena) grow() {
	old := a.slots
	a.slots = make([]slot, 2*len(old))
	for i := range old {
		if old[i].size != 0 {
			*a.find(old[i].ledger, old[i].entry) = old[i]
		}
	}
}

func (a *Arena) entries(l bk.LedgerID, dst []bk.EntryID) []bk.EntryID {
	for i := range a.slots {
		if s := &a.slots[i]; s.size != 0 && s.ledger == l {
			dst = append(dst, s.entry)
		}
	}
	return dst
}

func (a *Arena) reset() {
	a.buf = a.own
	a.used = 0
	clear(a.slots)
}

// Len is the number of entries.
func (a *Arena) Len() int { return a.used }

// Bytes is the size of all bodies.
func (a *Arena) Bytes() int { return len(a.buf) }

// Sorted calls fn with each entry of a frozen arena, by ledger and entry, and
// stops at its first error. body is valid until the arena is dropped.
func (a *Arena) Sorted(fn func(l bk.LedgerID, e bk.EntryID, body []byte) error) error {
	// A copy of the used slots: readers still look entries up by hash.
	list := a.list[:0]
	for i := range a.slots {
		if a.slots[i].size != 0 {
			list = append(list, a.slots[i])
		}
	}
	a.list = list
	slices.SortFunc(list, func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.ledger, y.ledger), cmp.Compare(x.entry, y.entry))
	})
	for i := range list {
		s := &list[i]
		if err := fn(s.ledger, s.entry, a.body(s)); err != nil {
			return err
		}
	}
	return nil
}
