package plan

import (
	"fmt"
	"math"
	"testing"

	"fedpace/internal/statistics"
	"fedpace/internal/testkit/slow"
	"fedpace/study"
	"fedpace/study/choice"
)

// Ten settings are trained with 200 seeds, which shows their order. A plan that has 3 to 12 of these seeds, and
// 5 fresh ones, recommends a setting within noise of the best in at least 95 of 100 repetitions, each with
// other seeds. Noise is half of the 95 % interval that all seeds of a repetition give for the difference of
// the two settings.
func TestPlan_PlantedOrderInTraining(t *testing.T) {
	slow.Test(t, "trains ten settings with 200 seeds")
	const seeds = 200
	q := small("evaluate.every=1", "stop.rounds=40", "schedule.eta0=0.05", "schedule.k0=10")
	q.Schedules, q.Grids = []string{"fixed"}, []study.Grid{{Key: "schedule.k0", Values: []string{"1", "2", "3", "4", "6", "8", "10", "14", "20", "40"}}}
	q.Learn, q.Draws = 10, 1
	q.Limits = choice.Limits{Seeds: seeds}
	p := made(t, q, t.TempDir())
	if len(p.trainedSettings) != 10 {
		t.Fatalf("%d settings were trained, want 10", len(p.trainedSettings))
	}
	var means []float64
	least := math.Inf(1)
	for i, s := range p.trainedSettings {
		var list []float64
		for n := range s.Trained.tails {
			list = append(list, p.tailError(s, n))
		}
		means = append(means, statistics.EstimateMean(list).Mean)
		least = min(least, means[i])
		t.Logf("%s: error %v", s.Name, statistics.EstimateMean(list))
	}
	limits := choice.Limits{Seeds: 3, MaxSeeds: 12, Fresh: 5}
	within, exact, trials := 0, 0, 0
	for repetition := range 100 {
		// 17 of the 200 seeds, others in each repetition.
		seed := func(n int) int { return (repetition*37 + n*11) % seeds }
		play := func(settings []int, first, count int) (lists [][]float64, err error) {
			for _, i := range settings {
				var list []float64
				for n := first; n < first+count; n++ {
					list = append(list, p.tailError(p.trainedSettings[i], seed(n)))
				}
				lists = append(lists, list)
			}
			return lists, nil
		}
		o, err := choice.Search(len(p.trainedSettings), nil, limits, play)
		if err != nil {
			t.Fatal(err)
		}
		trials += o.Trials
		chosen := o.Chosen().Setting
		if means[chosen] == least {
			exact++
			within++
			continue
		}
		var differences []float64
		for n := range limits.Total() {
			best := 0
			for i := range means {
				if means[i] == least {
					best = i
				}
			}
			differences = append(differences, p.tailError(p.trainedSettings[chosen], seed(n))-p.tailError(p.trainedSettings[best], seed(n)))
		}
		if means[chosen]-least <= statistics.EstimateMean(differences).Half {
			within++
		}
	}
	text := fmt.Sprintf("%d of 100 within noise of the best, %d exactly the best, %d of %d runs", within, exact, trials/100, 10*limits.Total())
	t.Log(text)
	if within < 95 {
		t.Error(text)
	}
}
