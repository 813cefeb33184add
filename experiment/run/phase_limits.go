package run

import (
	"fmt"

	"fedpace/experiment/config"
)

// triedClients is for how many clients the length of a task is tried ahead.
const triedClients = 1000

// checkPhases refuses devices so slow that a phase of a task would take longer
// than any may, before the run begins. What a heavy tail holds for a later task
// is found when that task comes.
func (p *problem) checkPhases() error {
	c := &p.config
	for client := range min(triedClients, c.Clients) {
		for _, try := range []struct {
			steps int
			bits  int64
		}{{c.Schedule.K0, 0}, {0, p.modelBits}} {
			d, err := p.fleet.Expect(client, try.steps, try.bits)
			if err == nil {
				continue
			}
			key, class := "", "" // of the phase
			if len(c.Fleet) > 0 {
				k := p.fleet.Class(client)
				class = fmt.Sprintf(" of class %s", c.Fleet[k].Name)
				key = fmt.Sprintf("fleet[%d].", k)
			}
			switch network := len(c.Fleet) == 0; {
			case try.bits == 0:
				if network {
					key = "compute."
				}
				return &config.KeyError{Key: key + "seconds_per_step", Problem: fmt.Sprintf("client %d%s would take over three years for %d local steps (lower it or schedule.k0, or set at_most)", client, class, try.steps)}
			case network:
				key = "network."
			}
			name := "upload_mbps"
			if d.Download < 0 {
				name = "download_mbps"
			}
			return &config.KeyError{Key: key + name, Problem: fmt.Sprintf("client %d%s would take over three years for a transfer of %g Mbit (raise it, or set at_least)", client, class, float64(try.bits)/1e6)}
		}
	}
	return nil
}
