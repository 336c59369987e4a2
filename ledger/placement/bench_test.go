package placement

import (
	"fmt"
	"testing"
)

// thousand gives 1,000 bookies in 2 regions of 3 zones of 20 racks each.
func thousand() []Bookie {
	bs := plain(1000)
	for i := range bs {
		bs[i].Location = Location{fmt.Sprint("r", i%2), fmt.Sprint("z", i/2%3), fmt.Sprint("k", i/6%20)}
		bs[i].FreeBytes = int64(1+i%7) << 40
	}
	return bs
}

func BenchmarkChoose(b *testing.B) {
	for _, text := range []string{"default", "zones=3,strict", "regions=2,ack-zones=2,racks=3,strict", "regions=3,strict"} {
		for _, e := range []int{3, 7} {
			b.Run(fmt.Sprintf("%s/E=%d", text, e), func(b *testing.B) {
				r := Request{Quorum: quorum(e, 3, 2), Policy: policy(b, text), Bookies: thousand(), Rand: seeded(1)}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Choose(r); (err != nil) != (text == "regions=3,strict") {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkReplace(b *testing.B) {
	bs := thousand()
	r := Request{Quorum: quorum(7, 3, 2), Policy: policy(b, "zones=3,strict"), Bookies: bs, Rand: seeded(1)}
	ensemble, err := Choose(r)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Replace(r, ensemble, []int{2}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// As many bookies as a cluster with no choice left: every other bookie of
// another zone, and write sets that must be in two.
func BenchmarkChooseTight(b *testing.B) {
	bs := plain(64)
	for i := range bs {
		bs[i].Zone = string(rune('a' + i%2))
	}
	r := Request{Quorum: quorum(64, 2, 2), Policy: policy(b, "zones=2,strict"), Bookies: bs, Rand: seeded(1)}
	for b.Loop() {
		if _, err := Choose(r); err != nil {
			b.Fatal(err)
		}
	}
}
