package problem

import (
	"fmt"
	"math"

	"fedpace/actors"
	"fedpace/algorithm"
	"fedpace/algorithm/privacy"
	"fedpace/algorithm/privacy/pld"
	"fedpace/algorithm/secagg"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
)

// noiseClients returns how many clients' noise is sure to be in the sum of a round and unknown to the
// coordinator: the fewest updates with which a round counts, less the clients that may collude and reveal
// their noise. Where real devices mask their updates among each other, there is a second sum, of fewer
// members, and the smaller number of the two holds. The number is at least 1.
func (v *Secure) noiseClients() int {
	clients := v.Plan.Minimum - v.Plan.Colluders
	devicesHaveOwnSum := v.Devices.Members > 0
	if devicesHaveOwnSum {
		clients = min(clients, v.Devices.Minimum-v.Devices.Colluders)
	}
	return max(1, clients)
}

// noiseGrid returns how clients round their updates and which noise they add before these are summed
// securely (distributed differential privacy). A run without such noise gets the zero value, whose method
// On reports false.
func (p *Problem) noiseGrid() privacy.Grid {
	if p.Secure == nil {
		return privacy.Grid{}
	}
	return p.Secure.Grid
}

// DistributedNoise returns, for the summary, the epsilon that the noise which clients add to their updates
// guarantees after this number of rounds, with the settings that it follows from. It is nil in a run without
// such noise or without training.
func (p *Problem) DistributedNoise(rounds int) *folder.DistributedNoise {
	c := &p.Config
	if !p.noiseGrid().On() || !c.Train {
		return nil
	}
	v := p.Secure
	// Real devices aggregate among themselves, so their own plan counts where there are any.
	plan := v.Plan
	if v.Devices.Members > 0 {
		plan = v.Devices
	}
	// An update enters the sum multiplied by share. Its values are whole numbers of steps of the grid.
	share := secagg.Share(c.NewestWeightFactor(), v.Shift)
	values := actors.SummedParams(p.Learning())
	// If a client's updates become zero, a sum changes by one clipped update at most. If its samples are
	// replaced, one clipped update leaves the sum and another enters it, so the change is up to twice as large.
	zeroed := privacy.DiscreteSum{
		Clients:     v.noiseClients(),
		Deviation:   float64(v.Grid.Deviation),
		Sensitivity: v.Grid.Norm(share, values),
		Values:      values,
	}
	replaced := zeroed
	replaced.Sensitivity = 2 * zeroed.Sensitivity
	// An update's value x is the whole number x·share·algorithm.Unit in the sum, in which the grid has its steps. The
	// summary has the step as a difference of x.
	stepOfUpdate := float64(v.Grid.Step) / algorithm.Unit / share
	return &folder.DistributedNoise{
		Clip:       c.Privacy.Distributed.Clip,
		Noise:      c.Privacy.Distributed.Noise,
		Delta:      c.Privacy.Delta,
		Members:    plan.Members,
		Survivors:  plan.Minimum,
		Colluders:  plan.Colluders,
		Step:       stepOfUpdate,
		Deviation:  v.Grid.Deviation,
		Rounds:     rounds,
		ReplaceOne: sumEpsilon(replaced, rounds, c.Privacy.Delta),
		ZeroOut:    sumEpsilon(zeroed, rounds, c.Privacy.Delta),
		Simulated:  c.Clients > 0,
	}
}

// sumEpsilon returns the epsilon at delta of this number of noisy sums, one a round, by up to three
// conversions: by concentrated differential privacy, by a simple bound and, where it applies, by privacy
// loss distributions (Tight), which gives the smallest epsilon.
//
// The third conversion is for continuous Gaussian noise, and clients add discrete noise. How far the two
// are apart is bounded (s.Distance), and that bound is taken off delta. Tight stays nil where this would
// take more than half of delta.
func sumEpsilon(s privacy.DiscreteSum, rounds int, delta float64) folder.SumEpsilon {
	ratio := s.Ratio()
	e := folder.SumEpsilon{
		Concentrated: privacy.ConcentratedEpsilon(ratio, rounds, delta),
		Simple:       privacy.SimpleEpsilon(ratio, rounds, delta),
	}
	if rounds < 1 {
		return e
	}
	discretization := (1 + math.Exp(e.Concentrated)) * float64(rounds) * s.Distance()
	remaining := delta - discretization
	// The negation also covers NaN, which an infinite epsilon gives.
	if !(remaining >= delta/2) {
		return e
	}
	// The noise of independent clients adds up in its variance. The multiplier is that of Gaussian noise,
	// because the remaining delta already covers what the sum's noise differs from it.
	deviationOfSum := math.Sqrt(float64(s.Clients)) * s.Deviation
	gaussian := pld.Mechanism{Sigma: deviationOfSum / s.Sensitivity, Rate: 1}
	if tight, err := gaussian.Epsilon(rounds, remaining); err == nil {
		e.Tight = &tight
	}
	return e
}

// AboutDistributedNoise returns sentences for the user with the epsilon that the noise of clients
// together guarantees after this number of rounds, for whom it holds, and by which conversion. It is empty
// in a run without such noise.
func (p *Problem) AboutDistributedNoise(rounds int) string {
	v := p.DistributedNoise(rounds)
	if v == nil {
		return ""
	}
	text := fmt.Sprintf("Distributed noise: sums have epsilon %s at delta %g after %d %s if a client's samples are "+
		"replaced (two clips), and %s if its updates become zero (one clip), with norm %g and noise %g. That holds "+
		"for %d survivors of %d (%.3g %%), of which %d may tell their noise; a round with fewer is refused. Each "+
		"adds discrete Gaussian noise of %d steps of %.3g.",
		v.ReplaceOne, v.Delta, rounds, human.Plural(rounds, "round"), v.ZeroOut, v.Clip, v.Noise,
		v.Survivors, v.Members, 100*float64(v.Survivors)/float64(v.Members), v.Colluders, v.Deviation, v.Step)
	if v.Simulated {
		text += " The noise of simulated clients follows from the seed: it is for research."
	}
	return text
}
