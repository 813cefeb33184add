package round

import (
	"math"
	"slices"

	"fedpace/coordinator/schedule"
)

// losses are what a run remembers of its losses, for its schedules.
type losses struct {
	config *Config
	// window holds the training losses of the last rounds.
	window schedule.Window
	// scheduleLosses holds the losses that the schedules see, if those are others.
	scheduleLosses schedule.Window
	plateau        schedule.Plateau
	// changes is told the losses of rounds if testsChanges is true: if a schedule reads changes of the
	// data, and nothing must keep it from them.
	changes      schedule.ChangeTest
	testsChanges bool
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
		l.scheduleLosses.Observe(followed)
	}
	return l.window.Mean()
}

// testChange tells the test for changes of the data the loss of the round that has closed: the mean training
// loss, or the trimmed mean where schedules follow that. It reports whether losses have risen beyond what
// their scatter explains.
func (l *losses) testChange(round *RoundState) (alarm bool) {
	switch {
	case !l.testsChanges, !round.Trained:
		return false
	case l.config.Loss.Trim > 0:
		return l.changes.Observe(round.Trimmed)
	}
	return l.changes.Observe(round.TrainingLoss)
}

// noteChange notes that a change of the data was noticed in a round, with the part of the run that was over
// then, NaN if it is not known.
func (l *losses) noteChange(round int, share float64) {
	l.changes.Last = schedule.Change{Round: round}
	if !math.IsNaN(share) {
		l.changes.Last.Share = share
	}
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
