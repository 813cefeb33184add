package cmd

import (
	"fmt"
	"math"
	"sync"
	"time"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/run"
	"fedpace/internal/human"
	"fedpace/learn/metric"
	"fedpace/study"
)

// statusOf is a run's progress as a status. Parts with a lower number stay longest where the
// line is too narrow.
func statusOf(p run.Progress) cli.Status {
	s := cli.Status{Subject: p.Schedule, Done: p.Fraction()}
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
	if !math.IsNaN(p.WindowLoss) { // the mean of the window, as in the summary
		s.Add(2, "loss %.3f", p.WindowLoss)
	}
	if v := p.Quality.ValueIn(p.ValidationLoss, p.Metrics); !math.IsNaN(v) {
		s.Add(2, "%s %.3f", metric.Title(p.Quality.Name), v)
	}
	if p.InRound >= time.Second && !p.Done {
		if p.Clients > 0 {
			s.Add(3, "%d of %d clients", p.Trained, p.Clients)
		}
		s.Add(4, "%s in this round", p.InRound.Round(time.Second))
	}
	if p.Round > 0 && p.Elapsed > 0 {
		s.Add(5, "%s rounds/s", human.Rate(float64(p.Round)/p.Elapsed.Seconds()))
	}
	if p.Remaining > 0 && p.Fraction() < 1 {
		s.Add(1, "%s left", p.Remaining.Round(time.Second))
	}
	return s
}

// lastProgress is what a run said last, so that its time goes on while a round takes long.
type lastProgress struct {
	mu sync.Mutex
	p  run.Progress
	// When it was said; zero: never.
	time time.Time
}

// set keeps the newest progress and when it came.
func (l *lastProgress) set(p run.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.p, l.time = p, time.Now()
}

// status is what there is to show where the run has said nothing for a second.
func (l *lastProgress) status() (s cli.Status, shown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	silent := time.Since(l.time)
	if l.time.IsZero() || l.p.Done || silent < time.Second {
		return s, false
	}
	now := l.p
	now.Elapsed = now.Elapsed + silent
	now.InRound = now.InRound + silent
	if now.Remaining > 0 {
		now.Remaining = max(1, now.Remaining-silent)
	}
	return statusOf(now), true
}

// statusOfStudy is how many runs are done, and how far those under way have come.
func statusOfStudy(p study.Progress) cli.Status {
	s := cli.Status{Subject: "study", Done: p.Fraction()}
	s.Add(0, "%d of %d runs done", p.Done, p.Cells)
	for i, r := range p.Running {
		text := fmt.Sprintf("%s: round %d, %.0f%%", r.Cell.Name, r.Run.Round, 100*r.Run.Fraction())
		if r.Run.Remaining > 0 {
			text += fmt.Sprintf(", %s left", r.Run.Remaining.Round(time.Second))
		}
		s.Add(1+i, "%s", text)
	}
	return s
}

// statusOfDraws is the progress of "fedpace plan" while it times settings.
func statusOfDraws(done, total int) cli.Status {
	s := cli.Status{Subject: "times", Done: float64(done) / float64(max(1, total))}
	s.Add(0, "timing settings: draw %d of %d", done, total)
	return s
}
