package cmd

import (
	"fmt"
	"math"
	"time"

	"fedpace/actors/data/fetch"
	"fedpace/cmd/internal/cli"
	"fedpace/coordinator/measure"
	"fedpace/experiment/run"
	"fedpace/experiment/study"
	"fedpace/internal/human"
)

// statusOf is a run's state.
func statusOf(p run.Progress) cli.Status {
	s := cli.Status{Of: p.Schedule, Done: p.Fraction()}
	s.Add(0, "%s", p.Schedule)
	if p.Rounds > 0 {
		s.Add(0, "round %d/%d", p.Round, p.Rounds)
	} else {
		s.Add(0, "round %d", p.Round)
	}
	if p.VirtualTotal > 0 {
		s.Add(3, "%s of %s", human.VirtualTime(p.End.Seconds()), human.VirtualTime(p.VirtualTotal))
	} else {
		s.Add(3, "%s", human.VirtualTime(p.End.Seconds()))
	}
	if p.LocalSteps > 0 { // none before the first round
		s.Add(4, "K %d", p.LocalSteps)
	}
	if !math.IsNaN(p.TrainingLoss) {
		s.Add(2, "loss %.3f", p.TrainingLoss)
	}
	if v := p.Quality.Of(p.ValidationLoss, p.Metrics); !math.IsNaN(v) {
		s.Add(2, "%s %.3f", measure.Title(p.Quality.Name), v)
	}
	if r := p.RoundsPerSecond(); r > 0 {
		s.Add(5, "%.3g rounds/s", r)
	}
	if left, known := p.Left(); known && p.Fraction() < 1 {
		s.Add(1, "%s left", left.Round(time.Second))
	}
	return s
}

// statusOfFetch is a download's state.
func statusOfFetch(p fetch.Progress) cli.Status {
	s := cli.Status{Of: p.Archive, Done: -1}
	s.Add(0, "%s", p.Archive)
	if p.Total > 0 {
		s.Done = float64(p.Done) / float64(p.Total)
		s.Add(1, "%s of %s", human.Size(p.Done), human.Size(p.Total))
		s.Add(2, "%.0f %%", 100*s.Done)
	} else {
		s.Add(0, "%s", human.Size(p.Done))
	}
	if rate := p.Rate(); rate > 0 {
		s.Add(4, "%s/s", human.Size(int64(rate)))
		if p.Total > p.Done {
			left := time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second))
			s.Add(3, "%s left", left.Round(time.Second))
		}
	}
	return s
}

// statusOfStudy is how many runs are done, and how far those under way have come.
func statusOfStudy(p study.Progress) cli.Status {
	s := cli.Status{Of: "study", Done: p.Fraction()}
	s.Add(0, "%d of %d runs done", p.Done, p.Cells)
	for i, r := range p.Running {
		text := fmt.Sprintf("%s: round %d, %.0f%%", r.Cell.Name, r.Run.Round, 100*r.Run.Fraction())
		if left, known := r.Run.Left(); known {
			text += fmt.Sprintf(", %s left", left.Round(time.Second))
		}
		s.Add(1+i, "%s", text)
	}
	return s
}

// statusOfDraws is how far a plan has timed its settings.
func statusOfDraws(done, of int) cli.Status {
	s := cli.Status{Of: "times", Done: float64(done) / float64(max(1, of))}
	s.Add(0, "timing settings: draw %d of %d", done, of)
	return s
}
