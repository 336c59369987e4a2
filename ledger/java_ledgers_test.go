package ledger_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata/layout"
)

// javaEntry is one entry as the Java client wrote it.
type javaEntry struct {
	Name               string
	DigestType         string
	LedgerID           bk.LedgerID
	EntryID            bk.EntryID
	LAC                bk.EntryID
	Length             int64
	PasswordUTF8       string
	PayloadHex         string
	BodyHex            string
	ExplicitLACBodyHex string
}

var javaDigests = map[string]bk.DigestType{
	"CRC32": bk.DigestCRC32, "CRC32C": bk.DigestCRC32C, "HMAC": bk.DigestHMAC, "DUMMY": bk.DigestDummy,
}

func javaEntries(t *testing.T) []javaEntry {
	text, err := os.ReadFile("testdata/entry_bodies.json")
	require.NoError(t, err)
	var out []javaEntry
	require.NoError(t, json.Unmarshal(text, &out))
	require.Len(t, out, 24)
	return out
}

// unhex decodes a vector.
func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// store makes the ledger of a Java entry on three bookies: the entry, and those
// between its LAC and it.
func (j *javaEntry) store(w *world, format int, state layout.State) {
	m := &layout.LedgerMetadata{
		FormatVersion: format, Quorum: bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}, State: state, LastEntry: bk.InvalidEntryID,
		HasPassword: true, Digest: javaDigests[j.DigestType], Password: []byte(j.PasswordUTF8),
		Segments: []layout.Segment{{First: 0}},
	}
	if format == 1 { // neither is in it, and the ack quorum is the write quorum
		m.HasPassword, m.Digest, m.Password, m.Quorum.Ack = false, 0, nil, 3
	}
	if state == layout.StateClosed {
		m.LastEntry, m.Length = j.EntryID, j.Length
	}
	d, err := bk.NewDigester(javaDigests[j.DigestType], []byte(j.PasswordUTF8))
	require.NoError(w, err)
	key := bk.MasterKey([]byte(j.PasswordUTF8))
	for _, b := range w.Bookies {
		m.Segments[0].Ensemble = append(m.Segments[0].Ensemble, b.ID)
		for e := j.LAC + 1; e < j.EntryID; e++ {
			b.Put(j.LedgerID, key[:], d.AppendEntry(nil, j.LedgerID, e, j.LAC, j.Length-int64(len(j.PayloadHex)/2), nil))
		}
		b.Put(j.LedgerID, key[:], unhex(w.T, j.BodyHex))
	}
	_, err = w.Layout.CreateLedger(w.ctx, j.LedgerID, m)
	require.NoError(w, err)
}

// options are what a reader must give that the metadata do not.
func (j *javaEntry) options(format int) []ledger.OpenOption {
	if format > 1 {
		return nil
	}
	return []ledger.OpenOption{
		ledger.WithOpenPassword([]byte(j.PasswordUTF8)), ledger.WithOpenDigest(javaDigests[j.DigestType]),
	}
}

// Ledgers of the Java client, of every digest type and metadata format, closed,
// open and with a dead writer.
func TestJavaLedgers(t *testing.T) {
	for _, j := range javaEntries(t) {
		for format := 1; format <= 3; format++ {
			t.Run(fmt.Sprintf("%s/v%d", j.Name, format), func(t *testing.T) {
				t.Run("closed", func(t *testing.T) {
					inWorld(t, 3, ledger.Options{}, func(w *world) { j.closed(w, format) })
				})
				t.Run("open", func(t *testing.T) {
					inWorld(t, 3, ledger.Options{}, func(w *world) { j.open(w, format) })
				})
				t.Run("recovered", func(t *testing.T) {
					inWorld(t, 3, ledger.Options{}, func(w *world) { j.recovered(w, format) })
				})
			})
		}
	}
}

func (j *javaEntry) closed(w *world, format int) {
	j.store(w, format, layout.StateClosed)
	r, err := w.c.Open(w.ctx, j.LedgerID, ledger.NoRecovery, j.options(format)...)
	require.NoError(w, err)
	require.Equal(w, j.EntryID, r.LAC())
	ent, err := r.Read(w.ctx, j.EntryID)
	require.NoError(w, err)
	require.Equal(w, bk.Entry{
		Ledger: j.LedgerID, ID: j.EntryID, LAC: j.LAC, Length: j.Length, Payload: ent.Payload,
	}, ent)
	require.Equal(w, j.PayloadHex, hex.EncodeToString(ent.Payload))
	n := 0
	for ent, err := range r.Entries(w.ctx, j.LAC+1, j.EntryID) { // by a batch read
		require.NoError(w, err)
		n++
		if ent.ID == j.EntryID {
			require.Equal(w, j.PayloadHex, hex.EncodeToString(ent.Payload))
		}
	}
	require.Equal(w, int(j.EntryID-j.LAC), n)
}

func (j *javaEntry) open(w *world, format int) {
	j.store(w, format, layout.StateOpen)
	r, err := w.c.Open(w.ctx, j.LedgerID, ledger.NoRecovery, j.options(format)...)
	require.NoError(w, err)
	require.Equal(w, j.LAC, r.LAC())
	require.Equal(w, j.Length, r.Length())
	ent, err := r.ReadUnconfirmed(w.ctx, j.EntryID)
	require.NoError(w, err)
	require.Equal(w, j.PayloadHex, hex.EncodeToString(ent.Payload))

	// Another Java writer, idle, tells the LAC by itself.
	key := bk.MasterKey([]byte(j.PasswordUTF8))
	for _, b := range w.Bookies {
		b.PutLAC(j.LedgerID, key[:], unhex(w.T, j.ExplicitLACBodyHex))
	}
	lac, err := r.ReadLAC(w.ctx)
	require.NoError(w, err)
	require.Equal(w, j.LAC, lac)
}

func (j *javaEntry) recovered(w *world, format int) {
	j.store(w, format, layout.StateOpen)
	r, err := w.c.Open(w.ctx, j.LedgerID, ledger.Recover, j.options(format)...)
	require.NoError(w, err)
	require.True(w, r.Closed())
	require.Equal(w, j.EntryID, r.LAC())
	require.Equal(w, j.Length, r.Length())
	synctest.Wait()
	d, err := bk.NewDigester(javaDigests[j.DigestType], []byte(j.PasswordUTF8))
	require.NoError(w, err)
	for _, b := range w.Bookies {
		ent, err := d.Verify(b.Entry(j.LedgerID, j.EntryID), j.LedgerID, j.EntryID)
		require.NoError(w, err)
		require.Equal(w, j.Length, ent.Length)
		require.Equal(w, j.PayloadHex, hex.EncodeToString(ent.Payload))
	}
	m, err := w.c.Metadata(w.ctx, j.LedgerID)
	require.NoError(w, err)
	require.Equal(w, layout.StateClosed, m.State)
	require.Equal(w, format, m.FormatVersion, "written in the format it was found in")
}

// A wrong password of a ledger whose metadata know it is refused without asking
// anyone. Of one whose metadata do not: reading needs none, unless the digest is
// made with it; recovering does, and leaves the ledger as it was for the next.
func TestWrongPasswordIsUnauthorized(t *testing.T) {
	for _, j := range javaEntries(t) {
		if j.PasswordUTF8 == "" || j.Name[:3] == "big" {
			continue
		}
		wrong := ledger.WithOpenPassword([]byte(j.PasswordUTF8 + "x"))
		t.Run(j.Name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				j.store(w, 3, layout.StateOpen)
				for _, mode := range []ledger.OpenMode{ledger.NoRecovery, ledger.Recover} {
					_, err := w.c.Open(w.ctx, j.LedgerID, mode, wrong)
					require.ErrorIs(t, err, bk.ErrUnauthorized)
				}
				for _, b := range w.Bookies {
					require.Empty(t, b.Seen())
				}
			})
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				j.store(w, 1, layout.StateOpen)
				digest := ledger.WithOpenDigest(javaDigests[j.DigestType])
				_, err := w.c.Open(w.ctx, j.LedgerID, ledger.Recover, wrong, digest)
				require.ErrorIs(t, err, bk.ErrUnauthorized)
				require.ErrorIs(t, err, bk.ErrRecoveryFailed)
				for _, b := range w.Bookies {
					require.False(t, b.Fenced(j.LedgerID))
				}
				_, err = w.c.Open(w.ctx, j.LedgerID, ledger.NoRecovery, wrong, digest)
				if j.DigestType == "HMAC" {
					require.ErrorIs(t, err, bk.ErrCorrupt)
				} else {
					require.NoError(t, err)
				}
				w.update(j.LedgerID, func(m *layout.LedgerMetadata) { m.State = layout.StateOpen })
				r, err := w.c.Open(w.ctx, j.LedgerID, ledger.Recover, j.options(1)...)
				require.NoError(t, err)
				require.Equal(t, j.EntryID, r.LAC())
			})
		})
	}
}

// Entries that do not have the digest that the metadata, or the caller, say they
// have are damaged copies; nothing is read from them, and no ledger is closed
// for them.
func TestWrongDigestTypeIsCorrupt(t *testing.T) {
	for _, j := range javaEntries(t) {
		for name, typ := range javaDigests {
			if name == j.DigestType || j.Name[:8] != "password" || name == "DUMMY" {
				continue // a ledger without digests takes all
			}
			t.Run(j.Name+" as "+name, func(t *testing.T) {
				inWorld(t, 3, ledger.Options{}, func(w *world) {
					j.store(w, 1, layout.StateOpen)
					opts := []ledger.OpenOption{ledger.WithOpenPassword([]byte(j.PasswordUTF8)), ledger.WithOpenDigest(typ)}
					for _, mode := range []ledger.OpenMode{ledger.NoRecovery, ledger.Recover} {
						_, err := w.c.Open(w.ctx, j.LedgerID, mode, opts...)
						require.ErrorIs(t, err, bk.ErrCorrupt)
						require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
					}
				})
				inWorld(t, 3, ledger.Options{}, func(w *world) {
					j.store(w, 3, layout.StateClosed)
					w.update(j.LedgerID, func(m *layout.LedgerMetadata) { m.Digest = typ })
					r := w.open(w.c, j.LedgerID, ledger.NoRecovery)
					_, err := r.Read(w.ctx, j.EntryID)
					require.ErrorIs(t, err, bk.ErrCorrupt)
					for _, err := range r.Entries(w.ctx, j.EntryID, j.EntryID) {
						require.ErrorIs(t, err, bk.ErrCorrupt)
					}
				})
			})
		}
	}
	_, err := bk.NewDigester(9, nil)
	require.ErrorIs(t, err, bk.ErrInvalidDigest)
}

// The LAC of a bookie that has the explicit one alone comes with an EIO (a quirk
// of Java bookies), and counts.
func TestRule26_ExplicitLACWithAnIOError(t *testing.T) {
	for _, j := range javaEntries(t) {
		inWorld(t, 3, ledger.Options{}, func(w *world) {
			j.store(w, 3, layout.StateOpen)
			key := bk.MasterKey([]byte(j.PasswordUTF8))
			for _, b := range w.Bookies {
				b.Remove(j.LedgerID, j.EntryID)
				b.PutLAC(j.LedgerID, key[:], unhex(w.T, j.ExplicitLACBodyHex))
				b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
					if r.Op == wire.OpReadLAC {
						return fakebookie.Forge(withoutEntry)
					}
					return fakebookie.Pass()
				})
			}
			require.Equal(t, j.LAC, w.open(w.c, j.LedgerID, ledger.NoRecovery).LAC(), j.Name)
		})
	}
}

// withoutEntry makes the answer to a version 3 read of the LAC what a Java bookie
// says that has no entry of the ledger.
func withoutEntry(frame []byte) []byte {
	return remade(frame, func(m *bkpb.Response) {
		m.Status, m.ReadLacResponse.Status = bkpb.StatusCode_EIO.Enum(), bkpb.StatusCode_EIO.Enum()
		m.ReadLacResponse.LastEntryBody = nil
	})
}
