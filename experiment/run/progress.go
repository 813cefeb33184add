package run

import "time"

// Progress is where a run stands, for those who watch it. Nothing in it decides
// anything.
type Progress struct {
	Schedule string // as in schedule.Names; tells a comparison's runs apart

	Round          int     // rounds completed
	Rounds         int     // rounds in all; 0: not known
	VirtualSeconds float64 // virtual time
	VirtualTotal   float64 // the virtual time at which the run stops; 0: not known

	LocalSteps   int     // K_r of the last round
	LearningRate float64 // eta_r of the last round

	TrainingLoss       float64 // of the last round; NaN: not measured
	ValidationLoss     float64 // of the last evaluation; NaN: none yet
	ValidationAccuracy float64 // of the last evaluation; NaN: none yet
	TargetAccuracy     float64 // the accuracy at which the run stops; 0: none

	Elapsed time.Duration // wall time since the run's start
	Done    bool          // the run is complete
}

// Fraction is the part of the run that is done, from 0 to 1: the largest over
// the stops whose end is known, for the first that is reached ends the run.
// It is 0 when none is known, and 1 of a run that is complete, wherever it
// ended.
func (p Progress) Fraction() float64 {
	if p.Done {
		return 1
	}
	f := 0.0
	if p.Rounds > 0 {
		f = max(f, float64(p.Round)/float64(p.Rounds))
	}
	if p.VirtualTotal > 0 {
		f = max(f, p.VirtualSeconds/p.VirtualTotal)
	}
	return min(f, 1)
}

// RoundsPerSecond is the mean pace in wall time; 0 before the first round.
func (p Progress) RoundsPerSecond() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Round) / p.Elapsed.Seconds()
}

// Left is the wall time to expect, at the mean pace so far; false when it
// cannot be said yet.
func (p Progress) Left() (time.Duration, bool) {
	f := p.Fraction()
	if f <= 0 || p.Elapsed <= 0 {
		return 0, false
	}
	return time.Duration(float64(p.Elapsed) * (1 - f) / f), true
}
