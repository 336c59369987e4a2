package segment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// life is a whole life of a stream up to its deletion. It gives the texts of
// the segments and what was readable before that.
func life(t *testing.T, w *world) (map[string]string, []string) {
	ctx := t.Context()
	s := w.stream("s")
	require.NoError(t, s.Create(ctx))
	c := claim(t, s)
	w1 := start(t, c, 1)
	mustPut(t, w1, rec{txid: 1, payload: "a"}, rec{txid: 2, payload: "b"})
	w2 := start(t, c, 2)
	_, err := c.Complete(ctx, w1)
	require.NoError(t, err)
	mustPut(t, w2, rec{txid: 3, payload: "c"})
	_, err = c.Complete(ctx, w2)
	require.NoError(t, err)
	w3 := start(t, c, 3) // stays empty: deleted
	_, err = c.Complete(ctx, w3)
	require.NoError(t, err)
	w4 := start(t, c, 3)
	mustPut(t, w4, rec{txid: 4, payload: "d"})
	c = claim(t, s) // recovers the third
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 2}))
	n, err := s.Purge(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, c.Seal(ctx, nil, one))
	got, read := texts(t, s), records(t, s)
	require.NoError(t, s.Rename(ctx, "renamed"))
	exists, err := s.Exists(ctx)
	require.NoError(t, err)
	require.False(t, exists)
	s = w.stream("renamed")
	require.Equal(t, read, records(t, s))
	require.NoError(t, s.Delete(ctx))
	return got, read
}

// TestR21LostAnswers: the answer, or the request, of each metadata transaction
// in a stream's life is lost in turn; nothing differs, no ledger is left.
func TestR21LostAnswers(t *testing.T) {
	w := newWorld(t)
	wantTexts, wantRecords := life(t, w)
	require.Equal(t, []string{"2:0:0 3 c", "3:0:0 4 d"}, wantRecords)
	steps := w.store.txns
	for _, lost := range []fate{answerLost, requestLost} {
		for k := range steps {
			t.Run(fmt.Sprintf("fate %d of transaction %d", lost, k), func(t *testing.T) {
				w := newWorld(t)
				hit := false
				w.store.fate = func(n int, _ []metadata.Op) fate {
					if n == k {
						hit = true
						return lost
					}
					return delivered
				}
				gotTexts, gotRecords := life(t, w)
				require.Equal(t, wantRecords, gotRecords)
				require.Equal(t, dropLedger(wantTexts), dropLedger(gotTexts))
				require.Empty(t, w.dump(namespacePath))
				require.LessOrEqual(t, len(w.ledgers.ids()), 0, "ledgers left behind")
				require.True(t, hit)
			})
		}
	}
}

// dropLedger blurs ledger ids, which a repeated allocation changes.
func dropLedger(texts map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range texts {
		f := strings.Split(v, ";")
		f[1] = "*"
		out[k] = strings.Join(f, ";")
	}
	return out
}

// TestR20UnknownStartAndTakeover: the answer to a start is lost, and another
// writer takes the stream over before the first one reads back. It must not
// take the other's epoch for its own.
func TestR20UnknownStartAndTakeover(t *testing.T) {
	for _, written := range []bool{false, true} {
		w := newWorld(t)
		s := w.create("s")
		c1 := claim(t, s)
		a, err := c1.Allocate(t.Context(), one)
		require.NoError(t, err)
		var c2 *Claim
		w.store.fate = func(int, []metadata.Op) fate { return delivered }
		taken := &takeover{Store: w.store.Store, after: func() { c2 = claim(t, w.stream("s")) }}
		if !written {
			taken.drop = true
		}
		s.tree.opts.Store = taken
		_, err = c1.Start(t.Context(), a, 1)
		require.ErrorIs(t, err, stream.ErrFenced, "written %v", written)
		require.ErrorIs(t, c1.Err(), stream.ErrFenced)
		w2 := start(t, c2, 1)
		require.Equal(t, int64(1), w2.Segment())
	}
}

// takeover loses the answer of one transaction, and lets another writer in
// before the loss is noticed.
type takeover struct {
	metadata.Store
	drop  bool
	after func()
}

func (s *takeover) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	after := s.after
	s.after = nil
	if after == nil {
		return s.Store.Txn(ctx, ops...)
	}
	if !s.drop {
		if _, err := s.Store.Txn(ctx, ops...); err != nil {
			return metadata.Result{}, err
		}
	}
	after()
	return metadata.Result{}, metadata.ErrUnknownOutcome
}

// TestUncertainStartIsSettledLater: the store is away when the start's outcome
// must be read back; the call fails, and the next one settles it.
func TestUncertainStartIsSettledLater(t *testing.T) {
	for _, applied := range []bool{false, true} {
		w := newWorld(t)
		s := w.create("s")
		c := claim(t, s)
		a, err := c.Allocate(t.Context(), one)
		require.NoError(t, err)
		away := &awayStore{Store: w.store.Store, applied: applied, away: true}
		s.tree.opts.Store = away
		_, err = c.Start(t.Context(), a, 1)
		require.ErrorIs(t, err, stream.ErrUnavailable)
		require.NoError(t, c.Err(), "the claim may still hold")
		away.away = false
		sw, err := c.Start(t.Context(), a, 1)
		require.NoError(t, err)
		require.Equal(t, int64(1), sw.Segment())
		mustPut(t, sw, rec{txid: 1, payload: "a"})
		_, err = c.Complete(t.Context(), sw)
		require.NoError(t, err)
		require.Equal(t, []string{"1:0:0 1 a"}, records(t, s))
	}
}

type awayStore struct {
	metadata.Store
	applied, away bool
}

func (s *awayStore) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	if !s.away {
		return s.Store.Txn(ctx, ops...)
	}
	if s.applied {
		if _, err := s.Store.Txn(ctx, ops...); err != nil {
			return metadata.Result{}, err
		}
	}
	return metadata.Result{}, metadata.ErrUnknownOutcome
}

func (s *awayStore) Get(ctx context.Context, key string) (metadata.Node, error) {
	if s.away {
		return metadata.Node{}, metadata.ErrUnavailable
	}
	return s.Store.Get(ctx, key)
}

// TestR20ManyOwners runs random owners of one stream against each other: each
// may stall before any transaction while another takes over, answers and
// requests get lost, owners die. What was acknowledged is in the stream, in the
// order of acknowledgement; owners never come back; numbers have no gap.
func TestR20ManyOwners(t *testing.T) {
	for i := range 150 {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newOwners(t, seed).play() }) {
			t.Fatalf("history %d failed; to replay: put newOwners(t, %d).play() in a test", i, seed)
		}
	}
}

// owners is one history of TestR20ManyOwners.
type owners struct {
	t     *testing.T
	rng   *rand.Rand
	w     *world
	list  []*owner
	next  int // number of the next record
	acked []string
	// epochOf is the owner that started each segment's ledger, in the order of
	// claims.
	epochOf map[bk.LedgerID]int
	depth   int
}

type owner struct {
	epoch int // in the order of successful claims
	c     *Claim
	alloc *Allocation
	open  []*Writer
}

func newOwners(t *testing.T, seed uint64) *owners {
	o := &owners{t: t, rng: rand.New(rand.NewPCG(seed, 1)), w: newWorld(t), epochOf: map[bk.LedgerID]int{}}
	o.w.create("s")
	o.w.store.fate = func(int, []metadata.Op) fate {
		if o.depth < 2 && o.rng.IntN(6) == 0 {
			o.depth++ // this transaction stalls, and others go on
			for range 1 + o.rng.IntN(3) {
				o.step()
			}
			o.depth--
		}
		switch o.rng.IntN(12) {
		case 0:
			return answerLost
		case 1:
			return requestLost
		default:
			return delivered
		}
	}
	return o
}

func (o *owners) play() {
	for range 60 {
		o.step()
	}
	o.w.store.fate = nil
	s := o.w.stream("s")
	claim(o.t, s)
	infos, err := s.List(o.t.Context())
	require.NoError(o.t, err, "no gap")
	epoch := -1
	for _, i := range infos {
		require.False(o.t, i.InProgress)
		require.GreaterOrEqual(o.t, o.epochOf[i.Ledger], epoch, "owners never come back: segment %d", i.Segment)
		epoch = o.epochOf[i.Ledger]
	}
	var got []string
	for _, r := range records(o.t, s) {
		got = append(got, r[strings.LastIndexByte(r, ' ')+1:])
	}
	// Every acknowledged record, in order; others may be between them.
	rest := got
	for _, a := range o.acked {
		k := slices.Index(rest, a)
		require.GreaterOrEqual(o.t, k, 0, "acknowledged %s is missing or out of order in %v", a, got)
		rest = rest[k+1:]
	}
	slices.Sort(got)
	require.Len(o.t, slices.Compact(got), len(got), "no record twice")
}

func (o *owners) step() {
	if len(o.list) == 0 || o.rng.IntN(8) == 0 {
		c, err := o.w.stream("s").Claim(o.t.Context())
		if err == nil {
			o.list = append(o.list, &owner{epoch: int(c.epoch.writes), c: c})
		} else {
			o.expected(err, stream.ErrFenced, stream.ErrUnavailable)
		}
		return
	}
	o.act(o.list[o.rng.IntN(len(o.list))])
}

func (o *owners) act(w *owner) {
	ctx := o.t.Context()
	var err error
	if len(w.c.turn) > 0 {
		return // it is the one that stalls
	}
	switch k := o.rng.IntN(6); {
	case w.alloc == nil && (len(w.open) == 0 || k == 0):
		w.alloc, err = w.c.Allocate(ctx, one)
	case w.alloc != nil && (len(w.open) == 0 || k == 1):
		var sw *Writer
		sw, err = w.c.Start(ctx, w.alloc, max(w.c.LastTxID(), stream.TxID(o.next)))
		if err == nil {
			o.epochOf[sw.Ledger()] = w.epoch
			w.open, w.alloc = append(w.open, sw), nil
		}
	case len(w.open) > 1 || len(w.open) == 1 && k == 2:
		if _, err = w.c.Complete(ctx, w.open[0]); err == nil {
			w.open = w.open[1:]
		}
	case len(w.open) == 1:
		o.next++
		payload := fmt.Sprint("r", o.next)
		if _, err = put(o.t, w.open[0], rec{txid: stream.TxID(o.next), payload: payload}); err == nil {
			o.acked = append(o.acked, payload)
		}
	}
	if err != nil {
		o.expected(err, stream.ErrFenced, stream.ErrUnavailable, stream.ErrClosed, stream.ErrTxIDOrder, stream.ErrConflict)
	}
}

// expected requires that an error is one of these.
func (o *owners) expected(err error, want ...error) {
	o.t.Helper()
	ok := slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) })
	require.True(o.t, ok, "%v is none of %v", err, want)
}
