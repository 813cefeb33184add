package study

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
	"fedpace/learn/metric"
)

// planted are pairs of runs with the same seeds: what they have in common, what each has alone
// with a standard deviation of one, and a gain of the second schedule.
func planted(r *rand.Rand, seeds int, gain float64) *Comparison {
	c := &Comparison{Plan: Plan{Seeds: seeds}, Reference: "fixed"}
	common := make([]float64, seeds)
	for i := range common {
		common[i] = 10 * r.NormFloat64()
	}
	for _, schedule := range []string{"fixed", "rounds"} {
		for i := range seeds {
			cell := Cell{Schedule: schedule, Config: config.Config{Seed: uint64(i)}}
			cell.Summary = folder.Summary{VirtualSeconds: 10, Metrics: []folder.Metric{{Name: metric.Accuracy}}}
			cell.Tail, cell.quality = common[i]+r.NormFloat64(), metric.Metric{Name: metric.Accuracy}
			if schedule != "fixed" {
				cell.Tail += gain
			}
			cell.TimeToLevel = math.NaN()
			c.Runs = append(c.Runs, cell)
		}
	}
	for i := range seeds {
		c.Runs[seeds+i].reference = &c.Runs[i]
	}
	return c
}

// verdicts counts what so many comparisons say of how well runs end.
func verdicts(seeds, times int, gain float64) (none, better, worse float64) {
	r := rand.New(rand.NewPCG(40, uint64(seeds)))
	for range times {
		d := planted(r, seeds, gain).Table().Differences()[0]
		switch v := d.Verdict(); {
		case strings.HasPrefix(v, "no difference seen"):
			none++
		case v == "better":
			better++
		case v == "worse":
			worse++
		}
	}
	return none / float64(times), better / float64(times), worse / float64(times)
}

// A schedule against itself, with seeds of its own, shows no difference, but for as many times as
// intervals of 95 % miss; and a gain of two standard errors is found as often as theory says.
func TestDifference_Seen(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for _, seeds := range []int{3, 5, 10} {
		none, _, _ := verdicts(seeds, 500, 0)
		if none < 0.93 {
			t.Errorf("of %d seeds %.3f of 500 comparisons of a schedule with itself see no difference, want 0.93", seeds, none)
		}
		// The mean of differences with the deviation √2 has the standard error √(2/n).
		_, found, missed := verdicts(seeds, 2000, 2*math.Sqrt(2/float64(seeds)))
		if want := power(seeds, 2); math.Abs(found-want) > 0.05 {
			t.Errorf("of %d seeds a gain of two standard errors is found in %.3f, and theory says %.3f (seen as worse: %.3f)", seeds, found, want, missed)
		}
		t.Logf("%d seeds: none seen %.3f, found %.3f, theory %.3f", seeds, none, found, power(seeds, 2))
	}
}

// power is how often a paired t test of n differences finds a mean of so many standard errors: the
// probability that a normal Z above it exceeds t_{0.975} s/σ, integrated over s²/σ², which is a
// chi-squared with n - 1 degrees of freedom divided by them.
func power(n int, errors float64) float64 {
	freedom := float64(n - 1)
	limit, chi := distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(0.975), distuv.ChiSquared{K: freedom}
	return quad.Fixed(func(x float64) float64 {
		return chi.Prob(x) * distuv.UnitNormal.Survival(limit*math.Sqrt(x/freedom)-errors)
	}, 0, 100, 2000, nil, 0)
}

// What an interval does not show is not said.
func TestVerdicts_Decisions(t *testing.T) {
	for want, values := range map[string][]float64{
		"-": {math.NaN()}, "one seed decides nothing": {1}, "no difference seen": {0.9, 1.1, 2.5, -0.1}, "not decided: all seeds agree": {1, 1}, "better": {1, 1.1, 0.9}, "worse": {-1, -1.1, -0.9},
	} {
		c := planted(rand.New(rand.NewPCG(1, 1)), len(values), 0)
		for i, v := range values {
			c.Runs[len(values)+i].Tail = c.Runs[i].Tail*0 + v
			c.Runs[i].Tail = 0
		}
		if d := c.Table().Differences()[0]; d.Verdict() != want {
			t.Errorf("%v: %q, want %q", values, d.Verdict(), want)
		}
	}
}

// Where a table has two comparisons, an interval that leaves out zero is not enough.
func TestVerdicts_FollowHolm(t *testing.T) {
	c := planted(rand.New(rand.NewPCG(1, 1)), 4, 0)
	for i := range c.Runs {
		c.Runs[i].Tail = []float64{0, 0, 0, 0, 1, 2, 2.5, 0.6}[i] // p = 0.039
	}
	if d := c.Table().Differences()[0]; d.Verdict() != "better" {
		t.Errorf("alone: p %v, Holm's %v: %s", d.P(), d.Adjusted, d.Verdict())
	}
	for i := range c.Runs {
		c.Runs[i].TimeToLevel = []float64{1, 2, 1, 2, 2, 1, 2, 2}[i]
	}
	if d := c.Table().Differences()[0]; d.Adjusted != 2*d.P() || d.Verdict() != "not decided: may be chance" {
		t.Errorf("beside another: p %v, Holm's %v: %s", d.P(), d.Adjusted, d.Verdict())
	}
}

// A mean of the seeds that were fast enough is none, whichever run was too slow with the others; the
// table says how many have a value.
func TestDifference_UnreachedLevel(t *testing.T) {
	for never, want := range map[int]string{4: "reached by fixed alone with 1 of 3 seeds", 1: "reached by rounds alone with 1 of 3 seeds"} {
		c := planted(rand.New(rand.NewPCG(1, 1)), 3, 0)
		for i := range c.Runs {
			c.Runs[i].TimeToLevel = float64(i)
		}
		c.Runs[never].TimeToLevel = math.NaN()
		c.Runs[0].Config.Expect = []string{"seconds_to_level < 100", `gain("rounds", "fixed", "seconds_to_level") < 100`}
		passed := 0
		for _, o := range c.Expected() {
			if o.Passed {
				passed++
			}
		}
		if passed != 1 { // of the means: the other schedule's
			t.Errorf("%d expectations hold, want 1: %+v", passed, c.Expected())
		}
		if d := c.Table().Differences()[1]; d.Verdict() != want || d.N != 0 || !math.IsNaN(d.Adjusted) {
			t.Errorf("%q, want %q: %v, p %v", d.Verdict(), want, d.Estimated, d.Adjusted)
		}
		if text := c.Table().Rows[never/3].meanText(columnOf(toLevel)); !strings.HasSuffix(text, " (2 of 3)") {
			t.Errorf("the mean of two of three seeds is %q", text)
		}
	}
	c := planted(rand.New(rand.NewPCG(1, 1)), 3, 0)
	for i := range c.Runs {
		c.Runs[i].TimeToLevel = []float64{math.NaN(), math.NaN(), 1, 1, 1, math.NaN()}[i]
	}
	if v := c.Table().Differences()[1].Verdict(); v != "reached by rounds alone with 2, by fixed alone with 1 of 3 seeds" {
		t.Error(v)
	}
}

// What is seen of the seeds whose runs did not diverge is said of these alone.
func TestVerdict_NumberOfSeeds(t *testing.T) {
	c := planted(rand.New(rand.NewPCG(1, 1)), 4, 100)
	c.Runs[5].Diverged = "it did"
	if d := c.Table().Differences()[0]; d.Verdict() != "better (3 of 4 seeds)" {
		t.Error(d.Verdict())
	}
}

// The values 4 and 1 of 8 seconds and of 2 are 3.4 on the mean of all ten, 1.75 of the last
// 2.5 + and so on, however their time is cut; a span that is not full has no mean.
func TestTail_MeanOverSpan(t *testing.T) {
	var whole, cut Tail
	whole.Add(0, 8, 4)
	whole.Add(8, 10, 1)
	for i := range 10 {
		cut.Add(float64(i), float64(i+1), []float64{4, 1}[i/8])
	}
	for span, want := range map[float64]float64{10: 3.4, 2: 1, 4: 2.5, 1: 1} {
		if a, b := whole.MeanOver(span, 1), cut.MeanOver(span, 9); math.Abs(a-want) > 1e-12 || math.Abs(b-want) > 1e-12 {
			t.Errorf("over %v s: %v and %v, want %v", span, a, b, want)
		}
	}
	if v := cut.MeanOver(4, 2); !math.IsNaN(v) {
		t.Errorf("3 s are a span of 4: %v", v)
	}
	if at := cut.firstReaching(4, func(mean float64) bool { return mean <= 2.5 }); at != 10 {
		t.Errorf("2.5 is reached at %v s, want 10", at)
	}
	if at := whole.firstReaching(9.5, func(float64) bool { return false }); !math.IsNaN(at) {
		t.Errorf("what is never reached is at %v", at)
	}
}

// No rounding puts the level beyond the run that sets it: 4820 units of 0.0001 are above 0.482.
func TestComparison_TimeToLevel(t *testing.T) {
	for _, lower := range []bool{false, true} {
		for i := range 2000 {
			end := float64(i) / 500
			c := &Cell{Schedule: "fixed"}
			c.timedMetric, c.Tail = metric.Metric{Lower: lower}, end
			c.validations.Observe(1, end)
			(&Comparison{Reference: "fixed"}).setLevel([]*Cell{c})
			if !c.timedMetric.Reaches(end, c.Level) {
				t.Fatalf("a run that ends at %v does not come to its level, %v", end, c.Level)
			}
		}
	}
}

// Where a run was never evaluated, all at its point are timed by their training losses. The higher accuracy of
// the others is better nevertheless.
func TestDifference_UnevaluatedRun(t *testing.T) {
	c := planted(rand.New(rand.NewPCG(3, 3)), 20, 5)
	unevaluated := Cell{Schedule: "error", Config: config.Config{Seed: 0}}
	unevaluated.Tail = math.NaN()
	c.Runs = append(c.Runs, unevaluated)
	cells := make([]*Cell, len(c.Runs))
	for i := range c.Runs {
		cells[i] = &c.Runs[i]
	}
	c.setLevel(cells)
	d := c.Table().Differences()[0]
	if got := d.Verdict(); d.Mean <= 0 || got != "better" {
		t.Errorf("an accuracy that is higher by %.3g is called %q", d.Mean, got)
	}
}

// What a comparison says of schedules that read no loss does not depend on the rounds over which the
// training loss is averaged.
func TestComparison_IndependentOfWindow(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	said := map[string]string{}
	for _, window := range []string{"1", "10", "100"} {
		s := smallSweep(t, "stop.rounds=40", "evaluate.every=2", "schedule.window="+window)
		s.Grids, s.Seeds = nil, 3
		r, err := Run(t.Context(), s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := r.Write(&text); err != nil {
			t.Fatal(err)
		}
		said[text.String()] = window
		if e := r.Table().Rows[1].Means[columnOf(toLevel)]; e.N == 0 || !(e.Mean > 0) {
			t.Errorf("window %s: the level is reached after %v s", window, e)
		}
	}
	if len(said) != 1 {
		t.Errorf("windows change what a comparison says: %v", said)
	}
}
