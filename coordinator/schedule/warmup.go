package schedule

import "fedpace/registry"

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Etas.Register("warmup", "grows in a line to another schedule's rate", Warmup{})
}

// Warmup lets the rate grow over the first rounds from a part of what another
// schedule gives to all of it (Goyal et al., 2017, Section 2.2: gradual warmup).
type Warmup struct {
	Rounds      int     `key:"rounds" range:"[1,1000000000]" unit:"rounds" help:"rounds of growth"`
	StartFactor float64 `key:"from" default:"0.1" range:"(0,1)" help:"part of the rate in round 1"`
	Then        Eta     `key:"then" default:"fixed" help:"schedule to whose rate it grows"`
}

// Validate returns an error if the schedule that follows has a wrong option.
func (s Warmup) Validate() error { return registry.Below("then", Validate(s.Then)) }

// NeedsWith returns what the schedule that follows needs.
func (s Warmup) NeedsWith(run Setup) Needs { return NeedsOf(s.Then, run) }

// LearningRate returns the rate of the schedule that follows, times the part of it that the warm-up
// allows in this round. The part grows from round to round up to 1.
func (s Warmup) LearningRate(p Progress) float64 {
	// The schedule that follows expects the last rate as it has returned it, so this schedule's part is
	// divided out.
	if p.Round > 1 {
		p.Previous.LearningRate /= s.part(p.Round - 1)
	}
	return s.Then.LearningRate(p) * s.part(p.Round)
}

// part returns the part of the learning rate that the warm-up allows in a round: from StartFactor
// in round 1 in a straight line to 1 after Rounds rounds.
func (s Warmup) part(round int) float64 {
	if round > s.Rounds {
		return 1
	}
	roundsBefore := float64(round - 1)
	return linear{}.interpolate(s.StartFactor, 1, roundsBefore, float64(s.Rounds))
}
