package server_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// behaviour is one request sent to bookies of Apache 4.17.2 and their answer.
type behaviour struct {
	Name        string `json:"name"`
	Storage     string `json:"storage"`
	Protocol    string `json:"protocol"`
	RequestHex  string `json:"requestHex"`
	Response    any    `json:"response"`
	ResponseHex string `json:"responseHex"`
}

// Answers of ours that differ from every one of Apache's, and why they may.
var behaviourExceptions = map[string]string{
	"one connection: v3 read after v2": "each frame is judged by its first byte: a superset",
}

func (b behaviour) closes() bool {
	s, ok := b.Response.(string)
	return ok && strings.Contains(s, "closed")
}

func (b behaviour) silent() bool {
	s, ok := b.Response.(string)
	return ok && strings.Contains(s, "none within")
}

// request gives the frame, which the file leaves out where it is very large.
func (b behaviour) request(t *testing.T) []byte {
	var n int
	if _, err := fmt.Sscanf(b.RequestHex, "(%d bytes)", &n); err != nil {
		return unhex(t, b.RequestHex)
	}
	frame := addFrame(30, 0, make([]byte, n-wire.AddRequestOverhead-testDigest.Overhead()))
	require.Len(t, frame, n)
	return frame
}

// Each request of a real session gets the answer that a real bookie gave, byte
// for byte. Where the two stores of Apache differ, either will do; where one of
// them does not answer at all, the other decides.
func TestGoldenBehaviours(t *testing.T) {
	var all []behaviour
	readJSON(t, "bookie_behaviours.json", &all)
	writable, readOnly := newRig(t, server.Options{}), newRig(t, server.Options{})
	i := slices.IndexFunc(all, func(b behaviour) bool { return strings.Contains(b.Storage, "read-only") })
	// The bookies of the file had served a ledger 0 before.
	require.Equal(t, bk.StatusOK, writable.dial().askV2(addFrame(0, 1, nil)).Status)
	playBehaviours(t, writable, all[:i])
	readOnly.b.SetReadOnly(true)
	playBehaviours(t, readOnly, all[i:])
}

func playBehaviours(t *testing.T, r *rig, all []behaviour) {
	c := r.dial()
	for i := 0; i < len(all); i++ {
		b := all[i]
		accepted := []behaviour{b}
		// The same request of the other store, under another transaction id.
		for i+1 < len(all) && all[i+1].Name == b.Name && strings.HasPrefix(b.Storage, "Sorted") && all[i+1].Storage == "DbLedgerStorage" {
			i++
			accepted = append(accepted, all[i])
		}
		if behaviourExceptions[b.Name] != "" {
			continue
		}
		if b.closes() {
			d := r.dial()
			d.send(b.request(t)[:min(len(b.request(t)), 300)])
			d.closed()
			continue
		}
		var got string
		for _, a := range accepted {
			if !a.silent() {
				got = hex.EncodeToString(c.ask(a.request(t)))
				if masked(t, a, got) {
					got = ""
					break
				}
			}
		}
		if got != "" {
			t.Errorf("%s:\n got %s\nwant %s", b.Name, got, b.ResponseHex)
		}
	}
}

// masked compares an answer with the golden one, but for what depends on the
// machine.
func masked(t *testing.T, b behaviour, got string) bool {
	if got == b.ResponseHex {
		return true
	}
	if !strings.HasPrefix(b.Name, "get-bookie-info") {
		return false
	}
	mask := func(s string) *bkpb.Response {
		m, err := wire.DecodeResponseV3(unhex(t, s)[wire.LengthSize:])
		require.NoError(t, err)
		for _, p := range []*int64{m.GetBookieInfoResponse.TotalDiskCapacity, m.GetBookieInfoResponse.FreeDiskSpace} {
			if p != nil {
				*p = 1
			}
		}
		return m
	}
	return mask(got).String() == mask(b.ResponseHex).String()
}

func TestV3AfterV2IsAnswered(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, []byte("x"))).Status)
	answer := c.ask(unhex(t, "0000000f0a06080310011854a2060408011000"))
	m, err := wire.DecodeResponseV3(answer[wire.LengthSize:])
	require.NoError(t, err)
	require.Equal(t, bkpb.StatusCode_EOK, m.GetStatus())
	require.Equal(t, bk.StatusOK, c.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil)).Status)
}
