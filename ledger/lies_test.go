package ledger_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// Offsets in the frame of a version 2 answer.
const (
	atVersion = 4
	atOp      = 5
	atCode    = 8
	atLedger  = 12
	atEntry   = 20
	atBody    = 28
)

// liesV2 are answers to a read that are not what was asked for.
func liesV2(b *fakebookie.Bookie, other bk.LedgerID) map[string]func(frame []byte) []byte {
	put := func(at int, v ...byte) func([]byte) []byte {
		return func(f []byte) []byte { copy(f[at:], v); return f }
	}
	body := func(make func(l bk.LedgerID, e bk.EntryID) []byte) func([]byte) []byte {
		return func(f []byte) []byte {
			l, e := bk.LedgerID(binary.BigEndian.Uint64(f[atLedger:])), bk.EntryID(binary.BigEndian.Uint64(f[atEntry:]))
			if f[atOp] == 7 { // batch: one entry behind a request id and its size
				b := make(l, e)
				f = binary.BigEndian.AppendUint32(f[:atBody+8], uint32(len(b)))
				f = append(f, b...)
			} else {
				f = append(f[:atBody], make(l, e)...)
			}
			binary.BigEndian.PutUint32(f, uint32(len(f)-4))
			return f
		}
	}
	return map[string]func([]byte) []byte{
		"another ledger":   put(atLedger, 0, 0, 0, 0, 0, 0, 0, 9),
		"another entry":    put(atEntry, 0, 0, 0, 0, 0, 0, 0, 9),
		"version 1":        put(atVersion, 1),
		"version 3":        put(atVersion, 3),
		"version 255":      put(atVersion, 255),
		"an add":           put(atOp, 1),
		"no operation":     put(atOp, 0),
		"code 999":         put(atCode, 0, 0, 3, 231),
		"negative code":    put(atCode, 255, 255, 255, 255),
		"an empty frame":   func([]byte) []byte { return []byte{0, 0, 0, 0} },
		"an endless frame": func([]byte) []byte { return []byte{255, 255, 255, 255} },
		"a header":         func(f []byte) []byte { return append([]byte{0, 0, 0, 4}, f[4:8]...) },
		"version 3 of the protocol": func([]byte) []byte {
			return mustV3(&bkpb.Response{Header: wire.V3Header(wire.OpRead, 1, 0), Status: bkpb.StatusCode_ENOENTRY.Enum()})
		},
		"the body of the next entry": body(func(l bk.LedgerID, e bk.EntryID) []byte {
			if next := b.Entry(l, e+1); next != nil {
				return next
			}
			return b.Entry(l, e-1)
		}),
		"the body of another ledger": body(func(_ bk.LedgerID, e bk.EntryID) []byte { return b.Entry(other, e) }),
		"no body":                    body(func(bk.LedgerID, bk.EntryID) []byte { return nil }),
		"a header as body":           body(func(l bk.LedgerID, e bk.EntryID) []byte { return b.Entry(l, e)[:32] }),
		"a cut body":                 body(func(l bk.LedgerID, e bk.EntryID) []byte { x := b.Entry(l, e); return x[:len(x)-1] }),
		"a longer body":              body(func(l bk.LedgerID, e bk.EntryID) []byte { return append(b.Entry(l, e), 0) }),
		"a flipped LAC":              body(func(l bk.LedgerID, e bk.EntryID) []byte { x := b.Entry(l, e); x[23] ^= 1; return x }),
		"a flipped length":           body(func(l bk.LedgerID, e bk.EntryID) []byte { x := b.Entry(l, e); x[31] ^= 1; return x }),
		"a flipped digest":           body(func(l bk.LedgerID, e bk.EntryID) []byte { x := b.Entry(l, e); x[33] ^= 1; return x }),
	}
}

func mustV3(m *bkpb.Response) []byte {
	f, err := wire.AppendV3(nil, m)
	if err != nil {
		panic(err)
	}
	return f
}

// A replica that answers something else than it was asked is an error of that
// replica: with one true one the read is good; with none it fails, and never as
// "no such entry".
func TestRule42_LiesAreErrorsOfTheReplica(t *testing.T) {
	for name := range liesV2(nil, 0) {
		for _, q := range []bk.Quorum{{Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 4, Write: 3, Ack: 2}} {
			t.Run(fmt.Sprintf("%s/E%d", name, q.Ensemble), func(t *testing.T) {
				inWorld(t, 4, ledger.Options{}, func(w *world) {
					other := w.closedLedger(4, 4, 4, 60)
					id := w.closedLedger(q.Ensemble, q.Write, q.Ack, 60)
					ens := w.ensemble(id)
					lying := func(b *fakebookie.Bookie) {
						lie := liesV2(b, other)[name]
						b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Forge(lie) })
					}
					for _, b := range ens[:2] {
						lying(b)
					}
					w.readAll(w.open(w.client(ledger.Options{}), id, ledger.NoRecovery), 59)
					r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
					for e := bk.EntryID(0); e < 60; e += 7 {
						ent, err := r.Read(w.ctx, e)
						require.NoError(t, err)
						require.Equal(t, string(payload(e)), string(ent.Payload))
					}
					for _, b := range ens[2:] {
						lying(b)
					}
					r = w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
					_, err := r.Read(w.ctx, 5)
					require.Error(t, err)
					require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
					require.NotErrorIs(t, err, bk.ErrNoSuchLedger)
					for _, err := range r.Entries(w.ctx, 0, 59) {
						require.Error(t, err)
						require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
					}
				})
			})
		}
	}
}

// liesV3 are answers to the requests of a recovery that are about something else.
var liesV3 = map[string]func(m *bkpb.Response){
	"another ledger": func(m *bkpb.Response) {
		if m.ReadResponse != nil {
			m.ReadResponse.LedgerId = proto.Int64(9)
		}
		if m.AddResponse != nil {
			m.AddResponse.LedgerId = proto.Int64(9)
		}
	},
	"another entry": func(m *bkpb.Response) {
		if m.ReadResponse != nil {
			m.ReadResponse.EntryId = proto.Int64(m.ReadResponse.GetEntryId() + 5)
		}
		if m.AddResponse != nil {
			m.AddResponse.EntryId = proto.Int64(m.AddResponse.GetEntryId() + 5)
		}
	},
	"no message": func(m *bkpb.Response) {
		m.ReadResponse, m.AddResponse = nil, nil
		m.Status = bkpb.StatusCode_EOK.Enum()
	},
	"another transaction": func(m *bkpb.Response) { m.Header.TxnId = proto.Uint64(m.Header.GetTxnId() + 1000) },
	"another operation":   func(m *bkpb.Response) { m.Header.Operation = bkpb.OperationType_FORCE_LEDGER.Enum() },
	"version 1 header":    func(m *bkpb.Response) { m.Header.Version = bkpb.ProtocolVersion(7).Enum() },
}

// What is about something else proves neither that an entry is missing nor that
// it was heard or stored: a recovery that has too few others fails, the ledger
// stays as it is, and the next one finds everything.
func TestRule32And35_LiesProveNothing(t *testing.T) {
	for name, lie := range liesV3 {
		for _, liars := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", name, liars), func(t *testing.T) {
				inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
					wr := w.create(3, 3, 2)
					w.append(wr, 4)
					synctest.Wait()
					require.NoError(t, wr.Abort())
					ens := w.ensemble(wr.ID())
					for _, b := range ens[:liars] {
						b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
							if !r.V3 {
								return fakebookie.Pass()
							}
							return fakebookie.Forge(func(f []byte) []byte { return remade(bytes.Clone(f), lie) })
						})
					}
					r, err := w.client(ledger.Options{}).Open(w.ctx, wr.ID(), ledger.Recover)
					if liars == 1 {
						require.NoError(t, err)
						require.Equal(t, bk.EntryID(3), r.LAC())
						w.readAll(r, 3)
						return
					}
					require.ErrorIs(t, err, bk.ErrRecoveryFailed)
					require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
					for _, b := range ens {
						b.SetHook(nil)
					}
					r = w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
					require.Equal(t, bk.EntryID(3), r.LAC())
					w.readAll(r, 3)
				})
			})
		}
	}
}

// "No such entry" about another ledger, or another entry, is not the "missing"
// that ends a ledger.
func TestRule35_MissingOfSomethingElseIsNotMissing(t *testing.T) {
	for _, field := range []string{"ledger", "entry"} {
		inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
			wr := w.create(3, 3, 2)
			w.append(wr, 4)
			synctest.Wait()
			require.NoError(t, wr.Abort())
			ens := w.ensemble(wr.ID())
			for i, b := range ens {
				b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
					switch {
					case r.Op != wire.OpRead || r.Entry != 3:
						return fakebookie.Pass()
					case i == 2:
						return fakebookie.Late(time.Second) // the only true copy comes last
					}
					return fakebookie.Forge(func(f []byte) []byte {
						return remade(f, func(m *bkpb.Response) {
							m.Status, m.ReadResponse.Status = bkpb.StatusCode_ENOENTRY.Enum(), bkpb.StatusCode_ENOENTRY.Enum()
							m.ReadResponse.Body = nil
							if field == "ledger" {
								m.ReadResponse.LedgerId = proto.Int64(77)
							} else {
								m.ReadResponse.EntryId = proto.Int64(4)
							}
						})
					})
				})
			}
			r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
			require.Equal(t, bk.EntryID(3), r.LAC(), "an acknowledged entry was cut off")
			w.readAll(r, 3)
		})
	}
}

// A long poll that brings another entry than the next one, or a damaged one,
// brings nothing.
func TestRule29_LiesOfALongPoll(t *testing.T) {
	for name, lie := range map[string]func(m *bkpb.Response){
		"another entry":  func(m *bkpb.Response) { m.ReadResponse.EntryId = proto.Int64(m.ReadResponse.GetEntryId() + 1) },
		"another ledger": func(m *bkpb.Response) { m.ReadResponse.LedgerId = proto.Int64(1) },
		"no message":     func(m *bkpb.Response) { m.ReadResponse = nil },
		"damage": func(m *bkpb.Response) {
			if n := len(m.ReadResponse.Body); n > 0 {
				m.ReadResponse.Body[n-1] ^= 1
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				wr := w.create(3, 3, 2)
				ens := w.ensemble(wr.ID())
				for _, b := range ens[:2] {
					b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if !r.LongPoll {
							return fakebookie.Pass()
						}
						return fakebookie.ForgePoll(func(f []byte) []byte { return remade(f, lie) })
					})
				}
				r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
				w.append(wr, 1)
				for e := range bk.EntryID(20) {
					w.append(wr, 1)
					ent, err := r.ReadNext(w.ctx, e-1)
					require.NoError(t, err)
					require.Equal(t, e, ent.ID)
					require.Equal(t, string(payload(e)), string(ent.Payload))
					require.LessOrEqual(t, r.LAC(), wr.LAC())
				}
			})
		})
	}
}
