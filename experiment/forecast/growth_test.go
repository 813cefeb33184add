package forecast

import (
	"testing"

	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/experiment/problem"
	"fedpace/metrics/eventlog"
)

// eventBytes is how large events.log is foreseen to become in a round of a run with this number of simulated
// clients and one device, of which cohorts of 50 are drawn.
func eventBytes(t *testing.T, clients int) float64 {
	t.Helper()
	p := new(problem.Problem)
	p.Config.Clients = clients
	p.Config.Cohort = 50
	p.Config.Close = closing.All{}
	p.Config.Events.Sample = 10
	p.Config.Devices.Names = []config.Device{{ID: "pi"}}
	p.Config.Devices.Include = config.Sampled
	const isReplay = true
	for _, f := range GrowthOf(p, 1, isReplay) {
		if f.Name == eventlog.File {
			return f.Bytes
		}
	}
	t.Fatal("no event log")
	return 0
}

// Where devices are drawn with simulated clients, the tasks of these are in the event log, too.
func TestGrowth_DrawnDevices(t *testing.T) {
	alone := eventBytes(t, 0)
	mixed := eventBytes(t, 100)
	if mixed < 5*alone {
		t.Errorf("events.log grows by %g bytes with simulated clients, by %g without", mixed, alone)
	}
}
