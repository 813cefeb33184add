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

// noiseClients returns the number of clients whose noise protects a client in any round that counts: the
// fewest survivors less those who may tell the coordinator their noise. Where real devices mask their
// updates among each other, their number counts.
func (v *Secure) noiseClients() int {
	clients := v.Plan.Minimum - v.Plan.Colluders
	if v.Devices.Members > 0 {
		clients = min(clients, v.Devices.Minimum-v.Devices.Colluders)
	}
	return max(1, clients)
}

// noiseGrid returns the rounding and the noise of clients' updates under distributed noise; its zero
// value is none.
func (p *Problem) noiseGrid() privacy.Grid {
	if p.Secure == nil {
		return privacy.Grid{}
	}
	return p.Secure.Grid
}

// DistributedNoise returns what the noise that clients add together guarantees after this number of
// rounds. It is nil in a run without such noise or without training.
func (p *Problem) DistributedNoise(rounds int) *folder.DistributedNoise {
	c := &p.Config
	if !p.noiseGrid().On() || !c.Train {
		return nil
	}
	v := p.Secure
	plan := v.Plan
	if v.Devices.Members > 0 {
		plan = v.Devices
	}
	share := secagg.Share(c.NewestWeightFactor(), v.Shift)
	values := actors.SummedParams(p.Learning())
	sum := privacy.DiscreteSum{
		Clients:     v.noiseClients(),
		Deviation:   float64(v.Grid.Deviation),
		Sensitivity: v.Grid.Norm(share, values),
		Values:      values,
	}
	twice := sum
	twice.Sensitivity *= 2
	return &folder.DistributedNoise{
		Clip:       c.Privacy.Distributed.Clip,
		Noise:      c.Privacy.Distributed.Noise,
		Delta:      c.Privacy.Delta,
		Members:    plan.Members,
		Survivors:  plan.Minimum,
		Colluders:  plan.Colluders,
		Step:       float64(v.Grid.Step) / algorithm.Unit / share,
		Deviation:  v.Grid.Deviation,
		Rounds:     rounds,
		ReplaceOne: sumEpsilon(twice, rounds, c.Privacy.Delta),
		ZeroOut:    sumEpsilon(sum, rounds, c.Privacy.Delta),
		Simulated:  c.Clients > 0,
	}
}

// sumEpsilon converts what rounds of a sum cost into epsilon at delta. The accountant by distributions is
// that of the Gaussian mechanism: what the sum's noise differs from that goes to delta.
func sumEpsilon(s privacy.DiscreteSum, rounds int, delta float64) folder.SumEpsilon {
	ratio := s.Ratio()
	e := folder.SumEpsilon{
		Concentrated: privacy.ConcentratedEpsilon(ratio, rounds, delta),
		Simple:       privacy.SimpleEpsilon(ratio, rounds, delta),
	}
	if rounds < 1 {
		return e
	}
	remaining := delta - (1+math.Exp(e.Concentrated))*float64(rounds)*s.Distance()
	// Half of delta is the most that a figure is worth.
	if !(remaining >= delta/2) {
		return e
	}
	// Without the part of the ratio for the sum being no discrete Gaussian, which is in the distance.
	m := pld.Mechanism{Sigma: math.Sqrt(float64(s.Clients)) * s.Deviation / s.Sensitivity, Rate: 1}
	if tight, err := m.Epsilon(rounds, remaining); err == nil {
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
	text := fmt.Sprintf("Distributed noise: sums have epsilon %s at delta %g after %d %s if a client's samples "+
		"are replaced (two clips), and %s if its updates become zero (one clip), with norm %g and noise %g. "+
		"That holds for %d survivors of %d (%.3g %%), of which %d may tell their noise; a round with fewer is refused. "+
		"Each adds discrete Gaussian noise of %d steps of %.3g.",
		v.ReplaceOne, v.Delta, rounds, human.Plural(rounds, "round"), v.ZeroOut, v.Clip, v.Noise,
		v.Survivors, v.Members, 100*float64(v.Survivors)/float64(v.Members), v.Colluders, v.Deviation, v.Step)
	if v.Simulated {
		text += " The noise of simulated clients follows from the seed: it is for research."
	}
	return text
}
