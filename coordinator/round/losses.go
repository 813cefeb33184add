package round

import (
	"slices"

	"fedpace/coordinator/schedule"
)

// losses are what a run remembers of its losses, for its schedules.
type losses struct {
	config *Config
	// window holds the training losses of the last rounds.
	window schedule.Window
	// followed holds the losses that the schedules see, if those are others.
	followed schedule.Window
	plateau  schedule.Plateau
}

// seesOtherLoss reports whether the schedules see another loss than the training loss.
func (l *losses) seesOtherLoss() bool { return l.config.Loss != (schedule.Loss{}) }

// observe adds the losses of the round that has closed to the windows of recent losses, from which the
// schedules decide: always the training loss and, if the schedules follow another loss (the validation loss
// or a trimmed mean over the clients), that as well. training is the round's training loss, NaN if there is
// none; newest has the newest validation loss. The result is the mean training loss over the window.
func (l *losses) observe(training float64, round *RoundState, newest *Stop) (mean float64) {
	l.window.Observe(training)
	if l.seesOtherLoss() {
		followed := noLoss
		// The plateau has seen every validation, so it is empty as long as there was none.
		hasValidation := len(l.plateau.Best) > 0
		switch {
		case l.config.Loss.Validation && hasValidation:
			followed = newest.ValidationLoss
		case l.config.Loss.Trim > 0 && round.Trained:
			followed = round.Trimmed
		}
		l.followed.Observe(followed)
	}
	return l.window.Mean()
}

// Straggling returns how much longer the slowest of a round's accepted tasks took than the median
// one, in nanoseconds. times are the times that these tasks took, at least one; Straggling sorts them.
func Straggling(times []Time) float64 {
	// The times came mostly in this order, so sorting them is quick.
	slices.Sort(times)
	n := len(times)
	median := float64((float64(times[(n-1)/2]) + float64(times[n/2])) / 2)
	return float64(times[n-1]) - median
}
