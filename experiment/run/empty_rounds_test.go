package run

import (
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
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
