package fleet

import (
	"math"
	"testing"
)

// Tasks end early with their probability, at a time uniform in the planned
// work, so that each phase has its share.
func TestPlan_DropoutsAreUniformInWork(t *testing.T) {
	const n, p = 200_000, 0.3
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}, Dropout: Dropout{Probability: p}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var points []float64
	phases := map[Phase]float64{}
	var d Durations
	for i := range n {
		plan, err := f.Plan(f.Client(i%1000), uint64(i/1000), 80, SameBits(6_710_000), 0)
		if err != nil {
			t.Fatal(err)
		}
		d = plan.Durations
		if plan.Dropout != NoPhase {
			points = append(points, float64(plan.After)/float64(d.Total()))
			phases[plan.Dropout]++
		}
	}
	if z := (float64(len(points))/n - p) / math.Sqrt(p*(1-p)/n); math.Abs(z) > 5 {
		t.Errorf("%d of %d tasks end early, want %g of them (%.1f sd)", len(points), n, p, z)
	}
	m := float64(len(points))
	for phase, length := range map[Phase]int64{InDownload: d.Download, InCompute: d.Compute, InUpload: d.Upload} {
		share := float64(length) / float64(d.Total())
		if z := (phases[phase]/m - share) / math.Sqrt(share*(1-share)/m); math.Abs(z) > 5 {
			t.Errorf("%g of the dropouts in %v, want %g (%.1f sd)", phases[phase]/m, phase, share, z)
		}
	}
	if d := distance(points, func(x float64) float64 { return x }, nil); d > critical(len(points)) {
		t.Errorf("distance %g to the uniform law", d)
	}
}

// A client whose availability ends takes its task with it. The clients of the
// recorded sessions are there from 90 to 110 s, always, never, from 20 to 35
// and 50 to 51 s, and from 60 to 100 s; a task takes 4 + 10 + 16 s.
func TestPlan_AbsenceEndsTasks(t *testing.T) {
	const bits = 80_000_000
	f, err := NewFleet(Config{
		Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1},
		Availability: Trace{Sessions: stays(t)}, Dropout: Dropout{WhenUnavailable: true},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		client, at int64
		phase      Phase
		after      int64
	}{
		{0, 90, InUpload, 20},
		{0, 107, InDownload, 3},
		{0, 10, InDownload, 0}, // gone already
		{1, 0, NoPhase, 0},
		{2, 0, InDownload, 0},
		{3, 20, InUpload, 15},
		{3, 25, InCompute, 10},
		{3, 31, InCompute, 4},
		{4, 60, NoPhase, 0},
		{4, 70, NoPhase, 0}, // ends in the very nanosecond
		{4, 71, InUpload, 29},
	} {
		p, err := f.Plan(f.Client(int(c.client)), 1, 10, SameBits(bits), c.at*second)
		if err != nil {
			t.Fatal(err)
		}
		if p.Dropout != c.phase || p.After != c.after*second {
			t.Errorf("client %d from %d s: leaves in %v after %d ns, want %v after %d s", c.client, c.at, p.Dropout, p.After, c.phase, c.after)
		}
	}
}

// With both reasons the earlier one counts, and classes have their own.
func TestPlan_DropoutsOfClasses(t *testing.T) {
	f, err := NewFleet(Config{
		Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1},
		Availability: Markov{OnSeconds: 30, OffSeconds: 30},
		Dropout:      Dropout{Probability: 1},
		Fleet: []Class{
			{Name: "board", Availability: &Always{}, Dropout: &Dropout{}},
			{Name: "phone"},
			{Name: "both", Dropout: &Dropout{Probability: 1, WhenUnavailable: true}},
		},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	earlier := 0
	for client := range 3000 {
		p, err := f.Plan(f.Client(client), 1, 10, SameBits(1e6), 0)
		if err != nil {
			t.Fatal(err)
		}
		switch k := f.Class(client); k {
		case 0:
			if p.Dropout != NoPhase || !f.Available(client, 5) || f.NextChange(client, 5) != Never {
				t.Fatalf("board %d: %+v", client, p)
			}
		default:
			if p.Dropout == NoPhase {
				t.Fatalf("client %d of class %d finishes: %+v", client, k, p)
			}
			if k == 2 && p.After > 0 && !f.Available(client, p.After) && f.Available(client, p.After-1) {
				earlier++
			}
			if k == 2 && f.NextChange(client, 0) < p.After {
				t.Fatalf("client %d works on after its availability ended: %+v", client, p)
			}
		}
	}
	if earlier < 50 {
		t.Errorf("%d of about 1000 clients leave when their availability ends", earlier)
	}
}
