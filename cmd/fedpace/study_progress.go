package main

import (
	"fedpace/experiment/study"
	"fmt"
	"time"
)

// study takes the newest state of a study.
func (d *display) study(p study.Progress) { d.show(statusOfStudy(p)) }

// statusOfStudy is how many runs are done, and how far those under way have come.
func statusOfStudy(p study.Progress) status {
	s := status{of: "study", done: p.Fraction(), parts: []part{{fmt.Sprintf("%d of %d runs done", p.Done, p.Cells), 0}}}
	for i, r := range p.Running {
		text := fmt.Sprintf("%s: round %d, %.0f%%", r.Cell.Name, r.Run.Round, 100*r.Run.Fraction())
		if left, known := r.Run.Left(); known {
			text += fmt.Sprintf(", %s left", left.Round(time.Second))
		}
		s.parts = append(s.parts, part{text, 1 + i})
	}
	return s
}
