package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/coordinator/theory"
	"fedpace/experiment/convex"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/internal/statistics"
	"fedpace/study"
)

// TheoryAhead is theory with the time ahead as W, which is what Theorem 2
// says, where theory has the time elapsed, as the paper's schedules do.
const TheoryAhead = "theory-ahead"

// Schedules are those that a laboratory compares unless told.
var Schedules = []string{"dsgd", "fixed", "rounds", "error", "step", "theory", TheoryAhead}

// Plan is what a laboratory does.
type Plan struct {
	Config    config.Config // of a convex task
	Schedules []string      // as study.Plan has them, and TheoryAhead
	Seeds     int           // seed, seed+1, ...
	Out       string        // folder of the results and, below runs/, of every run
}

// cells lists the plan's runs, seeds within schedules. All have the virtual
// time of the configuration's rounds of K-eta-fixed.
func (p Plan) cells() ([]study.Cell, error) {
	_, plain := p.Config.Aggregate.Algorithm.(algorithm.FedAvg)
	switch {
	case !p.Config.Task.IsConvex():
		return nil, fmt.Errorf("lab: %s: %w; want quadratic or logistic", p.Config.Task, problem.ErrNotConvex)
	case len(p.Schedules) == 0:
		return nil, fmt.Errorf("lab: no schedule to run")
	case p.Config.Synthetic.Seed == 0 && p.Config.IsSynthetic():
		return nil, fmt.Errorf("lab: seeds must share one problem: set synthetic.seed")
	case !p.Config.Train:
		return nil, fmt.Errorf("lab: train: false learns nothing that could be measured")
	case p.Config.HasOwnBatches():
		return nil, fmt.Errorf("lab: all clients have minibatches of one size (remove batch from the classes in fleet)")
	case !plain ||
		p.Config.Close != closing.Rule(closing.All{}) ||
		p.Config.Select != selection.Rule(selection.Uniform{}):
		return nil, fmt.Errorf("lab: Theorem 1 is about fedavg, uniform cohorts and rounds that wait for all (leave aggregate.algorithm, select and close as they are)")
	}
	var list []study.Cell
	for i, name := range p.Schedules {
		if slices.Contains(p.Schedules[:i], name) {
			return nil, fmt.Errorf("lab: schedule %s is named twice", name)
		}
		cells, err := p.of(name)
		if err != nil {
			return nil, fmt.Errorf("lab: %s: %w", name, err)
		}
		list = append(list, cells...)
	}
	return list, study.SameTime(list)
}

func (p Plan) of(name string) ([]study.Cell, error) {
	c := p.Config
	known := name
	if name == TheoryAhead {
		known = "theory"
		c.Theory.Time = config.Ahead
	}
	if name == "step" && c.Schedule.DecayRound == 0 && c.Task == config.TaskQuadratic {
		// it has no accuracy to converge
		c.Schedule.DecayRound = max(1, cmp.Or(c.Stop.EqualRuntimeRounds, c.Stop.Rounds)/3)
	}
	if err := takesPlainSteps(&c); err != nil {
		return nil, err
	}
	cells, err := study.Plan{Load: study.Just(c), Schedules: []string{known}, Seeds: p.Seeds}.Cells()
	for i := range cells {
		cell := &cells[i]
		if name == TheoryAhead {
			cell.Schedule = name
		}
		cell.Name = fmt.Sprintf("%s, seed %d", cell.Schedule, cell.Config.Seed)
		cell.Config.Out = filepath.Join(p.Out, "runs", fmt.Sprintf("%s,seed=%d", cell.Schedule, cell.Config.Seed))
	}
	return cells, err
}

// Run plays a plan and measures its runs, side by side. Where it was stopped, the
// same plan goes on: runs that were measured are read, one that was cut is played again.
func (p Plan) Run(ctx context.Context, o study.Options) (*Result, error) {
	cells, err := p.cells()
	if err != nil {
		return nil, err
	}
	of, err := open(p.Config)
	if err != nil {
		return nil, err
	}
	defer of.Set.Close()
	traces := map[*study.Cell]*trace{}
	list := make([]*trace, len(cells))
	for i := range cells {
		c := &cells[i]
		k := &of.constants
		c.Config.Theory.Take(config.Theory{
			L:     &k.L,
			Mu:    &k.Mu,
			G:     &k.G,
			FStar: &k.FStar,
		})
		list[i] = &trace{}
		traces[c] = list[i]
	}
	o.Whole = func(c *study.Cell) bool { // the models of a run that was cut are not there
		_, err := os.Stat(filepath.Join(c.Config.Out, traceFile))
		return err == nil
	}
	o.Adjust = func(c *study.Cell, o *run.Options) {
		_ = os.Remove(filepath.Join(c.Config.Out, traceFile)) // of the run that this one replaces
		t := traces[c]
		t.models = map[int][]float32{}
		o.Model = func(round int, params []float32) { t.models[round] = params }
	}
	o.Played = func(ctx context.Context, c *study.Cell) error {
		if err := traces[c].of(ctx, c, of); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		return nil
	}
	if err := study.Play(ctx, p.Out, cells, o); err != nil {
		return nil, err
	}
	for _, c := range cells {
		if c.Diverged != "" {
			return nil, fmt.Errorf("lab: %s: %s", c.Name, c.Diverged)
		}
	}
	r := gather(p, of, list)
	for i := range cells {
		o, err := cells[i].Origin()
		if err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
		r.Runs = append(r.Runs, o)
	}
	return r, nil
}

// objective is a convex task at the model that its runs start from.
type objective struct {
	*convex.Problem
	initial   []float32
	start     []float64 // the same
	constants theory.Constants
}

// open reads the configuration's objective. Its Set is the caller's to close.
func open(c config.Config) (*objective, error) {
	p, err := problem.Open(c)
	if err != nil {
		return nil, err
	}
	of, err := p.Convex()
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	start := convex.Widen(p.Initial)
	return &objective{of, p.Initial, start, of.Constants(start, c.Cohort)}, nil
}

// gather makes the result of the traces, seeds within schedules.
func gather(p Plan, of *objective, traces []*trace) *Result {
	k := of.constants
	r := &Result{
		Task:      string(p.Config.Task),
		Clients:   of.Clients,
		Cohort:    p.Config.Cohort,
		Batch:     p.Config.Batch,
		Seeds:     p.Seeds,
		K0:        p.Config.Schedule.K0,
		Eta:       p.Config.Schedule.Eta0,
		Constants: k,
		F0:        of.Value(of.start),
		Distance:  of.Distance(of.start),
	}
	r.PrintedG = theory.PrintedG(k.L, r.Distance)
	for _, t := range traces {
		r.Limit = max(r.Limit, t.Limit)
	}
	for i, name := range p.Schedules {
		seeds := traces[i*p.Seeds : (i+1)*p.Seeds]
		name, _, _ := strings.Cut(name, "=") // of one's own
		own := k
		own.G = 0
		own.Variance = 0
		for _, t := range seeds {
			own.G = max(own.G, math.Sqrt(t.Path.Second))
			own.Variance = math.Max(own.Variance, t.Path.Variance)
		}
		r.Bounds = append(r.Bounds, r.bounds(name, own, seeds)...)
		r.Curves = append(r.Curves, r.curve(name, seeds)...)
	}
	return r
}

// bounds are a schedule's at rounds whose number grows by a constant factor.
func (r *Result) bounds(name string, k theory.Constants, seeds []*trace) (list []Bound) {
	rounds := len(seeds[0].Steps)
	for _, t := range seeds {
		rounds = min(rounds, len(t.Steps))
	}
	form := func(f theory.Form) theory.Constants {
		c := k
		c.Form = f
		return c
	}
	printed := form(theory.Statement)
	printed.G = r.PrintedG
	for _, n := range spaced(rounds, 1.3) {
		b := Bound{
			Schedule: name,
			Rounds:   n,
			G:        k.G,
			Variance: k.Variance,
		}
		var measured []float64
		for _, t := range seeds {
			steps := t.Steps[:n]
			rates := t.Rates[:n]
			total := sum(steps)
			looked := min(len(t.Path.Squares), (total+t.Stride-1)/t.Stride)
			squares := 0.0
			way := 0.0
			for i, s := range t.Path.Squares[:looked] { // Theorem 1 weighs iterations by their rates
				squares += t.Path.Rates[i] * s
				way += t.Path.Rates[i]
			}
			measured = append(measured, squares/way)
			share := 1 / float64(len(seeds))
			b.Iterations += share * float64(total)
			b.Lemma2 += share * k.Lemma2Rates(r.F0, rates, steps)
			b.Proof += share * k.Theorem1Rates(r.F0, rates, steps).Total()
			b.Statement += share * form(theory.Statement).Theorem1Rates(r.F0, rates, steps).Total()
			b.Appendix += share * form(theory.Appendix).Theorem1Rates(r.F0, rates, steps).Total()
			b.PrintedG += share * printed.Theorem1Rates(r.F0, rates, steps).Total()
		}
		e := statistics.EstimateMean(measured)
		b.Measured = e.Mean
		b.Half = half(e.Half)
		b.Least = least(seeds, b.Iterations)
		list = append(list, b)
	}
	return list
}

// least is the least over iterations of the mean over seeds.
func least(seeds []*trace, iterations float64) float64 {
	n := int(iterations) / seeds[0].Stride
	for _, t := range seeds {
		n = min(n, len(t.Path.Squares))
	}
	low := math.Inf(1)
	for i := range max(1, n) {
		sum := 0.0
		for _, t := range seeds {
			sum += t.Path.Squares[i]
		}
		low = min(low, sum/float64(len(seeds)))
	}
	return low
}

// spaced returns numbers from 1 to n, each about so many times the one before.
func spaced(n int, factor float64) (list []int) {
	for x := 1.0; x < float64(n)-1e-6; x = max(x*factor, x+1) { // a power of an nth root may be a rounding below n
		list = append(list, int(x))
	}
	return append(list, n)
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// moments is at how many times a curve is written.
const moments = 100

// curve is a schedule's way to the optimum at moments of equal distance.
func (r *Result) curve(name string, seeds []*trace) (list []Moment) {
	start := r.F0 - r.Constants.FStar
	for i := range moments + 1 {
		m := Moment{Schedule: name, Seconds: r.Limit * float64(i) / moments}
		var gaps []float64
		for _, t := range seeds {
			// rounds that have ended by then
			at := sort.Search(len(t.Seconds), func(i int) bool { return t.Seconds[i] > m.Seconds*(1+1e-12) })
			gap := start
			if at > 0 {
				gap = t.Gaps[at-1]
			}
			gaps = append(gaps, gap)
			m.Rounds += float64(at) / float64(len(seeds))
			m.Steps += float64(sum(t.Steps[:at])) / float64(len(seeds))
			m.LocalSteps += float64(t.Steps[min(at, len(t.Steps)-1)]) / float64(len(seeds))
		}
		e := statistics.EstimateMean(gaps)
		m.Gap = e.Mean
		m.Half = half(e.Half)
		list = append(list, m)
	}
	return list
}
