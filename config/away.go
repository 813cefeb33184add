package config

import (
	"fmt"

	"fedpace/actors/fleet"
)

// checkAway refuses what tasks that pause while their client is away do not go with: leaving for the same
// reason, transfers that others slow down, the stages of secure aggregation, and energy, which a client
// does not use for a transfer while that is paused.
func (c *Config) checkAway() error {
	waits := c.Dropout.Away == fleet.AwayWaits
	key := "dropout.away"
	leaves := waits && c.Dropout.WhenUnavailable
	for i := range c.Fleet {
		k := &c.Fleet[i]
		dropout := &c.Dropout
		if k.Dropout != nil {
			dropout = k.Dropout
		}
		if dropout.Away != fleet.AwayWaits {
			continue
		}
		waits = true
		leaves = leaves || dropout.WhenUnavailable
		if k.Dropout != nil {
			key = fmt.Sprintf("fleet[%d].dropout.away", i)
		}
		if k.Watts != (fleet.Watts{}) || k.Battery != nil {
			return problem(key, nil, "does not go with the watts of class %s: what a paused transfer draws is not known "+
				"(remove one of them)", k.Name)
		}
	}
	switch {
	case !waits:
		return nil
	case leaves:
		return problem(key, nil, "wait and when_unavailable say opposite things of who is away (set one of them)")
	case c.Network.Shared():
		return problem(key, []string{"network"}, "wait is timed where clients do not share the server's bandwidth "+
			"(remove network.server_download_mbps, network.server_upload_mbps and network.sites, or away)")
	case c.Secure.On:
		return problem(key, []string{"secure_aggregation.on"}, "wait does not go with the stages of secure aggregation "+
			"(remove one of them)")
	}
	return nil
}
