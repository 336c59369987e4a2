package conn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loglode/loglode/bookie/bk"
)

// The ring against a map of entry to send time.
func TestRingAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring
		model := map[bk.EntryID]time.Duration{}
		next, now := bk.EntryID(0), time.Duration(0)
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				next += bk.EntryID(rapid.IntRange(0, 3).Draw(t, "gap"))
				now += time.Duration(rapid.IntRange(0, 30).Draw(t, "ms")) * time.Millisecond
				require.True(t, r.sent(next, now))
				model[next] = now
				require.False(t, r.sent(next, now), "an id is sent once")
				next++
			},
			"answer": func(t *rapid.T) {
				e := bk.EntryID(rapid.Int64Range(-1, int64(next)+2).Draw(t, "entry"))
				_, waits := model[e]
				require.Equal(t, waits, r.answered(e))
				delete(model, e)
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), r.waiting)
				e, at, ok := r.oldest()
				require.Equal(t, len(model) > 0, ok)
				for m, sent := range model {
					require.LessOrEqual(t, e, m)
					if m == e {
						require.LessOrEqual(t, at, sent, "never later than sent")
						require.Less(t, sent-at, markEvery, "off by less than a mark")
					}
				}
			},
		})
	})
}
