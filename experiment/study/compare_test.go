package study

import (
	"encoding/csv"
	"errors"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/run/runtest"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompareSharesCohortsAndTime(t *testing.T) {
	c := runtest.Small(t, "stop.rounds=8")
	r, err := Compare(t.Context(), c, []string{"dsgd", "fixed", "k-rounds"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fixed := r.Runs[1]
	if r.Reference != "fixed" || fixed.Summary.Rounds != 8 || *fixed.Summary.RelativeSGDSteps != 1 {
		t.Errorf("K-eta-fixed: %+v", fixed.Summary)
	}
	if r.TargetLoss != *fixed.Summary.BestTrainingLoss || math.IsNaN(fixed.TimeToTarget) {
		t.Errorf("K-eta-fixed reaches its own best loss %g at %g s", r.TargetLoss, fixed.TimeToTarget)
	}
	for _, run := range r.Runs {
		if s := run.Summary; s.VirtualSeconds > fixed.Summary.VirtualSeconds || s.Rounds < 8 {
			t.Errorf("%s: %d rounds in %g s; fixed has %g s", s.Schedule, s.Rounds, s.VirtualSeconds, fixed.Summary.VirtualSeconds)
		}
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"dsgd", "fixed", "k-rounds", "relative", "time to fixed's best loss"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	// The same cohorts: first-step losses of round 1 are the same numbers.
	first := map[string]bool{}
	for _, name := range []string{"dsgd", "fixed", "k-rounds"} {
		f, err := os.Open(filepath.Join(c.Out, name, folder.RoundsFile))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		first[rows[1][12]] = true
	}
	if len(first) != 1 {
		t.Errorf("round 1 has different losses: %v", first)
	}
}

// A comparison of random devices times the fixed schedule once, and each run has
// its time as if it were alone.
func TestAComparisonTimesTheFixedScheduleOnce(t *testing.T) {
	c := runtest.Stragglers(t, "train=false", "stop={rounds: 30}")
	timed := 0
	r, err := Compare(t.Context(), c, []string{config.Fixed, "k-rounds", "dsgd"}, run.Options{Notice: func(line string) {
		if strings.Contains(line, "timing 30 of the fixed") {
			timed++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	alone := runtest.Stragglers(t, "train=false", "stop={equal_runtime_rounds: 30, rounds: null}", "schedule.k=dsgd")
	if want := mustRun(t, alone, run.Options{}); timed != 1 || r.Runs[2].Summary.Fingerprint != want.Fingerprint {
		t.Errorf("timed %d times; %+v, alone %+v", timed, r.Runs[2].Summary, want)
	}
}

func mustRun(t testing.TB, c config.Config, o run.Options) folder.Summary {
	t.Helper()
	s, err := run.Run(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
