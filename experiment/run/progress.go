package run

import (
	"time"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// Progress is where a run stands, for those who watch it. Nothing in it decides
// anything.
type Progress struct {
	Schedule string // as in schedule.Names; tells a comparison's runs apart

	round.Report         // the last complete round, with the losses that were measured last; NaN: none yet
	Rounds       int     // rounds in all; 0: not known
	VirtualTotal float64 // the virtual time at which the run stops; 0: not known

	Elapsed time.Duration // wall time since the run's start
	Done    bool          // the run is complete
}

// Fraction is the part of the run that is done, as [metrics.Run.Fraction]; it is 1 of
// a run that is complete, wherever it ended.
func (p Progress) Fraction() float64 {
	if p.Done {
		return 1
	}
	of := metrics.Run{Rounds: p.Rounds, VirtualSeconds: p.VirtualTotal}
	return of.Fraction(p.Round, p.End.Seconds())
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
