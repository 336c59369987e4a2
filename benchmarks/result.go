package benchmarks

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const histogramMax = int64(10 * time.Minute / time.Microsecond)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, histogramMax, 3) }

// Latency sums up a histogram, in microseconds.
type Latency struct {
	P50, P90, P99, P999, Max int64
	Mean                     float64
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	return Latency{
		P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90), P99: h.ValueAtQuantile(99),
		P999: h.ValueAtQuantile(99.9), Max: h.Max(), Mean: h.Mean(),
	}
}

// Result is what one run saw.
type Result struct {
	Name        string
	Rate        float64 // asked for; 0 = closed loop
	Outstanding int
	SizeBytes   int
	Done        int64 // measured operations
	Failed      int64
	Seconds     float64
	PerSecond   float64
	AckMicros   Latency  // to the acknowledgement
	TailMicros  *Latency `json:",omitempty"` // from due time to the tail reader
	// Processor seconds per million operations: this process (load generator
	// and client), and the servers named in the load.
	ClientCPUPerMillion float64
	ServerCPUPerMillion float64
	ServerRSSBytes      int64
}

func newResult(l Load, done int64, elapsed time.Duration, h *hdrhistogram.Histogram, u Usage) Result {
	r := Result{
		Rate: l.Rate, Outstanding: l.Outstanding, SizeBytes: l.SizeBytes,
		Done: done, Seconds: elapsed.Seconds(), AckMicros: latencyOf(h), ServerRSSBytes: u.ServerRSSBytes,
	}
	if elapsed > 0 {
		r.PerSecond = float64(done) / elapsed.Seconds()
	}
	if done > 0 {
		r.ClientCPUPerMillion = u.Self.Seconds() / float64(done) * 1e6
		r.ServerCPUPerMillion = u.Servers.Seconds() / float64(done) * 1e6
	}
	return r
}

// WriteText prints a result for people.
func (r Result) WriteText(w io.Writer) error {
	loop := fmt.Sprintf("%d outstanding", r.Outstanding)
	if r.Rate > 0 {
		loop = fmt.Sprintf("%.0f/s", r.Rate)
	}
	tail := ""
	if r.TailMicros != nil {
		tail = fmt.Sprintf("  append to tail  p50 %s  p99 %s  max %s\n", micros(r.TailMicros.P50), micros(r.TailMicros.P99), micros(r.TailMicros.Max))
	}
	_, err := fmt.Fprintf(w, "%s: %d B, %s, %d in %.1f s\n  %.0f entries/s, %.1f MB/s\n  ack  p50 %s  p90 %s  p99 %s  p99.9 %s  max %s\n%s  CPU s per million: client %.2f, servers %.2f; servers resident %.0f MB\n",
		r.Name, r.SizeBytes, loop, r.Done, r.Seconds, r.PerSecond, r.PerSecond*float64(r.SizeBytes)/1e6,
		micros(r.AckMicros.P50), micros(r.AckMicros.P90), micros(r.AckMicros.P99), micros(r.AckMicros.P999), micros(r.AckMicros.Max),
		tail, r.ClientCPUPerMillion, r.ServerCPUPerMillion, float64(r.ServerRSSBytes)/1e6)
	return err
}

// WriteJSON prints a result as one line of JSON.
func (r Result) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func micros(us int64) string { return (time.Duration(us) * time.Microsecond).String() }
