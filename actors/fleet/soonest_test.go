package fleet

import (
	"testing"

	"pgregory.net/rapid"
)

// No task takes less than the soonest time, and where speeds are constant each
// takes that and its computing.
func TestSoonest_NoTaskIsSooner(t *testing.T) {
	links, recorded := made(t, 30), stays(t)
	told := 0
	rapid.Check(t, func(t *rapid.T) {
		f := anyFleet(t, links, recorded)
		bits := rapid.Int64Range(0, 40_000_000).Draw(t, "bits")
		soonest := f.Soonest(SameBits(bits))
		if soonest > 0 {
			told++
		}
		for client := range 50 {
			p, err := f.Plan(f.Client(client), uint64(client), rapid.IntRange(0, 3).Draw(t, "steps"), SameBits(bits), 0)
			if err != nil {
				t.Fatal(err)
			}
			if takes := p.Total(); takes < soonest || p.Dropout != NoPhase && p.After < soonest {
				t.Fatalf("client %d takes %+v, the soonest is %d", client, p, soonest)
			}
		}
	})
	if told == 0 {
		t.Error("no fleet had a soonest time")
	}
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Eq. 3 without computing, but for what is left for rounding: 1e-9 of it.
	if got := f.Soonest(SameBits(6_710_000)); got < 1_677_499_990 || got > 1_677_500_000 {
		t.Errorf("the soonest is %d ns, want 1.6775 s", got)
	}
}
