package ledger_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// forger changes answers as the fuzzer's bytes say, as long as there are some:
// an operation, its argument, a place.
type forger struct {
	mu   sync.Mutex
	data []byte
}

func (f *forger) next() (op, arg, at byte, ok bool) {
	if len(f.data) < 3 {
		return 0, 0, 0, false
	}
	op, arg, at = f.data[0], f.data[1], f.data[2]
	f.data = f.data[3:]
	return op, arg, at, true
}

// forge changes one answer's frame.
func (f *forger) forge(frame []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		op, arg, at, ok := f.next()
		i := int(at) % len(frame)
		switch {
		case !ok:
			return frame
		case op%16 == 0:
			return frame // on to the next answer
		case op%16 < 8:
			frame[i] ^= arg // anywhere, length and digest among it
		case op%16 == 8: // cut, with a length that fits
			if frame = frame[:max(i, 4)]; i > 4 {
				frame = withLength(frame)
			}
		case op%16 == 9: // longer
			frame = withLength(append(frame, bytes.Repeat([]byte{arg}, 1+int(at))...))
		case op%16 == 10: // the rest of the input, raw
			n := min(int(arg), len(f.data))
			frame, f.data = append([]byte{0, 0, 0, 0}, f.data[:n]...), f.data[n:]
			frame = withLength(frame)
		case op%16 == 11: // twice
			return append(frame, frame...)
		case op%16 == 12 && wire.IsV3(frame[wire.LengthSize:]):
			frame = f.forgeV3(frame, arg, at)
		case i >= wire.LengthSize: // a header's field
			frame[wire.LengthSize+i%min(4, len(frame)-wire.LengthSize)] = arg
		}
	}
}

// forgeV3 changes a field of a version 3 answer.
func (f *forger) forgeV3(frame []byte, arg, at byte) []byte {
	if m, err := wire.DecodeResponseV3(frame[wire.LengthSize:]); err != nil || m.ReadResponse == nil {
		return frame
	}
	return remade(frame, func(m *bkpb.Response) {
		r, v := m.ReadResponse, int64(int8(arg))
		switch at % 5 {
		case 0:
			r.LedgerId = &v
		case 1:
			r.EntryId = &v
		case 2:
			r.MaxLac = &v
		case 3:
			r.Body = bytes.Repeat([]byte{arg}, int(at))
		case 4:
			n := min(int(arg), len(f.data))
			r.Body, f.data = f.data[:n], f.data[n:]
		}
	})
}

// FuzzAnswersToReads: whatever bookies answer, no call that reads panics or
// hangs, and no entry that it gives is another than what was written.
func FuzzAnswersToReads(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 1, 40, 0, 0, 0, 2, 255, 12, 0, 0, 0, 3, 1, 31})
	f.Add([]byte{8, 0, 30, 0, 0, 0, 8, 0, 2, 0, 0, 0, 9, 1, 100, 0, 0, 0, 11, 0, 0})
	f.Add([]byte{12, 3, 0, 0, 0, 0, 12, 3, 1, 0, 0, 0, 12, 100, 2, 0, 0, 0, 12, 1, 3, 0, 0, 0, 12, 3, 4, 1, 2, 3})
	f.Add([]byte{13, 1, 0, 0, 0, 0, 13, 3, 0, 0, 0, 0, 13, 7, 1, 0, 0, 0, 10, 24, 0})
	for _, s := range []string{ // a read and a batch read answer, an answer of version 3
		"0a1c000202000000000000000000000001000000000000000a",
		"0a200002070000000000000000000000010000000000000001000000000000000100000000",
		"0a0b000a060803100a180110f603",
	} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		opts := ledger.Options{LACDelay: -1, ReadTimeout: time.Second, LongPollTimeout: time.Second, Seed: 1}
		inWorld(t, 2, opts, func(w *world) {
			closed := w.closedLedger(2, 2, 1, 8)
			wr := w.create(2, 2, 1)
			w.append(wr, 8)
			synctest.Wait()
			require.NoError(t, wr.Abort())
			forger := &forger{data: data}
			for _, b := range w.Bookies {
				b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
					if r.LongPoll {
						return fakebookie.ForgePoll(forger.forge)
					}
					return fakebookie.Forge(forger.forge)
				})
			}
			readForged(w, w.client(opts), closed, wr.ID())
		})
	})
}

func readForged(w *world, c *ledger.Client, closed, open bk.LedgerID) {
	check := func(ent bk.Entry, err error) {
		if err == nil {
			require.Equal(w, string(payload(ent.ID)), string(ent.Payload))
		}
	}
	r := w.open(c, closed, ledger.NoRecovery)
	for e := range bk.EntryID(8) {
		ent, err := r.Read(w.ctx, e)
		check(ent, err)
		if err == nil {
			require.Equal(w, e, ent.ID)
		}
	}
	next := bk.EntryID(0)
	for ent, err := range r.Entries(w.ctx, 0, 7) {
		check(ent, err)
		if err == nil {
			require.Equal(w, next, ent.ID)
			next++
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	if r, err := c.Open(ctx, open, ledger.NoRecovery); err == nil {
		for e := bk.EntryID(-1); e < 8; e++ {
			ent, err := r.ReadNext(ctx, e)
			check(ent, err)
			if err == nil {
				require.Equal(w, e+1, ent.ID)
			}
		}
		check(r.ReadUnconfirmed(ctx, 7))
	}
	if r, err := c.Open(w.ctx, open, ledger.Recover); err == nil {
		for ent, err := range r.Entries(w.ctx, 0, r.LAC()) {
			check(ent, err)
		}
	}
}
