package coordinator_test

import (
	"testing"

	"pgregory.net/rapid"

	"fedpace/actors/fleet"
	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
)

// stayingFleet returns the fleet of the rules, but of clients that stay until they are done: so no task is shorter than
// two transfers.
func stayingFleet(t testing.TB) *fleet.Fleet {
	t.Helper()
	fleet, err := fleet.NewFleet(fleet.Config{
		Network: fleet.Network{DownloadMbps: 20, UploadMbps: 5}, Compute: fleet.Compute{SecondsPerStep: 0.03, Std: 0.02},
		Availability: fleet.Markov{OnSeconds: 3, OffSeconds: 2},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

// haste draws how a run treats plans and transfers: it waits for each plan, lets events run ahead of them, or shares
// the server's bandwidth. It returns the fleet to use.
func haste(t *rapid.T, c *round.Config, staying, leaving *fleet.Fleet) *fleet.Fleet {
	switch rapid.IntRange(0, 2).Draw(t, "haste") {
	case 1:
		c.Soonest = round.Time(staying.Soonest(fleet.SameBits(ruleBits)))
		return staying
	case 2:
		down, _ := fairshare.Need(ruleBits, 30)
		up, _ := fairshare.Need(ruleBits, 12)
		c.Server = round.Bandwidth{Download: down, Upload: up}
		c.Leaves = func(client int, at round.Time) (round.Time, bool) {
			gone, ok := leaving.Leaves(client, int64(at))
			return round.Time(gone), ok
		}
	}
	return leaving
}
