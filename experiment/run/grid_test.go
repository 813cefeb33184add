package run

import (
	"path/filepath"
	"slices"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// evaluatedAfter are the rounds of a run whose models were measured.
func evaluatedAfter(t *testing.T, dir string) (rounds []int) {
	t.Helper()
	for r, err := range folder.Reports(filepath.Join(dir, folder.RoundsFile)) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Evaluated {
			rounds = append(rounds, r.Round)
		}
	}
	return rounds
}

// On a grid of seconds the first round that ends at an instant or later is evaluated, which
// changes no history. FEMNIST's K-eta-fixed rounds take 1.7455 s at K_0 = 4 (Eq. 4).
func TestEvaluations_GridOfTime(t *testing.T) {
	slow.NotUnderRace(t)
	play := func(sets ...string) (folder.Summary, []int) {
		c := runtest.Small(t, append([]string{"cohort=2", "evaluate.samples=100", "schedule.k=fixed", "stop.rounds=9"}, sets...)...)
		return mustRun(t, c, Options{Version: "v"}), evaluatedAfter(t, c.Out)
	}
	by, rounds := play()
	for _, x := range []struct {
		every string
		want  []int
	}{
		{"fixed", []int{3, 6, 9}},
		{"5.2365", []int{3, 6, 9}}, // 3 rounds
		{"5.2366", []int{4, 7}},
		{"4", []int{3, 5, 7}},
		{"1", []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"100", nil},
	} {
		s, got := play("evaluate.every_seconds=" + x.every)
		if !slices.Equal(got, x.want) {
			t.Errorf("every %s s: evaluated after rounds %v, want %v", x.every, got, x.want)
		}
		if s.Fingerprint != by.Fingerprint || *s.ModelSHA256 != *by.ModelSHA256 || *s.ValidationLoss != *by.ValidationLoss {
			t.Errorf("every %s s: the run has other bits than the one evaluated after rounds %v", x.every, rounds)
		}
	}
}

// Where rounds are not alike, those of K-eta-fixed are played for their time: unlike rounds
// take as long on the mean, and every third is about an instant.
func TestEvaluations_GridOfUnequalRounds(t *testing.T) {
	c := runtest.Stragglers(t, "schedule.k=fixed", "stop.rounds=12", "evaluate.every=3", "evaluate.every_seconds=fixed")
	mustRun(t, c, Options{Version: "v"})
	got := evaluatedAfter(t, c.Out)
	if len(got) < 2 || len(got) > 8 || got[0] != 3 {
		t.Errorf("evaluated after rounds %v of 12: the first three are those that were played", got)
	}
}
