package lab

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"fedpace/coordinator/theory"
	"fedpace/experiment/config"
	"fedpace/experiment/convex"
	"fedpace/experiment/run"
	"fedpace/experiment/study"
	"fedpace/internal/statistics"
)

// Run plays a plan and measures its runs, side by side. Where it was stopped, the
// same plan goes on: runs that were measured are read.
func (p Plan) Run(ctx context.Context, o study.Options) (*Result, error) {
	cells, err := p.cells()
	if err != nil {
		return nil, err
	}
	of, err := run.Convex(p.Config)
	if err != nil {
		return nil, err
	}
	defer of.Set.Close()
	start, err := run.Initial(p.Config, of.Model)
	if err != nil {
		return nil, err
	}
	k := of.Constants(widen(make([]float64, len(start)), start), p.Config.Cohort)
	traces := map[*study.Cell]*trace{}
	logs := map[*study.Cell]*modelLog{}
	for i := range cells {
		c := &cells[i]
		c.Config.Theory.Take(config.Theory{L: &k.L, Mu: &k.Mu, G: &k.G, FStar: &k.FStar})
		traces[c], logs[c] = &trace{}, &modelLog{}
	}
	o.Adjust = func(c *study.Cell, o *run.Options) {
		l := logs[c]
		l.path, l.begun = filepath.Join(c.Config.Out, modelsFile), c.Begun
		o.Model = l.add
	}
	o.Played = func(ctx context.Context, c *study.Cell) error {
		err := logs[c].close()
		if err == nil {
			err = traces[c].of(ctx, c, of, start)
		}
		if err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		return nil
	}
	if err := study.Play(ctx, p.Out, cells, o); err != nil {
		return nil, err
	}
	list := make([]*trace, len(cells))
	for i := range cells {
		if c := &cells[i]; c.Diverged != "" {
			return nil, fmt.Errorf("lab: %s: %s", c.Name, c.Diverged)
		}
		list[i] = traces[&cells[i]]
	}
	return gather(p, of, start, list), nil
}

// stride is how far apart the iterations are that are looked at: a logistic
// regression's gradients go through all samples.
func stride(task config.Task) int {
	if task == config.TaskLogistic {
		return 10
	}
	return 1
}

func widen(dst []float64, x []float32) []float64 {
	for j, v := range x {
		dst[j] = float64(v)
	}
	return dst
}

// gather makes the result of the traces, seeds within schedules.
func gather(p Plan, of *convex.Problem, initial []float32, traces []*trace) *Result {
	start := widen(make([]float64, len(initial)), initial)
	k := of.Constants(start, p.Config.Cohort)
	r := &Result{
		Task: string(p.Config.Task), Clients: of.Clients, Cohort: p.Config.Cohort, Batch: p.Config.Batch, Seeds: p.Seeds,
		K0: p.Config.Schedule.K0, Eta: p.Config.Schedule.Eta0,
		Constants: k, F0: of.Value(start), Distance: of.Distance(start),
	}
	r.PrintedG = theory.PrintedG(k.L, r.Distance)
	for _, t := range traces {
		r.Limit = math.Max(r.Limit, t.Limit)
	}
	for i, name := range p.Schedules {
		seeds := traces[i*p.Seeds : (i+1)*p.Seeds]
		own := k
		own.G, own.Variance = 0, 0
		for _, t := range seeds {
			own.G, own.Variance = math.Max(own.G, math.Sqrt(t.Path.Second)), math.Max(own.Variance, t.Path.Variance)
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
	form := func(f theory.Form) theory.Constants { c := k; c.Form = f; return c }
	printed := form(theory.Statement)
	printed.G = r.PrintedG
	for _, n := range spaced(rounds) {
		b := Bound{Schedule: name, Rounds: n, G: k.G, Variance: k.Variance}
		var measured []float64
		for _, t := range seeds {
			steps, rates := t.Steps[:n], t.Rates[:n]
			total := 0
			for _, k := range steps {
				total += k
			}
			looked := min(len(t.Path.Squares), (total+t.Stride-1)/t.Stride)
			sum, way := 0.0, 0.0
			for i, s := range t.Path.Squares[:looked] { // Theorem 1 weighs iterations by their rates
				sum += t.Path.Rates[i] * s
				way += t.Path.Rates[i]
			}
			measured = append(measured, sum/way)
			share := 1 / float64(len(seeds))
			b.Iterations += share * float64(total)
			b.Lemma2 += share * k.Lemma2Rates(r.F0, rates, steps)
			b.Proof += share * k.Theorem1Rates(r.F0, rates, steps).Total()
			b.Statement += share * form(theory.Statement).Theorem1Rates(r.F0, rates, steps).Total()
			b.Appendix += share * form(theory.Appendix).Theorem1Rates(r.F0, rates, steps).Total()
			b.PrintedG += share * printed.Theorem1Rates(r.F0, rates, steps).Total()
		}
		e := statistics.EstimateMean(measured)
		b.Measured, b.Half = e.Mean, half(e.Half)
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

// spaced is 1 to n in steps of about a sixth of an octave's ends.
func spaced(n int) (list []int) {
	for x := 1.0; int(x) < n; x = math.Max(x*1.3, x+1) {
		list = append(list, int(x))
	}
	return append(list, n)
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
			at := 0 // rounds that have ended by then
			for at < len(t.Seconds) && t.Seconds[at] <= m.Seconds*(1+1e-12) {
				at++
			}
			gap, total := start, 0
			if at > 0 {
				gap = t.Gaps[at-1]
			}
			for _, k := range t.Steps[:at] {
				total += k
			}
			gaps = append(gaps, gap)
			m.Rounds += float64(at) / float64(len(seeds))
			m.Steps += float64(total) / float64(len(seeds))
			m.LocalSteps += float64(t.Steps[min(at, len(t.Steps)-1)]) / float64(len(seeds))
		}
		e := statistics.EstimateMean(gaps)
		m.Gap, m.Half = e.Mean, half(e.Half)
		list = append(list, m)
	}
	return list
}
