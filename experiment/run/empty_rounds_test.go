package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/metrics/live"
)

// TestRun_KFallsThroughEmptyRounds has a deadline that no client can meet: K_r-rounds decays all the same,
// by Eq. 10 from 80 to ceil(80/cbrt(2)) = 64 and ceil(80/cbrt(3)) = 56.
func TestRun_KFallsThroughEmptyRounds(t *testing.T) {
	t.Parallel()
	c := config.Demonstration()
	c.Train = false
	c.Clients = 20
	c.Cohort = 5
	c.Close = closing.Deadline{Seconds: 0.001}
	c.Stop.Rounds = 3
	c.Out = filepath.Join(t.TempDir(), "run")
	if _, err := Run(t.Context(), c, Options{}); err != nil {
		t.Fatal(err)
	}
	var steps []int
	for r, err := range folder.Reports((&folder.Run{Dir: c.Out}).Path(folder.RoundsFile)) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcomes[round.Accepted] != 0 {
			t.Errorf("round %d has %d updates", r.Round, r.Outcomes[round.Accepted])
		}
		steps = append(steps, r.LocalSteps)
	}
	if len(steps) != 3 || steps[0] != 80 || steps[1] != 64 || steps[2] != 56 {
		t.Errorf("K is %v, want 80, 64, 56", steps)
	}
}

// A run that can get no update says so in its dry run, with the remedy that goes with how its tasks end.
func TestDryRun_NoUpdates(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		"close={rule: deadline, seconds: 0.001}": "none did in the 6 rounds tried, so the model would stay as it " +
			"begins (give clients more time by close, or lower schedule.k0)",
		"dropout.probability=1": "tried, so the model would stay as it begins (let fewer clients drop out, by dropout or availability)",
		"stop={virtual_seconds: 0.001}": "the run ends within its first round, so the model would stay as it begins " +
			"(let the run last longer by stop, or lower schedule.k0)",
	} {
		f, err := DryRun(t.Context(), runtest.Small(t, sets), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := f.Write(&text); err != nil {
			t.Fatal(err)
		}
		if !f.NoUpdates || !strings.Contains(text.String(), want) {
			t.Errorf("%s: no %q in\n%s", sets, want, text.String())
		}
	}
}

// A class that meets no deadline is named at the end of a run in which others do.
func TestRun_ClassWithoutUpdates(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "train=false", "clients=20", "cohort=10", "stop.rounds=5", "schedule={k: fixed, k0: 10}",
		"compute.std=0", "close={rule: deadline, seconds: 0.2}",
		"fleet=[{name: laptop, count: 12, seconds_per_step: 0.01, download_mbps: 500, upload_mbps: 500}, "+
			"{name: board, count: 8, seconds_per_step: 0.1, download_mbps: 500, upload_mbps: 500}]")
	var said []string
	mustRun(t, c, Options{Callbacks: Callbacks{Notice: func(line string) { said = append(said, line) }}})
	text := strings.Join(said, "\n")
	if !strings.Contains(text, "No update of class board counts: ") || strings.Contains(text, "class laptop") {
		t.Errorf("the class without updates is not named: %q", said)
	}
	page, err := os.ReadFile(filepath.Join(c.Out, live.File))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "No update of class board counts: ") {
		t.Error("the page does not warn of a class without updates")
	}
}
