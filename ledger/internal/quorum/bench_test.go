package quorum

import (
	"testing"

	"github.com/loglode/loglode/bookie/bk"
)

// One entry through the Writer core: a push, its write set, three answers. 1,000
// are outstanding.
func BenchmarkWriter(b *testing.B) {
	w, err := NewWriter(WriterConfig{Quorum: q332, Metadata: openMeta("b0", "b1", "b2")})
	if err != nil {
		b.Fatal(err)
	}
	const outstanding = 1000
	b.ReportAllocs()
	push := func() bk.EntryID {
		add, err := w.Push(1024)
		if err != nil {
			b.Fatal(err)
		}
		for k := range q332.Write {
			_ = w.Slot((add.First + k) % 3)
		}
		return add.Entry
	}
	for range outstanding {
		push()
	}
	for b.Loop() {
		e := push() - outstanding
		for p := range q332.Ensemble {
			w.Ack(e, w.Slot(p))
		}
	}
	if w.LAC() != w.LastPushed()-outstanding {
		b.Fatalf("LAC %d, pushed %d", w.LAC(), w.LastPushed())
	}
}

func TestWriter_AllocatesNothingPerEntry(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1000)
	n := testing.AllocsPerRun(1000, func() {
		add, err := w.Push(100)
		if err != nil {
			t.Fatal(err)
		}
		w.ack(add.Entry-1000, 0, 1, 2)
	})
	if n != 0 {
		t.Fatalf("%v allocations an entry", n)
	}
}
