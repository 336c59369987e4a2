package main

import (
	"fmt"
	"strings"
	"time"
)

// report prints the summary of a run in which nothing differed.
func (d *demo) report(took time.Duration) {
	fmt.Println()
	d.first.print("library")
	d.second.print("proxies")
	fmt.Printf("replay   all %s; second half %s\n", d.replayed, d.replayMid)
	fmt.Printf("killed   kill -9 of %s, all restarted\n", strings.Join(d.killed, " and "))
	fmt.Printf("result   %d lines appended, tailed and replayed, once and in order: nothing was lost. %.0f s in all\n",
		len(d.input.lines), took.Seconds())
}

func (p *phase) print(name string) {
	at := func(q float64) time.Duration {
		return time.Duration(p.micros.ValueAtQuantile(q)) * time.Microsecond
	}
	fmt.Printf("%s  %d lines in %.2f s: %.0f/s; ack p50 %v, p99 %v (as many outstanding as the byte limit lets); longest gap between acks %v\n",
		name, p.lines, p.took.Seconds(), float64(p.lines)/p.took.Seconds(),
		at(50).Round(10*time.Microsecond), at(99).Round(10*time.Microsecond), p.longest.Round(time.Millisecond))
}
