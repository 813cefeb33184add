package live

import (
	"testing"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// What a round costs the run, with the twenty tasks that are kept of it. Target:
// under 2 µs, for a timing-only round of sixty clients takes hundreds.
func BenchmarkRound(b *testing.B) {
	h := quick()
	tasks := make([]metrics.Task, 20)
	r := &metrics.Round{Report: *report(1), Tasks: tasks, Usage: &metrics.Usage{}}
	b.ReportAllocs()
	for i := range b.N {
		r.Report.Round = i + 1
		r.Report.End = round.Time(i+1) * 1e9
		r.Report.Start = r.Report.End - 1e9
		if err := h.Round(r); err != nil {
			b.Fatal(err)
		}
	}
}

// What a frame costs all who watch together, two and a half times a second.
func BenchmarkFrame(b *testing.B) {
	for _, part := range []string{"whole", "more"} {
		b.Run(part, func(b *testing.B) {
			h := quick()
			for r := range 10 * maxPoints {
				feed(h, report(r+1), make([]metrics.Task, 20)...)
			}
			b.ReportAllocs()
			for b.Loop() {
				h.Notice("again")
				f, _ := h.current()
				if part == "whole" {
					f.full()
				} else {
					f.more()
				}
			}
		})
	}
}
