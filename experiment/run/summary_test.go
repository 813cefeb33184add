package run

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"fedpace/config"
	"fedpace/coordinator"
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
	r, err := newRecorder(p, nil, 0, time.Now())
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
