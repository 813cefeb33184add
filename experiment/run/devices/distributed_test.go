package devices_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/experiment/run"

	"fedpace/algorithm/privacy"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
)

// Two runs that differ by their noise alone have models that differ by noise of the deviation that was
// asked for: less where more clients survive than the noise needs. A client's learning rate is next to
// nothing, so that the updates are.
func TestDistributedNoise_ModelDeviation(t *testing.T) {
	t.Parallel()
	const cohort = 40
	c := runtest.Small(t, "clients=60", fmt.Sprint("cohort=", cohort), "stop.rounds=1", "schedule.eta0=1e-9",
		"task=logistic", "logistic.features=1000",
		"secure_aggregation.on=true", "privacy.distributed={clip: 0.5, noise_multiplier: 4}")
	var model []float32
	var initial []float32
	var o run.Options
	o.Model = func(_ int, params []float32) { model = slices.Clone(params) }
	s := mustRun(t, c, o)
	quiet := runtest.Small(t, "clients=60", fmt.Sprint("cohort=", cohort), "stop.rounds=1", "schedule.eta0=1e-9",
		"task=logistic", "logistic.features=1000",
		"secure_aggregation.on=true")
	o.Model = func(_ int, params []float32) { initial = slices.Clone(params) }
	mustRun(t, quiet, o)
	square := 0.0
	for i := range model {
		d := float64(model[i]) - float64(initial[i])
		square += d * d
	}
	got := math.Sqrt(square / float64(len(model)))
	// 32 of 40 survive at least, of which 4 collude: the noise is whole with 28. The mean over 40 has the
	// noise of 40.
	const honest = 32 - 4
	want := 0.5 * 4 / math.Sqrt(honest) * math.Sqrt(cohort) / cohort
	if math.Abs(got-want) > 5*want/math.Sqrt(2*float64(len(model))) {
		t.Errorf("the model's noise has the deviation %.6g, want %.6g", got, want)
	}
	v := s.DistributedNoise
	if v == nil || v.Survivors != 32 || v.Members != 40 || v.Colluders != 4 || v.Rounds != 1 || !v.Simulated {
		t.Fatalf("the summary has %+v", v)
	}
	// The grid is so fine that the figures are those of the ratio itself.
	for _, x := range []struct {
		name      string
		got, want float64
	}{
		{"replace one", v.ReplaceOne.Concentrated, privacy.ConcentratedEpsilon(2./4, 1, 1e-5)},
		{"zero out", v.ZeroOut.Concentrated, privacy.ConcentratedEpsilon(1./4, 1, 1e-5)},
		{"replace one by the simple formula", v.ReplaceOne.Simple, privacy.SimpleEpsilon(2./4, 1, 1e-5)},
	} {
		if math.Abs(x.got-x.want) > 2e-4*x.want {
			t.Errorf("%s: epsilon %v, want %v", x.name, x.got, x.want)
		}
	}
	if v.ReplaceOne.Tight == nil || math.Abs(*v.ReplaceOne.Tight-1.993) > 1e-3 {
		t.Errorf("by privacy loss distributions %v, want 1.993", v.ReplaceOne.Tight)
	}
}

// A round in which more clients leave than the noise allows for is refused, so that its sum, with less
// noise, is never seen.
func TestDistributedNoise_TooFewSurvivors(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "clients=60", "cohort=20", "stop.rounds=8", "dropout.probability=0.3", "task=logistic",
		"secure_aggregation.on=true", "privacy.distributed={clip: 1, noise_multiplier: 4}")
	s := mustRun(t, c, run.Options{})
	counted := int64(0)
	rounds, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, r := range rounds {
		refused += r.Secure.Unrecovered
		accepted := int64(r.Outcomes[round.Accepted])
		counted += accepted
		if accepted > 0 && accepted < 16 {
			t.Errorf("a round counts with %d survivors, want 16 at least", accepted)
		}
	}
	if counted != s.Outcomes[0] || counted == 0 || refused == 0 {
		t.Errorf("%d updates count and %d rounds are refused, want some of each", counted, refused)
	}
}

// Devices add their part of the noise before they mask: each word is a whole number of steps, and the
// model is that of the sum.
func TestDistributedNoise_RealDevices(t *testing.T) {
	t.Parallel()
	o, c, d := secureRun(t, "privacy.distributed={clip: 1, noise_multiplier: 4}", "devices.robust=false")
	models := d.played(t, o, c, func(o run.Options) error {
		s, err := run.Run(t.Context(), c, o)
		if err == nil && (s.DistributedNoise == nil || s.DistributedNoise.Simulated) {
			err = fmt.Errorf("the summary has %+v", s.DistributedNoise)
		}
		return err
	})
	d.expectModels(t, models, func(int) []string { return deviceIDs })
	// Five of eight count with 0.3 leaving, rounded down: 6; nobody colludes. The weight is 1 of 8.
	const step = 4.0 * (1 << 41)
	units := math.Ceil(step / math.Sqrt(6) / (1 << 24))
	square := 0.0
	n := 0
	for _, words := range d.words[1] {
		for _, w := range words {
			if int64(w)%int64(units) != 0 {
				t.Fatalf("%d is no multiple of the step %v", int64(w), units)
			}
			x := float64(int64(w)) / (1 << 41)
			square += x * x
			n++
		}
	}
	// Each has the noise of 4/√6, and the updates have a norm of at most 1 over all values.
	got := math.Sqrt(square / float64(n))
	if want := 4 / math.Sqrt(6); math.Abs(got-want) > 0.1*want {
		t.Errorf("the words have the deviation %.4g, want %.4g", got, want)
	}
}
