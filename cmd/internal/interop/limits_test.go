//go:build interop

package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// frameMax is the largest frame that bookies take, its length included.
const frameMax = 5 << 20

// What a frame of an add has beside the payload, with the digest CRC32C. Version
// 3 has the request's number in it, of one to five bytes.
const (
	addOverheadV2    = 4 + 4 + 20 + 32 + 4
	addOverheadV3Min = 80
	addOverheadV3Max = 110
)

// testLimit (R28): an entry up to the limit is written, read by everybody and
// recovered; one above it is not, and what follows is written.
func testLimit(t *testing.T, x *cell) {
	s := spec{e: 1, w: 1, a: 1, digest: "CRC32C", password: ""}
	var ourMax int
	x.w.client(t, ours, x.on).call(t, "maxPayload", map[string]any{"digest": s.digest}, &ourMax)
	fits := []int{ourMax - 64, ourMax - 32, ourMax - 2, ourMax - 1, ourMax}
	var tooLong []int
	switch x.client {
	case ours:
		for n := ourMax + 1; n <= ourMax+64; n++ {
			tooLong = append(tooLong, n)
		}
		tooLong = append(tooLong, frameMax, frameMax+1)
	case javaV2:
		fits = append(fits, frameMax-addOverheadV2-1, frameMax-addOverheadV2)
		tooLong = []int{frameMax - addOverheadV2 + 1, frameMax + 1}
	case javaV3:
		fits = append(fits, frameMax-addOverheadV3Max)
		tooLong = []int{frameMax - addOverheadV3Min, frameMax + 1}
	}
	closed, open := x.c.create(t, s), x.c.create(t, s)
	for _, h := range []*handle{closed, open} {
		for i, n := range fits {
			h.append(t, h.ledger, int64(i), n)
		}
	}
	closed.close(t)
	x.both(t, func(t *testing.T, c *client) {
		h := c.open(t, closed.ledger, s, false)
		for i, n := range fits {
			require.Equal(t, []entry{wantEntry(h.ledger, int64(i), n)}, h.read(t, int64(i), int64(i)))
		}
	})
	r := x.other.open(t, open.ledger, s, true) // writes the last one back
	last := int64(len(fits) - 1)
	require.Equal(t, last, r.opened.LAC)
	require.Equal(t, []entry{wantEntry(open.ledger, last, fits[last])}, r.read(t, last, last))
	x.refuse(t, s, tooLong)
}

// refuse appends what is too long, and then one byte. Our client refuses it by
// itself and goes on with the ledger. Java's sends it to one bookie after the
// other, each of which closes the connection, for ever, also when the client is
// closed: that must harm nobody else. Its process is killed at the end.
func (x *cell) refuse(t *testing.T, s spec, tooLong []int) {
	t.Helper()
	h := x.c.create(t, s)
	acked := make(chan int, len(tooLong))
	d := x.c.d
	if x.client != ours {
		d = x.w.newDriver(t, t, x.client)
		defer d.kill()
	}
	for _, n := range tooLong {
		args := map[string]any{"seed": h.ledger, "index": 0, "sizes": []int{n}}
		if x.client == ours {
			err := h.try(t, "append", args, nil)
			require.Equal(t, codeTooLong, code(err), "%d bytes: %v", n, err)
			continue
		}
		bad := newClient(t, t, d, x.client, x.c.uri, nil).create(t, s)
		go func() {
			if bad.try(t, "append", args, nil) == nil {
				acked <- n
			}
		}()
	}
	h.append(t, h.ledger, 0, 1)
	h.close(t)
	x.other.open(t, h.ledger, s, false).expect(t, h.ledger, 1)
	require.Empty(t, acked, "entries too long for a frame were acknowledged")
}
