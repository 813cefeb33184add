package run

import (
	"fmt"
	"math"

	"fedpace/actors/device"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
)

// rounds is what the round machine needs of the problem. limit is the virtual
// time at which the run ends, 0 for none.
func (p *problem) rounds(limit round.Time) (r round.Config, err error) {
	c := p.config
	r = round.Config{
		Seed: c.Seed, Clients: c.Clients, Cohort: c.Cohort,
		Window:        schedule.WindowConfig{Size: c.Schedule.Window, FirstRound: c.Schedule.F0 == config.FromFirst},
		Plateau:       schedule.PlateauConfig{Patience: c.Schedule.Patience, MinDelta: c.Schedule.MinDelta},
		Train:         c.Train,
		EvaluateEvery: c.Evaluate.Every,
		Stop:          round.Limits{Rounds: c.Stop.Rounds, Time: limit, Accuracy: c.Stop.ValidationAccuracy},
		Select:        p.selection(c.Select.Rule),
		Devices:       roundDevices(&c),
	}
	if c.Schedule.K == config.TheorySchedule {
		r.K, err = p.theoryK(limit)
	} else {
		r.K, err = schedule.NewK(c.Schedule.K, c.Schedule.K0, c.Schedule.DecayRound)
	}
	if err != nil {
		return r, err
	}
	if r.Eta, err = schedule.NewEta(c.Schedule.Eta, c.Schedule.Eta0, c.Schedule.DecayRound); err != nil {
		return r, err
	}
	r.Closing, r.Expect = closing(c.Close), p.expect
	if p.set != nil {
		r.Samples = p.set.Samples
	}
	if c.Close.Rule == config.Buffered {
		r.Soonest = round.Time(p.fleet.Soonest(p.modelBits))
	}
	if c.EverAbsent() { // otherwise nobody needs to be asked
		r.Available = func(client int, t round.Time) bool { return p.fleet.Available(client, int64(t)) }
		r.NextChange = p.nextChange
	}
	return r, p.shareServer(&r)
}

// closing is the closing rule as the machine takes it.
func closing(c config.Close) round.Closing {
	switch c.Rule {
	case config.Deadline:
		return round.Deadline{Seconds: c.Seconds}
	case config.First:
		return round.First{N: c.N}
	case config.Buffered:
		return round.Buffered{N: c.N, StalenessLimit: c.StalenessLimit}
	}
	return round.All{}
}

// selection is a rule of Select as the machine takes it.
func (p *problem) selection(rule string) round.Selection {
	switch rule {
	case config.BySize:
		return round.BySize{}
	case config.PowerOfChoice:
		return round.PowerOfChoice{Candidates: p.config.Select.Candidates, From: p.selection(p.config.Select.From)}
	case config.Fit:
		return round.Fit{From: p.selection(p.config.Select.From)}
	}
	return round.Uniform{}
}

// expect is the time that a client is expected to take.
func (p *problem) expect(client, steps int) round.Time {
	d, err := p.fleet.Expect(client, steps, p.modelBits)
	if err != nil {
		return round.MaxDuration // too long for anything
	}
	return round.Time(d.Total())
}

// nextChange is the next time at which clients can be chosen who cannot be now.
// The machine asks where it found nobody who is free: mostly nobody is there at
// all.
func (p *problem) nextChange(t round.Time) (round.Time, bool) {
	clients := p.config.Clients
	next := p.fleet.NextAny(clients, int64(t))
	if next <= int64(t) { // all who are there have work: anybody's next change
		next = device.Never
		for c := range clients {
			next = min(next, p.fleet.NextChange(c, int64(t)))
		}
	}
	return round.Time(next), next != device.Never
}

// fixedRound is the virtual time of one K-eta-fixed round (Eq. 3 with K_0),
// where it is the same for all clients and rounds and no rule changes it; false
// elsewhere.
func (p *problem) fixedRound() (round.Time, bool, error) {
	c := &p.config
	waits := c.Close.Rule == config.All || c.Close.Rule == config.First // of equals the first n are all
	if !p.fleet.Constant() || !waits || c.Network.Shared() || c.Select.Rule == config.PowerOfChoice {
		return 0, false, nil
	}
	one, err := p.meanRound(c.Schedule.K0)
	return one, err == nil, err
}

// seconds converts a limit of the configuration to virtual time.
func seconds(s float64) (round.Time, error) {
	ns := math.RoundToEven(s * 1e9)
	if !(ns >= 1 && ns <= float64(round.MaxTime)) {
		return 0, fmt.Errorf("%g virtual seconds are out of range, want 1e-9 to %g", s, round.MaxTime.Seconds())
	}
	return round.Time(ns), nil
}
