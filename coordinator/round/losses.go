package round

import "fedpace/coordinator/schedule"

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
