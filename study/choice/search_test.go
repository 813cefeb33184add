package choice

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/internal/statistics"
)

// planted is a problem with a known order: the error of each setting with each seed.
type planted [][]float64

// plant draws ten settings with 200 seeds. Setting i has the mean error 0.2 + 0.004 i. Runs with one seed
// share a deviation of 0.02, as runs with the same data and cohorts do, and each has its own of 0.01.
func plant(random *rand.Rand) planted {
	const seeds = 200
	shared := make([]float64, seeds)
	for n := range shared {
		shared[n] = 0.02 * random.NormFloat64()
	}
	p := make(planted, 10)
	for i := range p {
		for n := range seeds {
			p[i] = append(p[i], 0.2+0.004*float64(i)+shared[n]+0.01*random.NormFloat64())
		}
	}
	return p
}

// play tries settings with seeds from a first one of the table on.
func (p planted) play(offset int) Play {
	return func(settings []int, first, count int) ([][]float64, error) {
		var lists [][]float64
		for _, i := range settings {
			lists = append(lists, p[i][offset+first:offset+first+count])
		}
		return lists, nil
	}
}

// behind is by how much a setting is worse than the best one by all seeds of the table.
func (p planted) behind(setting int) float64 {
	least := math.Inf(1)
	for _, list := range p {
		least = min(least, statistics.EstimateMean(list).Mean)
	}
	return statistics.EstimateMean(p[setting]).Mean - least
}

// cheapestOfAlike is the rule that this package replaces: the setting with the last index, which stands
// for the cheapest one, among those that three seeds do not tell from the best one.
func (p planted) cheapestOfAlike(offset int) int {
	const seeds = 3
	sample := func(i int) []float64 { return p[i][offset : offset+seeds] }
	best := 0
	for i := range p {
		if statistics.EstimateMean(sample(i)).Mean < statistics.EstimateMean(sample(best)).Mean {
			best = i
		}
	}
	chosen := best
	for i := range p {
		differences := make([]float64, seeds)
		for n := range differences {
			differences[n] = sample(i)[n] - sample(best)[n]
		}
		if e := statistics.EstimateMean(differences); math.Abs(e.Mean) <= e.Half {
			chosen = max(chosen, i)
		}
	}
	return chosen
}

// Of ten settings with an order that 200 seeds show, the search recommends one within the noise of its own
// seeds in at least 95 of 100 repetitions. That noise is half of the 95 % interval that all its seeds
// give for a difference.
func TestSearch_PlantedOrder(t *testing.T) {
	limits := Limits{Seeds: 3, MaxSeeds: 12, Fresh: 5}
	random := rand.New(rand.NewPCG(20261128, 1))
	noise := 2.12 * 0.01 * math.Sqrt2 / math.Sqrt(float64(limits.Total()))
	within := 0
	exact := 0
	replacedWithin := 0
	trials := 0
	var fresh, searched, truth float64
	for range 100 {
		p := plant(random)
		offset := random.IntN(200 - limits.Total())
		o, err := Search(len(p), nil, limits, p.play(offset))
		if err != nil {
			t.Fatal(err)
		}
		chosen := o.Chosen()
		trials += o.Trials
		if p.behind(chosen.Setting) <= noise {
			within++
		}
		if p.behind(chosen.Setting) == 0 {
			exact++
		}
		if p.behind(p.cheapestOfAlike(offset)) <= noise {
			replacedWithin++
		}
		fresh += statistics.EstimateMean(chosen.Fresh).Mean / 100
		searched += statistics.EstimateMean(chosen.Searched).Mean / 100
		truth += statistics.EstimateMean(p[chosen.Setting]).Mean / 100
	}
	t.Logf("within noise %d, exactly the best %d, %d with the rule before; %d trials of %d; error %.4f fresh, %.4f searched, %.4f by all seeds",
		within, exact, replacedWithin, trials/100, 10*limits.Total(), fresh, searched, truth)
	if within < 95 {
		t.Errorf("%d of 100 choices are within noise of the best, want at least 95", within)
	}
	if replacedWithin >= within {
		t.Errorf("the rule before has %d of 100, no fewer than %d", replacedWithin, within)
	}
	if math.Abs(fresh-truth) > 0.003 {
		t.Errorf("fresh seeds say %.4f of the chosen setting, all seeds %.4f", fresh, truth)
	}
}

// With constant differences every number can be worked out by hand.
func TestSearch_Standings(t *testing.T) {
	errors := planted{
		{5, 6, 7, 5, 6, 7, 5, 6},
		{1, 2, 3, 1, 2, 3, 1, 2},
		{2, 2, 3, 2, 2, 4, 1, 3},
		{math.NaN(), 0, 0, 0, 0, 0, 0, 0},
	}
	o, err := Search(len(errors), []int{0}, Limits{Seeds: 3, MaxSeeds: 6, Fresh: 2}, errors.play(0))
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	for _, s := range o.Standings {
		order = append(order, s.Setting)
	}
	// 1 is the best, 0 was always to be tried with fresh seeds, and 3 has a run without a result.
	if want := []int{1, 2, 0, 3}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	// Settings 0, 1 and 2 have no deviation from 1 or a small one; the three first seeds leave all three, of
	// which two go on: 4·3 + 2·3 trials. Then three settings have two fresh seeds.
	if want := 12 + 6 + 6; o.Trials != want {
		t.Errorf("%d trials, want %d", o.Trials, want)
	}
	second := o.Standings[1]
	// The differences of setting 2 from setting 1 are 1, 0, 0, 1, 0, 1, 0 and 1.
	if second.Behind.Mean != 0.5 || second.Behind.N != 8 {
		t.Errorf("setting 2 is %v behind with %d seeds, want 0.5 with 8", second.Behind, second.Behind.N)
	}
	// Their deviation is 0.5345, and 2.3646·0.5345/√8 = 0.4469 is below 0.5: they are told apart, by seven
	// seeds as well (2.4469·0.5345/√7 = 0.4943), not by six (2.5706·0.5345/√6 = 0.5609).
	if !second.Distinct || second.SeedsToDecide != 7 {
		t.Errorf("apart %v, %d seeds decide, want true and 7", second.Distinct, second.SeedsToDecide)
	}
	if !o.Confirmed {
		t.Error("no other setting is better with the fresh seeds, but the choice is not confirmed")
	}
}

// A choice that the fresh seeds do not bear out is not confirmed, and one without fresh seeds is not, either.
func TestSearch_NotConfirmed(t *testing.T) {
	errors := planted{{1, 1.5, 1, 5, 5.5}, {2, 2, 2.5, 4.5, 5}}
	for fresh, chosen := range map[int]int{0: 0, 2: 0} {
		o, err := Search(len(errors), nil, Limits{Seeds: 3, Fresh: fresh}, errors.play(0))
		if err != nil {
			t.Fatal(err)
		}
		if o.Confirmed || o.Chosen().Setting != chosen {
			t.Errorf("%d fresh seeds: setting %d, confirmed %v", fresh, o.Chosen().Setting, o.Confirmed)
		}
	}
}

// Setting 1 has the lower error with one fresh seed and no result with the other, as after a divergence: it is
// not better, so the choice of setting 0 is confirmed.
func TestSearch_ConfirmedAgainstDiverged(t *testing.T) {
	errors := planted{{1, 1, 1, 3, 3}, {2, 2, 2, math.NaN(), 1}}
	o, err := Search(len(errors), nil, Limits{Seeds: 3, Fresh: 2}, errors.play(0))
	if err != nil {
		t.Fatal(err)
	}
	if !o.Confirmed || o.Chosen().Setting != 0 {
		t.Errorf("setting %d, confirmed %v, want 0 and true", o.Chosen().Setting, o.Confirmed)
	}
}

// Equal errors are never told apart, and no number of seeds would decide.
func TestSearch_EqualSettings(t *testing.T) {
	errors := planted{{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}}
	o, err := Search(len(errors), nil, Limits{Seeds: 2, MaxSeeds: 3, Fresh: 2}, errors.play(0))
	if err != nil {
		t.Fatal(err)
	}
	if s := o.Standings[1]; s.Distinct || s.SeedsToDecide != Unknown || s.Behind.Mean != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := Search(0, nil, Limits{Seeds: 1}, errors.play(0)); err == nil {
		t.Error("a search without settings gives no error")
	}
}
