package run

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"weak"

	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/experiment/runtest"
)

// A comparison keeps the summaries of hundreds of runs. One that pointed into its run would keep
// the models and all that clients keep, too.
func TestSummary_KeepsNoRun(t *testing.T) {
	c, err := config.Load("", []string{"task=shakespeare", "data=synthetic", "clients=8", "cohort=2", "out=" + t.TempDir(), "fleet=[{name: phone, watts: 2}]"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := new(Options).prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := newRecorder(t.Context(), p, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, kept := r.summary(&coordinator.Result{}), weak.Make(r)
	if s.Tokens == nil || s.EnergyJoules == nil {
		t.Fatal("the summary has no tokens or no energy")
	}
	if err := r.outputs.Close(nil); err != nil {
		t.Fatal(err)
	}
	r = nil
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the summary keeps the run's recorder in memory")
	}
	runtime.KeepAlive(s)
}

// A window without any loss does not make the lowest loss unknown again.
func TestLowest_WithoutLosses(t *testing.T) {
	none := math.NaN()
	for _, x := range []struct{ soFar, loss, want float64 }{
		{none, 2, 2}, {2, 1, 1}, {1, 2, 1}, {1, none, 1}, {none, none, none},
	} {
		if got := lowest(x.soFar, x.loss); got != x.want && !(math.IsNaN(got) && math.IsNaN(x.want)) {
			t.Errorf("the lower of %v and %v is %v, want %v", x.soFar, x.loss, got, x.want)
		}
	}
}

// In hours of 400 g and 0.25 a kilowatt-hour, a run's emissions and its cost are its energy times these.
func TestSummary_CarbonAndCost(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "grid.csv")
	const grid = "hour,zone,grams,price\n2024-03-01 10:00,DEU,400,0.25\n2024-03-01 11:00,DEU,400,0.25\n"
	if err := os.WriteFile(file, []byte(grid), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := func(columns string) string {
		return "carbon={file: " + file + ", columns: " + columns + ", start: 2024-03-01T10:30:00Z, zone: DEU, source: made, year: 2024}"
	}
	priced := mustRun(t, runtest.Stragglers(t, "train=false", trace("[hour, zone, grams, price]"), "fleet=[{name: phone, watts: 4}]"), Options{})
	kilowattHours := priced.EnergyJoules.All() / 3.6e6
	if priced.CarbonGrams == nil || math.Abs(*priced.CarbonGrams-400*kilowattHours) > 1e-9 {
		t.Errorf("%v g of CO2, want %v", priced.CarbonGrams, 400*kilowattHours)
	}
	if priced.EnergyCost == nil || math.Abs(*priced.EnergyCost-kilowattHours/4) > 1e-12 {
		t.Errorf("the energy costs %v, want %v", priced.EnergyCost, kilowattHours/4)
	}
	unpriced := mustRun(t, runtest.Stragglers(t, "train=false", trace("[hour, zone, grams]"), "fleet=[{name: phone, watts: 4}]"), Options{})
	if unpriced.CarbonGrams == nil || unpriced.EnergyCost != nil {
		t.Errorf("without prices: %v g, cost %v", unpriced.CarbonGrams, unpriced.EnergyCost)
	}
}
