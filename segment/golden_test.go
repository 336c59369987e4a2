package segment

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

type goldenNode struct {
	Path, Text, Hex string
	Ephemeral       bool
}

func (n goldenNode) value(t *testing.T) string {
	if n.Text != "" || n.Hex == "" {
		return n.Text
	}
	b, err := hex.DecodeString(n.Hex)
	require.NoError(t, err)
	return string(b)
}

type goldenStep struct {
	Step    string
	Nodes   []goldenNode `json:"znodes"`
	Ledgers []struct {
		LedgerID int64 `json:"ledgerId"`
		State    string
		Entries  []struct {
			PayloadHex string `json:"payload_hex"`
		}
	}
}

var (
	session    = regexp.MustCompile(`_s +\d+_|_s\d+_`)
	completion = regexp.MustCompile(`^(\d+;\d+;\d+;\d+;)\d{13}(;.*)$`)
)

// blur takes out what differs from run to run: session ids and completion
// times.
func blur(nodes map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range nodes {
		out[session.ReplaceAllString(k, "_s*_")] = completion.ReplaceAllString(v, "$1*$2")
	}
	return out
}

// requireTree compares the namespace with the nodes of a golden step.
func (w *world) requireTree(want []goldenNode, step string) {
	w.t.Helper()
	nodes := map[string]string{}
	for _, n := range want {
		if n.Path != namespacePath {
			nodes[strings.TrimPrefix(n.Path, namespacePath+"/")] = n.value(w.t.(*testing.T))
		}
	}
	require.Equal(w.t, blur(nodes), blur(w.dump(namespacePath)), step)
}

// requireLedgers compares every entry of every ledger with a golden step.
func (w *world) requireLedgers(s goldenStep) {
	w.t.Helper()
	for _, l := range s.Ledgers {
		got := w.ledgers.get(bk.LedgerID(l.LedgerID))
		require.NotNil(w.t, got, s.Step)
		require.Equal(w.t, l.State == "CLOSED", got.closed, s.Step)
		require.Len(w.t, got.entries, len(l.Entries), s.Step)
		for i, e := range l.Entries {
			require.Equal(w.t, e.PayloadHex, hex.EncodeToString(got.entries[i]), "%s: ledger %d entry %d", s.Step, l.LedgerID, i)
		}
	}
}

// TestStreamLifecycleGolden does what the Java library did to one stream and
// finds the same nodes, texts and entries after each step.
func TestStreamLifecycleGolden(t *testing.T) {
	var v struct {
		ClientID string `json:"client_id"`
		Steps    []goldenStep
	}
	load(t, "stream_lifecycle.json", &v)
	w := newWorld(t)
	ctx := t.Context()
	at := 0
	check := func() {
		t.Helper()
		w.requireTree(v.Steps[at].Nodes, v.Steps[at].Step)
		w.requireLedgers(v.Steps[at])
		at++
	}
	check()
	s := w.create("vec-1")
	check()

	sess, err := w.store.Session(ctx, metadata.SessionOptions{})
	require.NoError(t, err)
	lock, err := s.Lock(ctx, sess, v.ClientID, 0)
	require.NoError(t, err)
	c := claim(t, s)
	check()

	// Output buffer 0 and immediate flush: a control record after each record.
	user := func(w *Writer, txid stream.TxID, payload string) {
		mustPut(t, w, rec{txid: txid, payload: payload})
		mustPut(t, w, rec{txid: txid, control: true})
	}
	payload := func(txid stream.TxID) string { return fmt.Sprintf("record-%d", txid-1000) }
	w1 := start(t, c, 1001)
	for txid := stream.TxID(1001); txid <= 1010; txid++ {
		user(w1, txid, payload(txid))
	}
	check()

	user(w1, 1011, payload(1011))
	w2 := start(t, c, 1011)
	mustPut(t, w1, rec{txid: 1011, control: true}) // flush and commit
	info, err := c.Complete(ctx, w1)
	require.NoError(t, err)
	require.Equal(t, int64(11), info.Records)
	mustPut(t, w2, rec{txid: 1011, control: true}) // nothing was queued
	check()

	user(w2, 1012, payload(1012))
	user(w2, 1013, payload(1013))
	check()

	mustPut(t, w2, rec{txid: 1013, control: true})
	_, err = c.Complete(ctx, w2)
	require.NoError(t, err)
	require.NoError(t, lock.Release(ctx))
	check()

	lock, err = s.Lock(ctx, sess, v.ClientID, 0)
	require.NoError(t, err)
	c = claim(t, s)
	require.Equal(t, stream.TxID(1013), c.LastTxID())
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 1, Entry: 6}))
	check()
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 2, Entry: 1}))
	check()
	require.NoError(t, lock.Release(ctx))
	check()
	require.NoError(t, s.Delete(ctx))
	check()
	require.Equal(t, len(v.Steps), at)
	require.Empty(t, w.ledgers.ids())
}

// ledgerWith makes a ledger with entries of its own, of a segment that was
// written by somebody else.
func (w *world) ledgerWith(closed bool, entries ...[]rec) bk.LedgerID {
	w.t.Helper()
	id, lw, err := w.ledgers.create(w.t.Context(), bk.Quorum(one), nil)
	require.NoError(w.t, err)
	sw := newWriter(&Claim{s: w.stream("x")}, Info{Ledger: id}, lw)
	for _, e := range entries {
		mustPut(w.t, sw, e...)
	}
	w.ledgers.get(id).closed = closed
	return id
}

// TestForeignStreamGolden: a stream that was made by hand, with a control
// record between user records and one segment in progress, is read, recovered
// and continued as the Java library did.
func TestForeignStreamGolden(t *testing.T) {
	var v struct {
		Made      []goldenNode `json:"made_by_hand"`
		Recovered []goldenNode `json:"after_java_recovery"`
		Closed    []goldenNode `json:"after_java_close"`
	}
	load(t, "foreign_stream.json", &v)
	w := newWorld(t)
	ctx := t.Context()
	for _, n := range v.Made {
		_, err := w.store.Txn(ctx, metadata.Create(n.Path, []byte(n.value(t))))
		require.NoError(t, err)
	}
	w.ledgerWith(true, []rec{{txid: 10, payload: "one"}, {txid: 10, control: true}, {txid: 11, payload: "two"}}, []rec{{txid: 12, payload: "three"}})
	w.ledgerWith(false, []rec{{txid: 13, payload: "four"}, {txid: 14, payload: "five"}}, []rec{{txid: 14, control: true}})
	s := w.stream("foreign")
	require.Equal(t, []string{"1:0:0 10 one", "1:0:2 11 two", "1:1:0 12 three", "2:0:0 13 four", "2:0:1 14 five"}, records(t, s))
	n, err := s.Count(ctx, stream.InitialDLSN)
	require.NoError(t, err)
	require.Equal(t, int64(5), n)
	for txid, want := range map[stream.TxID]stream.DLSN{11: {Segment: 1, Slot: 2}, 14: {Segment: 2, Slot: 1}} {
		d, err := s.FindTxID(ctx, txid)
		require.NoError(t, err)
		require.Equal(t, want, d)
	}

	sess, err := w.store.Session(ctx, metadata.SessionOptions{})
	require.NoError(t, err)
	lock, err := s.Lock(ctx, sess, "client-a", 0)
	require.NoError(t, err)
	c := claim(t, s)
	require.Equal(t, stream.TxID(14), c.LastTxID())
	w.requireTree(v.Recovered, "recovered")

	sw := start(t, c, 15)
	deleted, err := s.Purge(ctx, 72*time.Hour) // the first segment was completed long ago
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	require.Equal(t, int64(0), mustPut(t, sw, rec{txid: 15, payload: "six"}))
	info, err := c.Complete(ctx, sw)
	require.NoError(t, err)
	require.Equal(t, int64(5), info.StartSequence)
	require.NoError(t, lock.Release(ctx))
	w.requireTree(v.Closed, "closed")
	require.Equal(t, []string{"2:0:0 13 four", "2:0:1 14 five", "3:0:0 15 six"}, records(t, s))
}

// twoSegments is the stream of semantics_observed.json: txids 10 to 60
// completed, 70 and 80 in progress, a control record after each record.
func twoSegments(t *testing.T, w *world) *Stream {
	s := w.create("positions")
	c := claim(t, s)
	w1 := start(t, c, 10)
	for txid := stream.TxID(10); txid <= 60; txid += 10 {
		mustPut(t, w1, rec{txid: txid, payload: "x"})
		mustPut(t, w1, rec{txid: txid, control: true})
	}
	w2 := start(t, c, 60)
	_, err := c.Complete(t.Context(), w1)
	require.NoError(t, err)
	mustPut(t, w2, rec{txid: 60, control: true})
	for _, txid := range []stream.TxID{70, 80} {
		mustPut(t, w2, rec{txid: txid, payload: "x"})
		mustPut(t, w2, rec{txid: txid, control: true})
	}
	return s
}

// TestSemantics13PositionsByTxID: rules 9, 12 and 13 of the library's
// semantics, with the outcomes that the Java library gave.
func TestSemantics13PositionsByTxID(t *testing.T) {
	var all map[string]json.RawMessage
	load(t, "semantics_observed.json", &all)
	s := twoSegments(t, newWorld(t))
	seen := 0
	for key, raw := range all {
		if !strings.HasPrefix(key, "two segments") {
			continue
		}
		var v map[string]any
		require.NoError(t, json.Unmarshal(raw, &v))
		for call, want := range v {
			var txid stream.TxID
			if n, _ := fmt.Sscanf(call, "getDLSNNotLessThanTxId(%d)", &txid); n != 1 {
				continue
			}
			d, err := s.FindTxID(t.Context(), txid)
			require.NoError(t, err)
			require.Equal(t, want, javaText(d), "txid %d", txid)
			seen++
		}
		n, err := s.Count(t.Context(), stream.InitialDLSN)
		require.NoError(t, err)
		require.Equal(t, v["getLogRecordCount"], fmt.Sprint(n))
		first, err := s.First(t.Context())
		require.NoError(t, err)
		last, err := s.Last(t.Context())
		require.NoError(t, err)
		require.Equal(t, v["getFirstTxId/getLastTxId/getLastDLSN"], fmt.Sprintf("%d %d %s", first.TxID, last.TxID, javaText(last.DLSN)))
	}
	require.Greater(t, seen, 5)
}

func javaText(d stream.DLSN) string {
	return fmt.Sprintf("DLSN{logSegmentSequenceNo=%d, entryId=%d, slotId=%d}", d.Segment, d.Entry, d.Slot)
}
