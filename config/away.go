package config

import (
	"fmt"

	"fedpace/actors/fleet"
)

// checkAway refuses what tasks that pause while their client is away (dropout.away: wait) cannot be
// combined with: dropping out for the same reason, transfers that slow each other down, the stages
// of secure aggregation, and the energy of devices, since nothing says what a paused transfer
// draws. Configurations without such tasks always pass.
func (c *Config) checkAway() error {
	anyWaits := c.Dropout.Away == fleet.AwayWaits
	key := "dropout.away"
	anyLeaves := anyWaits && c.Dropout.WhenUnavailable
	// Any class may have a dropout of its own; the others share that of the whole configuration.
	for i := range c.Fleet {
		class := &c.Fleet[i]
		dropout := &c.Dropout
		// The class's own dropout takes the place of the common one.
		if class.Dropout != nil {
			dropout = class.Dropout
		}
		if dropout.Away != fleet.AwayWaits {
			continue
		}
		// One class whose tasks wait is enough for what follows.
		anyWaits = true
		anyLeaves = anyLeaves || dropout.WhenUnavailable
		if class.Dropout != nil {
			key = fmt.Sprintf("fleet[%d].dropout.away", i)
		}
		if class.Watts != (fleet.Watts{}) || class.Battery != nil {
			return problem(key, nil, "does not go with the watts of class %s: what a paused transfer draws is not "+
				"known (remove one of them)", class.Name)
		}
	}
	switch {
	case !anyWaits:
		return nil
	case anyLeaves:
		return problem(key, nil, "wait and when_unavailable say opposite things of who is away (set one of them)")
	case c.Network.Shared():
		return problem(key, []string{"network"}, "wait is timed where clients do not share the server's bandwidth "+
			"(remove network.server_download_mbps, network.server_upload_mbps and network.sites, or away)")
	case c.Secure.On:
		return problem(key, []string{"secure_aggregation.on"}, "wait does not go with the stages of secure "+
			"aggregation (remove one of them)")
	}
	return nil
}
