package problem

import (
	"fmt"

	"fedpace/actors/algorithm"
	"fedpace/actors/algorithm/privacy"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/internal/registry"
)

// checkLocalNoise refuses what clients would send beside the update that has the noise.
func (p *Problem) checkLocalNoise() error {
	c := &p.Config
	params, trainable := p.params()
	refuse := func(key, format string, args ...any) error {
		return &config.KeyError{Key: key, Others: []string{"privacy.local.clip"}, Problem: fmt.Sprintf(format, args...)}
	}
	switch needs := registry.NeedsOf(c.Select); {
	case len(c.Devices.Names) > 0 && (p.Learning().Memory() > 0 || registry.NeedsOf(c.Compress).ClientState):
		return refuse("devices.names", "what a device keeps goes to the coordinator, too, without noise (remove privacy.local, or have clients keep nothing)")
	case algorithm.KeepsVariates(p.Algorithm):
		return refuse("aggregate.algorithm", "clients send a second vector beside the update, which has no noise (remove privacy.local, or use another algorithm)")
	case needs.Losses || needs.Candidates:
		return refuse("select", "chooses clients by their losses, which have no noise (set uniform)")
	case trainable < params:
		return refuse("model", "noise makes nonsense of a batch norm's running variance (use group norm)")
	}
	return nil
}

// LocalNoise is what the run's local noise comes to in so many rounds; nil: there is none.
func (p *Data) LocalNoise(rounds int) *folder.LocalNoise {
	c := &p.Config
	l := c.Privacy.Local
	if !l.On() || !c.Train {
		return nil
	}
	return &folder.LocalNoise{
		Clip: l.Clip, Noise: l.Noise, Delta: c.Privacy.Delta,
		Epsilon: privacy.LocalEpsilon(l.Noise, 1, c.Privacy.Delta), Rounds: rounds, RoundsEpsilon: privacy.LocalEpsilon(l.Noise, rounds, c.Privacy.Delta),
		Simulated: c.Clients > 0,
	}
}

// AboutLocalNoise says it in words; empty: there is none.
func (p *Data) AboutLocalNoise(rounds int) string {
	v := p.LocalNoise(rounds)
	if v == nil {
		return ""
	}
	text := fmt.Sprintf("Local noise: each update has epsilon %.4g at delta %g by itself, also towards the coordinator, and those of a client that sends one in each of %d %s have %.4g together, with norm %g and noise %g.",
		v.Epsilon, v.Delta, rounds, human.Plural(rounds, "round"), v.RoundsEpsilon, v.Clip, v.Noise)
	if v.Simulated {
		text += " The noise of simulated clients follows from the seed: it is for research."
	}
	return text
}
