package ledger_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata/layout"
)

// What the Java client 4.17.2 did against scripted bookies, replayed: scripted
// bookies do the same to this client, and the outcome must be the same. Where
// it is not, javaTraps says which rule the Java client breaks.

// observation is one scene of the file: a line that starts a scene, and those
// below it.
type observation struct {
	title string
	lines []string
}

func observations(t *testing.T) (statuses []string, scenes []observation) {
	text, err := os.ReadFile("testdata/java_client_observations.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "-- "):
			scenes = append(scenes, observation{title: line[3:]})
		case strings.HasPrefix(line, "v2 ") || strings.HasPrefix(line, "v3 "):
			statuses = append(statuses, line)
		case len(scenes) > 0 && strings.TrimSpace(line) != "":
			s := &scenes[len(scenes)-1]
			s.lines = append(s.lines, strings.TrimSpace(line))
		}
	}
	require.Len(t, statuses, 25)
	return statuses, scenes
}

// scenePatterns are the kinds of scenes of reads and recoveries; replay names
// what plays one.
var scenePatterns = []struct {
	pattern string
	replay  func(t *testing.T, o observation, m []string)
	count   int // in the file
}{
	{`^RECOVERY .*last-entry fence reads answer \[(.*)\]$`, replayRecovery, 11},
	{`^RECOVERY .*recovery reads of entry 2 answer by position \[(.*)\]$`, replayRecovery, 11},
	{`^RECOVERY .*recovery add of entry (\d) fails with EIO on position 1`, replayRecovery, 2},
	{`^RECOVERY .*recovery add of entry (\d): position 1 EIO at once, others slow`, replayRecovery, 2},
	{`^two recoveries at once: closed at (\d) .*\| closed at (\d) `, replayTwoRecoveries, 1},
	{`^un-acked entry 1 on one bookie, recovery closed at 1`, replayUnacked, 1},
	{`^E3 Qw2 Qa2 ensemble .*first bookie asked for entries 0,1,2`, replayFirstAsked, 1},
	{`^read entry 0, replicas answer \[(.*), (.*)\] -> (.*)$`, replayRead, 13},
	{`^opening a closed ledger: lac 5 len 12, bookie traffic: 0`, replayClosed, 1},
	{`^reading beyond the last entry of a closed ledger -> BKReadException\(-1\), traffic 0`, replayClosed, 1},
	{`^open with wrong password -> BKUnauthorizedAccessException\(-102\), traffic 0`, replayClosed, 1},
	{`^open with other digest type -> OK`, replayClosed, 1},
	{`^open deleted -> BKNoSuchLedgerExistsOnMetadataServerException\(-25\)`, replayClosed, 1},
	{`^E6 W2 A2, last-entry reads of positions (\d+) answer EIO -> (.*)$`, replaySix, 6},
	{`^E3 Qw3 Qa2: position 1 \(.*\) answers (\w+) from entry 1 on`, replayWriter, 5},
	{`^writer gets EIO from bookies after another client closed the ledger`, replayWriterOfClosed, 1},
	{`^writer close\(\)(?: with local last 0, store last 1)?(.*)$`, replayWriterClose, 3},
	{`^delete`, replayDelete, 2},
}

func TestJavaObservations(t *testing.T) {
	_, scenes := observations(t)
	counts := make([]int, len(scenePatterns))
	for i, o := range scenes {
		kind := -1
		for k, p := range scenePatterns {
			m := regexp.MustCompile(p.pattern).FindStringSubmatch(o.title)
			if m == nil {
				continue
			}
			kind = k
			counts[k]++
			t.Run(fmt.Sprintf("%d %s", i, o.title), func(t *testing.T) { p.replay(t, o, m) })
		}
		require.NotEqual(t, -1, kind, "nobody replays %q", o.title)
	}
	for k, p := range scenePatterns {
		require.Equal(t, p.count, counts[k], p.pattern)
	}
}

// javaErrors are the conditions that the Java client's codes stand for.
var javaErrors = map[string]error{
	"-1": bk.ErrBookieIO, "-5": bk.ErrCorrupt, "-6": bk.ErrNotEnoughBookies, "-7": bk.ErrNoSuchLedger,
	"-8": bk.ErrBookieUnavailable, "-10": bk.ErrRecoveryFailed, "-13": bk.ErrNoSuchEntry, "-16": bk.ErrBadVersion,
	"-23": bk.ErrTimeout, "-25": bk.ErrNoSuchLedger, "-101": bk.ErrFenced, "-102": bk.ErrUnauthorized,
	"-104": bk.ErrReadOnly, "-105": bk.ErrTooManyRequests, "-999": bk.ErrUnknownLedgerState,
}

// requireJava checks err against what the Java client told, "OK" or
// "SomeException(-n)".
func requireJava(t *testing.T, want string, err error, other ...error) {
	t.Helper()
	if strings.HasPrefix(want, "OK") || strings.HasPrefix(want, "closed") {
		require.NoError(t, err)
		return
	}
	code := regexp.MustCompile(`\((-\d+)\)`).FindStringSubmatch(want)
	require.NotNil(t, code, want)
	condition := javaErrors[code[1]]
	require.NotNil(t, condition, want)
	for _, o := range other {
		if errors.Is(err, o) {
			return
		}
	}
	require.ErrorIs(t, err, condition)
	if !errors.Is(condition, bk.ErrNoSuchEntry) && !errors.Is(condition, bk.ErrNoSuchLedger) {
		require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
		require.NotErrorIs(t, err, bk.ErrNoSuchLedger)
	}
}

// scripted gives what a word of a script does to a request.
func scripted(t *testing.T, word string) fakebookie.Verdict {
	if code, err := strconv.Atoi(word); err == nil {
		return fakebookie.Forge(withCode(uint32(code)))
	}
	for s := bk.StatusNoLedger; s <= bk.StatusUnknownLedgerState; s++ {
		if s.String() == word {
			return fakebookie.Refuse(s)
		}
	}
	switch word {
	case "null", "EOK":
		return fakebookie.Pass()
	case "DROP":
		return fakebookie.Silent()
	case "CORRUPT":
		return fakebookie.Corrupt()
	case "SLOW":
		return fakebookie.Late(200 * time.Millisecond)
	}
	require.Fail(t, "unknown word in a script", word)
	return fakebookie.Verdict{}
}

// withCode gives a version 2 answer another return code, and no body.
func withCode(code uint32) func([]byte) []byte {
	return func(frame []byte) []byte {
		frame = frame[:28]
		binary.BigEndian.PutUint32(frame, 24)
		binary.BigEndian.PutUint32(frame[8:], code)
		return frame
	}
}

// The statuses of one bookie, by itself: what a read of an entry makes of them,
// and an add.
func TestJavaObservedStatuses(t *testing.T) {
	statuses, _ := observations(t)
	for _, line := range statuses {
		m := regexp.MustCompile(`^(v\d) (\w+): read -> (\S+) .*; add -> (\S+) `).FindStringSubmatch(line)
		require.NotNil(t, m, line)
		t.Run(m[1]+" "+m[2], func(t *testing.T) {
			inWorld(t, 1, ledger.Options{}, func(w *world) {
				id := w.closedLedger(1, 1, 1, 1)
				wr := w.create(1, 1, 1)
				w.append(wr, 1)
				v := scripted(t, m[2])
				if m[1] == "v2" && m[2] == "EUNKNOWNLEDGERSTATE" {
					v = scripted(t, "107")
				}
				w.Bookies[0].SetHook(func(fakebookie.Request) fakebookie.Verdict { return v })
				_, err := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery).Read(w.ctx, 0)
				// What drops the Java client's connection is an error of that
				// copy here; a bad request is told apart from an I/O error.
				requireJava(t, m[3], err, bk.ErrBadRequest, bk.ErrUnknownLedgerState, bk.ErrBookieIO)
				if m[4] != "OK" {
					require.NotEqual(t, fakebookie.Pass(), v)
				}
				_, err = wr.Append(w.ctx, []byte{1})
				requireJava(t, m[4], err)
			})
		})
	}
}

// javaTraps are outcomes of the Java client that are wrong: the length that
// belongs to another entry than the last (rule 38).
var javaTraps = map[string]string{"last=1 len=3": "last=1 len=2"}

var seenRequest = regexp.MustCompile(`^\. (b\d) (fence-read|recovery-add) (-?\d+)(?: lac=(-?\d+) len=(\d+))?(?: -> (.*))?$`)

// replayRecovery: E=3 Qw=3 Qa=2, entries 0 and 1 on all three, entry 2, never
// acknowledged, on position 0 only. Each bookie answers as in the file, in the
// order of the file.
func replayRecovery(t *testing.T, o observation, _ []string) {
	inWorld(t, 5, ledger.Options{AddTimeout: time.Second, ReadTimeout: time.Second}, func(w *world) {
		names := regexp.MustCompile(`positions 0,1,2 = (b\d),(b\d),(b\d)`).FindStringSubmatch(o.title)[1:]
		id, ens := w.unfinished()
		type request struct {
			name, op string
			entry    bk.EntryID
		}
		script := map[request]func() fakebookie.Verdict{}
		for i, line := range o.lines[1:] {
			q := seenRequest.FindStringSubmatch(line)
			require.NotNil(t, q, line)
			e, err := strconv.Atoi(q[3])
			require.NoError(t, err)
			word := strings.NewReplacer("ok", "", "no entry", "").Replace(q[6])
			order := time.Duration(i+1) * time.Millisecond
			script[request{q[1], q[2], bk.EntryID(e)}] = func() fakebookie.Verdict {
				switch word {
				case "":
					return fakebookie.Late(order)
				case "EMPTY":
					return fakebookie.Forge(replaced(nil))
				case "CORRUPT": // also of an entry that is not there
					return fakebookie.Forge(replaced(make([]byte, 40)))
				}
				return scripted(t, word)
			}
		}
		for p, b := range ens {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				q := request{names[p], "fence-read", r.Entry}
				if r.Op == wire.OpAdd {
					q.op = "recovery-add"
				}
				if v := script[q]; v != nil {
					return v()
				}
				// The Java client asks one after another, and did not get there.
				return fakebookie.Late(time.Second / 2)
			})
		}
		r, err := w.client(ledger.Options{AddTimeout: time.Second, ReadTimeout: time.Second}).Open(w.ctx, id, ledger.Recover)
		want := strings.TrimPrefix(o.lines[0], "=> ")
		requireJava(t, want, err)
		if err != nil {
			return
		}
		synctest.Wait()
		for _, b := range ens {
			for _, q := range b.Seen() {
				require.True(t, q.Fence || q.Recovery || q.Op == wire.OpRead && q.Entry < 2, "%v: %+v", b.ID, q)
			}
			b.SetHook(nil)
		}
		w.checkRecovered(r, names, ens, want)
	})
}

// unfinished makes the ledger of the recovery scenes.
func (w *world) unfinished() (bk.LedgerID, []*fakebookie.Bookie) {
	c := w.client(ledger.Options{LACDelay: -1})
	wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
	require.NoError(w, err)
	for range 2 {
		_, err := wr.Append(w.ctx, []byte{1})
		require.NoError(w, err)
	}
	synctest.Wait()
	require.NoError(w, wr.Abort())
	ens := w.ensemble(wr.ID())
	d, err := bk.NewDigester(bk.DigestCRC32C, nil)
	require.NoError(w, err)
	key := bk.MasterKey(nil)
	ens[0].Put(wr.ID(), key[:], d.AppendEntry(nil, wr.ID(), 2, 1, 3, []byte{1}))
	for _, b := range ens {
		b.Forget()
	}
	return wr.ID(), ens
}

// checkRecovered compares state and segments with "closed at 2 ; CLOSED last=2
// len=3 segs=0:[b0 b1 b4 ] 2:[b0 b2 b4 ]".
func (w *world) checkRecovered(r *ledger.Reader, names []string, ens []*fakebookie.Bookie, want string) {
	for java, right := range javaTraps {
		want = strings.ReplaceAll(want, java, right)
	}
	ends := regexp.MustCompile(`closed at (\d+) ; CLOSED last=(\d+) len=(\d+) segs=(.*\])`).FindStringSubmatch(want)
	require.NotNil(w, ends, want)
	require.Equal(w, ends[2], r.LAC().String())
	require.Equal(w, ends[3], fmt.Sprint(r.Length()))
	m := r.Metadata()
	require.Equal(w, layout.StateClosed, m.State)
	segs := regexp.MustCompile(`(\d+):\[(\w+) (\w+) (\w+) \]`).FindAllStringSubmatch(ends[4], -1)
	require.Len(w, m.Segments, len(segs))
	for i, s := range segs {
		require.Equal(w, s[1], m.Segments[i].First.String())
		for p, name := range s[2:] {
			same := name == names[p]
			require.Equal(w, same, m.Segments[i].Ensemble[p] == ens[p].ID, "segment %d position %d: %v", i, p, m.Segments[i].Ensemble)
		}
	}
	for ent, err := range r.Entries(w.ctx, 0, r.LAC()) {
		require.NoError(w, err)
		require.Equal(w, []byte{1}, ent.Payload)
	}
}

// replaced makes a version 3 read answer EOK with another body.
func replaced(body []byte) func(frame []byte) []byte {
	return func(frame []byte) []byte {
		return remade(frame, func(m *bkpb.Response) {
			m.Status, m.ReadResponse.Status = bkpb.StatusCode_EOK.Enum(), bkpb.StatusCode_EOK.Enum()
			m.ReadResponse.Body = body
		})
	}
}

// remade changes a version 3 answer.
func remade(frame []byte, change func(m *bkpb.Response)) []byte {
	m, err := wire.DecodeResponseV3(frame[wire.LengthSize:])
	if err != nil {
		panic(err)
	}
	change(m)
	out, err := wire.AppendV3(nil, m)
	if err != nil {
		panic(err)
	}
	return out
}
