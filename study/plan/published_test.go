package plan_test

import (
	"math"
	"testing"

	"fedpace/experiment/run"
	"fedpace/study"
	"fedpace/study/choice"
	"fedpace/study/plan"
)

// What a plan says of a constant fleet is Eq. 3 to 5 and 10 in float64: rounds of K_r local steps
// that fit the time of 30 rounds with K_0 = 20, their steps, and the order by sqrt(N sum K_r) R.
func TestPlan_TimesByEquations(t *testing.T) {
	const megabits, down, up, step = 0.32, 20, 5, 0.01
	q := plan.Request{
		Sets:      []string{"task=sent140", "clients=20", "cohort=5", "schedule.k=fixed", "schedule.k0=20", "stop.rounds=30", "network={model_megabits: 0.32, download_mbps: 20, upload_mbps: 5}", "compute.seconds_per_step=0.01"},
		Schedules: []string{"fixed", "dsgd", "rounds"},
		Grids:     []study.Grid{{Key: "schedule.k0", Values: []string{"5", "10", "20", "40"}}, {Key: "cohort", Values: []string{"5", "10", "20"}}},
		Draws:     1,
		Limits:    choice.Limits{Seeds: 2},
	}
	p, err := plan.Make(t.Context(), q, t.TempDir(), study.Options{Run: run.Options{Version: "test"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	budget := 30 * (megabits/down + megabits/up + 20*step)
	if math.Abs(p.Seconds-budget) > 1e-6 || len(p.Settings) != 36 {
		t.Fatalf("%d settings of %g s, want 36 of %g", len(p.Settings), p.Seconds, budget)
	}
	number := map[string]float64{"5": 5, "10": 10, "20": 20, "40": 40}
	before := math.Inf(1)
	for _, s := range p.Settings {
		k0, cohort := number[s.Values[0]], number[s.Values[1]]
		rounds, steps, at := 0., 0., 0.
		for {
			k := k0
			switch s.Schedule {
			case "dsgd":
				k = 1
			case "rounds":
				for k > 1 && (k-1)*(k-1)*(k-1)*(rounds+1) >= k0*k0*k0 {
					k--
				}
			}
			if at += megabits/down + megabits/up + k*step; at > budget+1e-6 {
				break
			}
			rounds++
			steps += k
		}
		if s.Rounds.P50 != rounds || s.Steps.P50 != steps || s.Work.P50 != cohort*steps {
			t.Errorf("%s: %g rounds, %g steps, %g of all clients; the equations give %g, %g and %g", s.Name, s.Rounds.P50, s.Steps.P50, s.Work.P50, rounds, steps, cohort*steps)
		}
		score := math.Sqrt(cohort*steps) * rounds
		if score > before*(1+1e-12) {
			t.Errorf("%s with %g stands behind a setting with %g", s.Name, score, before)
		}
		before = score
	}
}
