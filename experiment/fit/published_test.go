package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/coordinator/round"
)

// Times that are none of this program's laws: a transfer takes bits over speed, local steps take
// a + b K, and each is multiplied by a factor of its own. Fits are what float64 makes of the same
// times: speeds are bits over the median time, and a and b, without scatter, the line through it.
func TestFit_OfTimes(t *testing.T) {
	const megabits = 6.71
	r := rand.New(rand.NewPCG(6, 6))
	worst := [4]float64{}
	for fleet := range 10 {
		var down, up, step, fixed [3]float64
		var downs, ups [3][]float64
		for i := range down {
			down[i], up[i], step[i], fixed[i] = 2+30*r.Float64(), 1+9*r.Float64(), 0.01+0.1*r.Float64(), 0.2*r.Float64()
		}
		spoil := func(n int, e *round.TaskReport) {
			i := e.Client - 5
			took := func(seconds, scatter float64) round.Time {
				return round.Time(math.Round(1e9 * seconds * math.Exp(scatter*r.NormFloat64())))
			}
			e.Plan.Download, e.Plan.Upload = took(megabits/down[i], 0.1), took(megabits/up[i], 0.2)
			e.Plan.Compute = took(fixed[i]+step[i]*float64(e.LocalSteps), 0)
			if n > 1 { // the first task is no part of the law
				downs[i], ups[i] = append(downs[i], e.Plan.Download.Seconds()), append(ups[i], e.Plan.Upload.Seconds())
			}
		}
		f, err := Run(made{text: three, classes: truth, rounds: 60, steps: decay, spoil: spoil}.play(t), false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range down {
			median := func(seconds []float64) float64 { slices.Sort(seconds); return seconds[len(seconds)/2] } // of 59
			d := &f.Devices[i]
			for j, x := range [4][2]float64{
				{d.DownloadMbps.Value, megabits / median(downs[i])}, {d.UploadMbps.Value, megabits / median(ups[i])},
				{d.SecondsPerStep.Value, step[i]}, {d.ComputeOverhead.Value, fixed[i]},
			} {
				worst[j] = max(worst[j], math.Abs(x[0]/x[1]-1))
				if worst[j] > 1e-5 {
					t.Errorf("fleet %d, device %d, value %d: %g, the times give %g", fleet, i, j, x[0], x[1])
				}
			}
		}
	}
	t.Logf("relative deviations of download, upload, step and overhead: %.1e", worst)
}
