package main

import (
	"math"
	"sort"
	"strings"

	"fedpace/coordinator/theory"
	"fedpace/internal/statistics"
	"fedpace/study/advise"
)

// gather makes the result of a plan from the traces of its runs, which stand as in [Plan.cells]: seeds
// within schedules.
func gather(p Plan, objective *advise.Objective, traces []*trace) *Result {
	r := &Result{
		Task:      string(p.Config.Task),
		Clients:   objective.Clients,
		Cohort:    p.Config.Cohort,
		Batch:     p.Config.Batch,
		Seeds:     p.Seeds,
		K0:        p.Config.Schedule.K0,
		Eta:       p.Config.Schedule.Eta0,
		Constants: objective.Theorem1,
		F0:        objective.Value(objective.Start),
		Distance:  objective.Distance(objective.Start),
	}
	// The paper calculates G from the distance to the optimum.
	r.PrintedG = theory.PrintedG(r.Constants.L, r.Distance)
	// Runs end with a whole round, so the longest one sets the end of the curves.
	for _, t := range traces {
		r.Limit = max(r.Limit, t.Limit)
	}
	// The traces of a schedule follow each other, one for each seed.
	for i, name := range p.Schedules {
		seeds := traces[i*p.Seeds : (i+1)*p.Seeds]
		// A schedule of the user's own is written NAME=DEFINITION.
		name, _, _ := strings.Cut(name, "=")
		// The bound of a schedule takes the largest gradient and variance that its runs met. Path.Second is the
		// largest mean square of a client's gradient norm, and so the square of G.
		constants := r.Constants
		constants.G = 0
		constants.Variance = 0
		for _, t := range seeds {
			constants.G = max(constants.G, math.Sqrt(t.Path.Second))
			constants.Variance = max(constants.Variance, t.Path.Variance)
		}
		r.Bounds = append(r.Bounds, r.bounds(name, constants, seeds)...)
		r.Curves = append(r.Curves, r.curve(name, seeds)...)
	}
	return r
}

// roundsFactor is by how much the number of rounds grows from one bound of a schedule to the next.
const roundsFactor = 1.3

// bounds calculates a schedule's bounds after numbers of rounds that grow by a constant factor, up to
// the number that all seeds completed. Means are over seeds.
func (r *Result) bounds(name string, constants theory.Constants, seeds []*trace) []Bound {
	// Bounds end where the first of the runs ends, because a mean needs all seeds.
	rounds := len(seeds[0].Steps)
	for _, t := range seeds {
		rounds = min(rounds, len(t.Steps))
	}
	// The same constants give the three forms of the theorem.
	inForm := func(f theory.Form) theory.Constants {
		c := constants
		c.Form = f
		return c
	}
	stated := inForm(theory.Statement)
	appendix := inForm(theory.Appendix)
	printed := inForm(theory.Statement)
	printed.G = r.PrintedG
	// Each seed counts the same in the means.
	share := 1 / float64(len(seeds))
	var list []Bound
	for _, n := range advise.Spaced(rounds, roundsFactor) {
		b := Bound{
			Schedule: name,
			Rounds:   n,
			G:        constants.G,
			Variance: constants.Variance,
		}
		var measured []float64
		// The bounds depend on the K and the learning rates that a run really had.
		for _, t := range seeds {
			steps := t.Steps[:n]
			rates := t.Rates[:n]
			measured = append(measured, t.meanSquare(n))
			b.Iterations += share * float64(sum(steps))
			b.Lemma2 += share * constants.Lemma2Rates(r.F0, rates, steps)
			b.Proof += share * constants.Theorem1Rates(r.F0, rates, steps).Total()
			b.Statement += share * stated.Theorem1Rates(r.F0, rates, steps).Total()
			b.Appendix += share * appendix.Theorem1Rates(r.F0, rates, steps).Total()
			b.PrintedG += share * printed.Theorem1Rates(r.F0, rates, steps).Total()
		}
		e := statistics.EstimateMean(measured)
		b.Measured = e.Mean
		b.Half = half(e.Half)
		b.Minimum = minSquare(seeds, b.Iterations)
		list = append(list, b)
	}
	return list
}

// meanSquare is the mean of ‖∇F(x̄_t)‖² over the iterations of the first n rounds that were measured.
// Theorem 1 weights iterations by their learning rates.
func (t *trace) meanSquare(n int) float64 {
	iterations := sum(t.Steps[:n])
	// Only every Stride-th iteration was measured.
	measured := min(len(t.Path.Squares), (iterations+t.Stride-1)/t.Stride)
	weighted := 0.0
	weights := 0.0
	// An iteration with a higher learning rate moves the model further and counts for more.
	for i, s := range t.Path.Squares[:measured] {
		weighted += t.Path.Rates[i] * s
		weights += t.Path.Rates[i]
	}
	return weighted / weights
}

// minSquare is the minimum over the first iterations of the mean over seeds of ‖∇F(x̄_t)‖². Only every Stride-th
// iteration was measured, and only those that begin a whole stride count.
func minSquare(seeds []*trace, iterations float64) float64 {
	// n is the number of values, of which Path.Squares has one a stride.
	n := int(iterations) / seeds[0].Stride
	// Runs may have different numbers of iterations, and only those that all have are averaged.
	for _, t := range seeds {
		n = min(n, len(t.Path.Squares))
	}
	low := math.Inf(1)
	// Even before the first round ends there is a value: that at the start.
	for i := range max(1, n) {
		sum := 0.0
		// The mean over seeds comes first, because the theorem bounds an expectation.
		for _, t := range seeds {
			sum += t.Path.Squares[i]
		}
		low = min(low, sum/float64(len(seeds)))
	}
	return low
}

// sum adds numbers of local steps.
func sum(list []int) int {
	total := 0
	for _, v := range list {
		total += v
	}
	return total
}

// moments is the number of equal parts into which a curve divides the virtual time.
const moments = 100

// curve returns how far a schedule is from the optimum, F(x) - F*, at evenly spaced moments of virtual time. seeds
// has its runs, one for each seed, and all values are means over these.
func (r *Result) curve(name string, seeds []*trace) []Moment {
	start := r.F0 - r.Constants.FStar
	n := float64(len(seeds))
	var list []Moment
	for i := range moments + 1 {
		m := Moment{Schedule: name, Seconds: r.Limit * float64(i) / moments}
		var gaps []float64
		for _, t := range seeds {
			ended := t.roundsUntil(m.Seconds)
			gap := start
			if ended > 0 {
				gap = t.Gaps[ended-1]
			}
			gaps = append(gaps, gap)
			m.Rounds += float64(ended) / n
			m.Steps += float64(sum(t.Steps[:ended])) / n
			// K at this moment is that of the round under way, which follows those that have ended.
			underWay := min(ended, len(t.Steps)-1)
			m.LocalSteps += float64(t.Steps[underWay]) / n
		}
		e := statistics.EstimateMean(gaps)
		m.Gap = e.Mean
		m.Half = half(e.Half)
		list = append(list, m)
	}
	return list
}

// roundsUntil is the number of rounds that ended by a virtual time in seconds. A round that ends within
// a rounding error after it counts.
func (t *trace) roundsUntil(seconds float64) int {
	return sort.Search(len(t.Seconds), func(i int) bool { return t.Seconds[i] > seconds*(1+1e-12) })
}
