package round

import (
	"math"
	"slices"

	"fedpace/coordinator/schedule"
)

// losses are what a run remembers of its losses, for its schedules.
type losses struct {
	config   *Config
	window   schedule.Window // training losses
	followed schedule.Window // losses that the schedules see, if those are others
	plateau  schedule.Plateau
}

func newLosses(c *Config, s *State) losses {
	return losses{
		config: c, window: schedule.RestoreWindow(c.Window, s.Window), followed: schedule.RestoreWindow(c.Window, s.Followed),
		plateau: schedule.RestorePlateau(c.Plateau, s.Plateau),
	}
}

// others reports whether the schedules see another loss than the training loss.
func (l *losses) others() bool { return l.config.Loss != (schedule.Loss{}) }

// seen are the losses that the schedules see.
func (l *losses) seen() *schedule.Window {
	if l.others() {
		return &l.followed
	}
	return &l.window
}

// observe takes the losses of the round that has closed, and returns the mean training
// loss of the window.
func (l *losses) observe(training float64, r *RoundState, newest *Stop) (mean float64) {
	l.window.Observe(training)
	if l.others() {
		loss := noLoss
		switch {
		case l.config.Loss.Validation && len(l.plateau.Best) > 0: // there is one
			loss = newest.ValidationLoss
		case l.config.Loss.Trim > 0 && r.Trained:
			loss = r.Trimmed
		}
		l.followed.Observe(loss)
	}
	return l.window.Mean()
}

// Straggling is how long a round waited between its median client and its slowest, in
// nanoseconds: of the times that its accepted tasks took. It sorts them.
func Straggling(times []Time) float64 {
	slices.Sort(times) // mostly sorted: they came in that order
	n := len(times)
	median := (float64(times[(n-1)/2]) + float64(times[n/2])) / 2
	return float64(times[n-1]) - median
}

// readsStragglers reports whether a schedule reads the straggler share. Otherwise the
// machine keeps no times.
func (c *Config) readsStragglers() bool {
	return schedule.NeedsOf(c.K, c.Setup).Stragglers || schedule.NeedsOf(c.Eta, c.Setup).Stragglers
}

// measureStragglers takes the straggler share of the round that has closed, if any of
// its updates was accepted.
func (r *RoundState) measureStragglers() {
	if len(r.Times) > 0 && r.End > r.Start {
		r.Straggled, r.StragglerShare = true, Straggling(r.Times)/float64(r.End-r.Start)
	}
}

// lastShare is the newest straggler share, NaN if there is none.
func (r *RoundState) lastShare() float64 {
	if !r.Straggled {
		return math.NaN()
	}
	return r.StragglerShare
}
