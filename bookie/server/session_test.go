package server_test

import (
	"encoding/hex"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
)

// sessionFrame is a frame between a Java client and a bookie, both 4.17.2.
type sessionFrame struct {
	Conn     int    `json:"conn"`
	Dir      string `json:"dir"`
	FrameHex string `json:"frameHex"`
	Note     string `json:"note"`
}

// play sends the client's frames, each once the one before has come to rest,
// and requires that the answers are those of the session: each once, in any
// order, for that is free. It runs in a synctest bubble.
func play(t *testing.T, r *rig, conns map[int]*client, frames []sessionFrame) {
	t.Helper()
	require.NotEmpty(t, frames)
	var got, want []string
	for i, f := range frames {
		c := conns[f.Conn]
		if c == nil {
			c = r.dial()
			conns[f.Conn] = c
		}
		if f.Dir == "C->S" {
			c.send(unhex(t, f.FrameHex))
			synctest.Wait()
			continue
		}
		answer := c.frame()
		require.NotNil(t, answer, "frame %d: connection closed", i)
		got, want = append(got, canonical(t, answer)), append(want, canonical(t, unhex(t, f.FrameHex)))
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}

// canonical is the hex of a frame without the one field that is a time of day.
func canonical(t *testing.T, frame []byte) string {
	if wire.IsV3(frame[wire.LengthSize:]) {
		m, err := wire.DecodeResponseV3(frame[wire.LengthSize:])
		require.NoError(t, err)
		if m.ReadResponse != nil && m.ReadResponse.LacUpdateTimestamp != nil {
			m.ReadResponse.LacUpdateTimestamp = proto.Int64(1)
			frame, err = wire.AppendV3(nil, m)
			require.NoError(t, err)
		}
	}
	return hex.EncodeToString(frame)
}

func TestGoldenSessions(t *testing.T) { synctest.Test(t, goldenSessions) }

func goldenSessions(t *testing.T) {
	for _, name := range []string{"session_v2.json", "session_v3.json"} {
		var s struct {
			Frames []sessionFrame `json:"frames"`
		}
		readJSON(t, name, &s)
		play(t, newRig(t, server.Options{}), map[int]*client{}, s.Frames)
	}
}

// session_more: recovery in both versions, an add of the fenced writer, long
// polls, READ_LAC, deferred sync with force, WRITE_LAC, batch read. The file
// leaves out the adds that filled the ledgers of the later parts; they are
// made here from the answers that show them.
func TestGoldenSessionMore(t *testing.T) { synctest.Test(t, goldenSessionMore) }

func goldenSessionMore(t *testing.T) {
	var s struct {
		WriterFrames            []sessionFrame `json:"writerFrames"`
		RecoveryFrames          []sessionFrame `json:"recoveryFrames"`
		FencedAddFrames         []sessionFrame `json:"fencedAddFrames"`
		V2RecoveryFrames        []sessionFrame `json:"v2RecoveryFrames"`
		LongPollTimeoutFrames   []sessionFrame `json:"longPollTimeoutFrames"`
		LongPollWokenFrames     []sessionFrame `json:"longPollWokenFrames"`
		ReadLacFrames           []sessionFrame `json:"readLacFrames"`
		DeferredSyncForceFrames []sessionFrame `json:"deferredSyncForceFrames"`
		ExplicitLacFrames       []sessionFrame `json:"explicitLacFrames"`
		BatchReadV2             struct {
			Frames []sessionFrame `json:"frames"`
		} `json:"batchReadV2"`
	}
	readJSON(t, "session_more.json", &s)
	var v2 struct {
		Frames []sessionFrame `json:"frames"`
	}
	readJSON(t, "session_v2.json", &v2)
	r, conns := newRig(t, server.Options{}), map[int]*client{}
	play(t, r, conns, s.WriterFrames)
	play(t, r, conns, s.RecoveryFrames)
	play(t, r, conns, s.FencedAddFrames)
	c := r.dial()
	c.addBody(unhex(t, "00000000000000030000000000000000ffffffffffffffff00000000000000010b145df361"))
	play(t, r, conns, s.V2RecoveryFrames)
	c.addBody(testDigest.AppendEntry(nil, 4, 0, -1, 2, []byte("e0")))
	c.addBody(unhex(t, "00000000000000040000000000000001000000000000000000000000000000049cf57b246531"))
	play(t, r, conns, s.LongPollTimeoutFrames)
	play(t, r, conns, s.LongPollWokenFrames)
	play(t, r, conns, s.ReadLacFrames)
	play(t, r, conns, s.DeferredSyncForceFrames)
	play(t, r, conns, s.ExplicitLacFrames)
	play(t, r, map[int]*client{}, v2.Frames)
	play(t, r, conns, s.BatchReadV2.Frames)
}

func (c *client) addBody(body []byte) {
	c.t.Helper()
	require.Zero(c.t, c.askV2(append(wire.AppendAddRequest(nil, 0, &testKey, len(body)), body...)).Code)
}
