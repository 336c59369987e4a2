package quorum

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/loglode/loglode/bookie/bk"
)

// Transcripts tell a story of the protocol, event by event, with what the core
// asks for after each. Rewrite them after a change that was meant with:
//
//	go test ./ledger/internal/quorum -run TestTranscripts -rewrite
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if err := s.run(t, d); err != nil {
				return "error: " + err.Error() + "\n"
			}
			return s.report()
		})
	})
}

// story is the core that a transcript drives: w or r.
type story struct {
	w *Writer
	r *Recovery
}

var storyErrs = map[string]error{
	"timeout": bk.ErrTimeout, "io": bk.ErrBookieIO, "fenced": bk.ErrFenced, "unauthorized": bk.ErrUnauthorized,
	"no-entry": bk.ErrNoSuchEntry, "no-ledger": bk.ErrNoSuchLedger, "corrupt": bk.ErrCorrupt,
	"unavailable": bk.ErrBookieUnavailable, "read-only": bk.ErrReadOnly,
}

func storyErr(t *testing.T, d *datadriven.TestData) error {
	t.Helper()
	name := ""
	d.MaybeScanArgs(t, "err", &name)
	if name == "" {
		return nil
	}
	err, ok := storyErrs[name]
	if !ok {
		d.Fatalf(t, "no error %q", name)
	}
	return err
}

func (s *story) run(t *testing.T, d *datadriven.TestData) error {
	t.Helper()
	switch d.Cmd {
	case "writer", "recovery":
		return s.start(t, d)
	case "push":
		n := 1
		d.MaybeScanArgs(t, "n", &n)
		for range n {
			if _, err := s.w.Push(10); err != nil {
				return err
			}
		}
	case "ack", "fail":
		s.answer(t, d)
	case "lac", "read":
		s.recoveryAnswer(t, d)
	case "replace":
		return s.replace(t, d)
	case "no-bookies":
		s.core().NoBookies(errors.New("none left"))
	case "updated":
		s.core().Updated()
	case "conflict":
		s.core().Conflict(storyMetadata(t, d))
	case "close":
		s.w.Close()
	default:
		d.Fatalf(t, "no command %q", d.Cmd)
	}
	return nil
}

type storyCore interface {
	Ack(bk.EntryID, Slot)
	Fail(bk.EntryID, Slot, error)
	Replace([]Pick) error
	NoBookies(error)
	Updated()
	Conflict(Metadata)
	Actions() []Action
}

func (s *story) core() storyCore {
	if s.r != nil {
		return s.r
	}
	return s.w
}

func (s *story) start(t *testing.T, d *datadriven.TestData) (err error) {
	t.Helper()
	q := bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}
	d.MaybeScanArgs(t, "e", &q.Ensemble)
	d.MaybeScanArgs(t, "w", &q.Write)
	d.MaybeScanArgs(t, "a", &q.Ack)
	*s = story{}
	if d.Cmd == "writer" {
		cfg := WriterConfig{Quorum: q, Metadata: storyMetadata(t, d)}
		if d.HasArg("go-on") {
			cfg.Policy = ReplaceOrGoOn
		}
		s.w, err = NewWriter(cfg)
		return err
	}
	s.r, err = NewRecovery(RecoveryConfig{Quorum: q, Metadata: storyMetadata(t, d)})
	return err
}

// storyMetadata reads one segment a line: first entry, then its bookies.
func storyMetadata(t *testing.T, d *datadriven.TestData) Metadata {
	t.Helper()
	m := Metadata{LastEntry: bk.InvalidEntryID}
	for line := range strings.Lines(d.Input) {
		fields := strings.Fields(line)
		first, err := strconv.Atoi(fields[0])
		if err != nil {
			d.Fatalf(t, "segment %q: %v", line, err)
		}
		seg := Segment{First: bk.EntryID(first)}
		for _, b := range fields[1:] {
			seg.Ensemble = append(seg.Ensemble, bk.BookieID(b))
		}
		m.Segments = append(m.Segments, seg)
	}
	switch {
	case d.HasArg("in-recovery"):
		m.State = StateInRecovery
	case d.HasArg("closed"):
		m.State = StateClosed
		d.ScanArgs(t, "last", (*int64)(&m.LastEntry))
		d.ScanArgs(t, "length", &m.Length)
	}
	return m
}

// at reads the entry and the positions of an answer.
func storyAt(t *testing.T, d *datadriven.TestData) (bk.EntryID, []int) {
	t.Helper()
	e := int64(bk.InvalidEntryID)
	d.MaybeScanArgs(t, "e", &e)
	var list string
	d.ScanArgs(t, "at", &list)
	var at []int
	for _, f := range strings.Split(list, "+") {
		p, err := strconv.Atoi(f)
		if err != nil {
			d.Fatalf(t, "position %q", f)
		}
		at = append(at, p)
	}
	return bk.EntryID(e), at
}

func (s *story) answer(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	e, at := storyAt(t, d)
	w := s.w
	if s.r != nil {
		w = s.r.back
	}
	for _, p := range at {
		slot := w.Slot(p)
		d.MaybeScanArgs(t, "gen", &slot.Gen)
		if d.Cmd == "ack" {
			s.core().Ack(e, slot)
		} else {
			s.core().Fail(e, slot, storyErr(t, d))
		}
	}
}

func (s *story) recoveryAnswer(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	e, at := storyAt(t, d)
	err := storyErr(t, d)
	length := 10 * (int64(e) + 1)
	d.MaybeScanArgs(t, "length", &length)
	for _, p := range at {
		slot := Slot{Pos: p, Gen: s.r.attempt}
		if d.Cmd == "lac" {
			lac := int64(e) - 1
			d.MaybeScanArgs(t, "lac", &lac)
			s.r.LACAnswer(slot, LACAnswer{Entry: e, LAC: bk.EntryID(lac), Length: length}, err)
		} else {
			s.r.ReadAnswer(e, slot, length, err)
		}
	}
}

func (s *story) replace(t *testing.T, d *datadriven.TestData) error {
	t.Helper()
	var picks []Pick
	for _, arg := range d.CmdArgs {
		p, err := strconv.Atoi(arg.Key)
		if err != nil {
			d.Fatalf(t, "position %q", arg.Key)
		}
		picks = append(picks, Pick{Pos: p, Bookie: bk.BookieID(arg.Vals[0])})
	}
	return s.core().Replace(picks)
}

func (s *story) report() string {
	var out strings.Builder
	for _, a := range s.core().Actions() {
		fmt.Fprintf(&out, "%s\n", storyAction(a))
	}
	w := s.w
	if s.r != nil {
		if w = s.r.back; w == nil {
			return out.String()
		}
	}
	fmt.Fprintf(&out, "pushed %d, lac %d", w.LastPushed(), w.LAC())
	if w.blocked && w.phase == phaseOpen {
		out.WriteString(", waiting for an ensemble change")
	}
	if w.err != nil {
		fmt.Fprintf(&out, ", stopped: %v", w.err)
	}
	return out.String() + "\n"
}

func storyAction(a Action) string {
	switch a.Kind {
	case ActSend:
		return fmt.Sprintf("send %d to %s at %d", a.Entry, a.Bookie, a.Slot.Pos)
	case ActFailed:
		return fmt.Sprintf("fail %d to %d: %v", a.Entry, a.Last, a.Err)
	case ActPick:
		return fmt.Sprintf("pick for %v of %v, avoid %v", a.Change.Failed, a.Change.Ensemble, a.Change.Avoid)
	case ActUpdate:
		return "update " + storyMeta(a.Metadata)
	case ActReadLAC:
		return fmt.Sprintf("fence and read LAC of %s at %d", a.Bookie, a.Slot.Pos)
	case ActRead:
		fence := ""
		if a.Fence {
			fence = "fence and "
		}
		return fmt.Sprintf("%sread %d from %s at %d", fence, a.Entry, a.Bookie, a.Slot.Pos)
	case ActFrame:
		return fmt.Sprintf("frame %d with lac %d length %d", a.Entry, a.LAC, a.Length)
	case ActFinished:
		return fmt.Sprintf("finished: %v", a.Err)
	default:
		return a.Kind.String()
	}
}

func storyMeta(m Metadata) string {
	out := m.State.String()
	if m.State == StateClosed {
		out += fmt.Sprintf(" last %d length %d", m.LastEntry, m.Length)
	}
	for _, seg := range m.Segments {
		out += fmt.Sprintf(", %d:%v", seg.First, seg.Ensemble)
	}
	return out
}
