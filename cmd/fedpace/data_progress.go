package main

import (
	"fmt"
	"time"

	"fedpace/actors/data/fetch"
)

// fetched takes a download's newest state.
func (d *display) fetched(p fetch.Progress) { d.show(statusOfFetch(p)) }

// statusOfFetch is a download's state.
func statusOfFetch(p fetch.Progress) status {
	s := status{of: p.Archive, done: -1}
	add := func(rank int, format string, a ...any) {
		s.parts = append(s.parts, part{fmt.Sprintf(format, a...), rank})
	}
	add(0, "%s", p.Archive)
	if p.Total > 0 {
		s.done = float64(p.Done) / float64(p.Total)
		add(1, "%s of %s", bytesOf(p.Done), bytesOf(p.Total))
		add(2, "%.0f %%", 100*s.done)
	} else {
		add(0, "%s", bytesOf(p.Done))
	}
	if rate := p.Rate(); rate > 0 {
		add(4, "%s/s", bytesOf(int64(rate)))
		if p.Total > p.Done {
			left := time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second))
			add(3, "%s left", left.Round(time.Second))
		}
	}
	return s
}
