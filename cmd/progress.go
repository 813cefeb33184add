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

// statusOf turns a run's progress into the status line that a terminal shows: schedule, round, virtual time,
// losses and the time that is left. The first argument of Add is the rank of a part: where the line is too
// narrow, parts of the highest rank are left out first.
func statusOf(p run.Progress) cli.Status {
	// The schedule is the subject, so that each run of a comparison has a line of its own.
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
	// K is not known before the first round.
	if p.LocalSteps > 0 {
		s.Add(4, "K %d", p.LocalSteps)
	}
	// This is the mean over the window, as in the summary; NaN: there is none yet.
	if !math.IsNaN(p.WindowLoss) {
		s.Add(2, "loss %.3f", p.WindowLoss)
	}
	if v := p.Quality.ValueIn(p.ValidationLoss, p.Metrics); !math.IsNaN(v) {
		s.Add(2, "%s %.3f", metric.Title(p.Quality.Name), v)
	}
	// Within a long round the clients that are done show that it goes on.
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

// lastProgress remembers the newest progress of a run, so that the display can let time go on while
// a round takes long. Its methods may be called from several goroutines.
type lastProgress struct {
	// mu guards the fields below.
	mu sync.Mutex
	// p is the newest progress.
	p run.Progress
	// time is when p came; zero: there was none yet.
	time time.Time
}

// set stores p as the newest progress, together with the time at which it came. It may be called
// from any goroutine.
func (l *lastProgress) set(p run.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.p = p
	l.time = time.Now()
}

// status returns the status of a run that has been silent for a second or more, with the silent
// time added to its clocks. shown is false if the run has spoken since, has not begun or is done.
func (l *lastProgress) status() (s cli.Status, shown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	silent := time.Since(l.time)
	// A run that speaks by itself needs no help.
	if l.time.IsZero() || l.p.Done || silent < time.Second {
		return s, false
	}
	now := l.p
	now.Elapsed = now.Elapsed + silent
	now.InRound = now.InRound + silent
	// The remaining time stays above zero, which would mean that it is unknown.
	if now.Remaining > 0 {
		now.Remaining = max(1, now.Remaining-silent)
	}
	return statusOf(now), true
}

// statusOfStudy returns a status line for the progress p of a study: how many runs are done, and
// how far each run under way is. Where the line is too narrow, the later runs are left out first.
func statusOfStudy(p study.Progress) cli.Status {
	s := cli.Status{Subject: "study", Done: p.Fraction()}
	s.Add(0, "%d of %d runs done", p.Done, p.Cells)
	for i, r := range p.Running {
		// Rounds say that a run goes on, the percentage how far it is.
		text := fmt.Sprintf("%s: round %d, %.0f%%", r.Cell.Name, r.Run.Round, 100*r.Run.Fraction())
		if r.Run.Remaining > 0 {
			text += fmt.Sprintf(", %s left", r.Run.Remaining.Round(time.Second))
		}
		s.Add(1+i, "%s", text)
	}
	return s
}

// statusOfDraws returns the progress of "fedpace plan" while it times settings: done of total draws
// of the fleet.
func statusOfDraws(done, total int) cli.Status {
	s := cli.Status{Subject: "times", Done: float64(done) / float64(max(1, total))}
	s.Add(0, "timing settings: draw %d of %d", done, total)
	return s
}
