package round

import (
	"math"
	"slices"

	"fedpace/coordinator/schedule"
)

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
