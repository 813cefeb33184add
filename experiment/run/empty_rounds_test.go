package run

import (
	"path/filepath"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
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
