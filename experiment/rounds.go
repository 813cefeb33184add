package experiment

import (
	"fmt"
	"math"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
)

// roundConfig is what the round machine needs of a configuration. limit is the
// virtual time at which the run ends, 0 for none.
func roundConfig(c Config, limit round.Time) (round.Config, error) {
	k, err := schedule.NewK(c.Schedule.K, c.Schedule.K0, c.Schedule.DecayRound)
	if err != nil {
		return round.Config{}, err
	}
	eta, err := schedule.NewEta(c.Schedule.Eta, c.Schedule.Eta0, c.Schedule.DecayRound)
	if err != nil {
		return round.Config{}, err
	}
	return round.Config{
		Seed: c.Seed, Clients: c.Clients, Cohort: c.Cohort, Closing: round.All{},
		K: k, Eta: eta,
		Window:        schedule.WindowConfig{Size: c.Schedule.Window, FirstRound: c.Schedule.F0 == FromFirst},
		Plateau:       schedule.PlateauConfig{Patience: c.Schedule.Patience, MinDelta: c.Schedule.MinDelta},
		Train:         c.Train,
		EvaluateEvery: c.Evaluate.Every,
		Stop:          round.Limits{Rounds: c.Stop.Rounds, Time: limit, Accuracy: c.Stop.ValidationAccuracy},
	}, nil
}

// fixedRound is the virtual time of one K-eta-fixed round (Eq. 3 with K_0),
// the same for all clients and rounds; false where devices are random.
func (p *problem) fixedRound() (round.Time, bool, error) {
	if p.config.Compute.Std != 0 {
		return 0, false, nil
	}
	one, err := p.meanRound(p.config.Schedule.K0)
	return one, err == nil, err
}

// seconds converts a limit of the configuration to virtual time.
func seconds(s float64) (round.Time, error) {
	ns := math.RoundToEven(s * 1e9)
	if !(ns >= 0 && ns <= float64(round.MaxTime)) {
		return 0, fmt.Errorf("%g virtual seconds are out of range, want 0 to %g", s, round.MaxTime.Seconds())
	}
	return round.Time(ns), nil
}
