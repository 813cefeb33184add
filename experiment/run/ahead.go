package run

import (
	"fedpace/coordinator/round"
	"fedpace/experiment/outlook"
	"fedpace/internal/registry"
)

// ahead is what is known of the run to limit (0: none) for an outlook on its wall time.
func (p *experiment) ahead(limit round.Time) (s outlook.Setup, err error) {
	rounds, err := p.Rounds(limit)
	if err != nil {
		return s, err
	}
	needs, c := registry.NeedsOf(rounds.K), &p.Config
	s = outlook.Setup{
		K: rounds.K, Eta: rounds.Eta, Steps: p.Steps, Follows: needs.Losses || needs.Validation || needs.Stragglers,
		Rounds: c.Stop.Rounds, Virtual: limit.Seconds(), Pace: c.Pace, Expect: outlook.Rounds(&rounds),
		Train: c.Train, Batch: float64(c.Batch), Evaluate: rounds.Evaluate, EvaluateClients: rounds.EvaluateClients,
	}
	if !c.Train {
		return s, nil
	}
	s.HeldOut = float64(p.Set.HeldOut())
	if n := c.Evaluate.Samples; n > 0 {
		s.HeldOut = min(s.HeldOut, float64(n))
	}
	if c.Evaluate.Clients.Any() {
		for client := range c.Clients {
			s.Own += float64(p.OwnSamples(client))
		}
	}
	return s, nil
}
