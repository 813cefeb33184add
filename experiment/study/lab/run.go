package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"fedpace/coordinator/theory"
	"fedpace/experiment/config"
	"fedpace/experiment/convex"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/statistics"
)

// trace is one run as the laboratory sees it.
type trace struct {
	steps   []int     // K_r
	rates   []float64 // eta_r
	seconds []float64 // virtual time at the ends of rounds
	gaps    []float64 // F − F* after them
	path    path
	stride  int
	limit   float64 // virtual seconds of the plan
}

// Run does a plan. Runs go side by side, as many as there are cores.
func Run(ctx context.Context, p Plan, o run.Options) (*Result, error) {
	cells, err := p.cells()
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		if err := folder.VacantFolder(c.config.Out, o.Force); err != nil {
			return nil, err
		}
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
	for i := range cells {
		cells[i].config.Theory.Take(config.Theory{L: &k.L, Mu: &k.Mu, G: &k.G, FStar: &k.FStar})
	}
	traces := make([]trace, len(cells))
	var telling sync.Mutex
	done := 0
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range cells {
		group.Go(func() error {
			t, err := c.run(inner, of, start, o)
			if err != nil {
				return fmt.Errorf("lab: %s, seed %d: %w", c.schedule, c.config.Seed, err)
			}
			traces[i] = t
			if o.Notice != nil {
				telling.Lock()
				defer telling.Unlock()
				done++
				o.Notice(fmt.Sprintf("run %d of %d: %s, seed %d: %d rounds, F - F* %.4g", done, len(cells), c.schedule, c.config.Seed, len(t.steps), t.gaps[len(t.gaps)-1]))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return gather(p, of, start, traces), nil
}

// run plays one run and goes through it again.
func (c cell) run(ctx context.Context, of *convex.Problem, start []float32, o run.Options) (t trace, err error) {
	models := [][]float32{start} // by round; a round without updates leaves the model
	s, err := run.Run(ctx, c.config, run.Options{Version: o.Version, Force: o.Force, Workers: 1, Model: func(round int, params []float32) {
		for len(models) < round {
			models = append(models, models[len(models)-1])
		}
		models = append(models, params)
	}})
	if err != nil {
		return t, err
	}
	rows, err := folder.ReadRounds(filepath.Join(c.config.Out, folder.RoundsFile))
	if err != nil {
		return t, err
	}
	if len(rows) == 0 {
		return t, errors.New("no round was completed in the time of the plan")
	}
	x := make([]float64, len(start))
	for i, row := range rows {
		t.steps, t.rates, t.seconds = append(t.steps, row.LocalSteps), append(t.rates, row.LearningRate), append(t.seconds, row.End.Seconds())
		t.gaps = append(t.gaps, of.Value(widen(x, models[min(i+1, len(models)-1)]))-of.FStar)
	}
	t.stride, t.limit = stride(c.config.Task), s.VirtualSeconds
	t.path, err = newReplayer(of, c.config.Seed, t.stride).run(ctx, models, t.steps, t.rates)
	return t, err
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
func gather(p Plan, of *convex.Problem, initial []float32, traces []trace) *Result {
	start := widen(make([]float64, len(initial)), initial)
	k := of.Constants(start, p.Config.Cohort)
	r := &Result{
		Task: string(p.Config.Task), Clients: of.Clients, Cohort: p.Config.Cohort, Batch: p.Config.Batch, Seeds: p.Seeds,
		K0: p.Config.Schedule.K0, Eta: p.Config.Schedule.Eta0,
		Constants: k, F0: of.Value(start), Distance: of.Distance(start),
	}
	r.PrintedG = theory.PrintedG(k.L, r.Distance)
	for _, t := range traces {
		r.Limit = math.Max(r.Limit, t.limit)
	}
	for i, name := range p.Schedules {
		seeds := traces[i*p.Seeds : (i+1)*p.Seeds]
		own := k
		own.G, own.Variance = 0, 0
		for _, t := range seeds {
			own.G, own.Variance = math.Max(own.G, math.Sqrt(t.path.second)), math.Max(own.Variance, t.path.variance)
		}
		r.Bounds = append(r.Bounds, r.bounds(name, own, seeds)...)
		r.Curves = append(r.Curves, r.curve(name, seeds)...)
	}
	return r
}

// bounds are a schedule's at rounds whose number grows by a constant factor.
func (r *Result) bounds(name string, k theory.Constants, seeds []trace) (list []Bound) {
	rounds := len(seeds[0].steps)
	for _, t := range seeds {
		rounds = min(rounds, len(t.steps))
	}
	form := func(f theory.Form) theory.Constants { c := k; c.Form = f; return c }
	printed := form(theory.Statement)
	printed.G = r.PrintedG
	for _, n := range spaced(rounds) {
		b := Bound{Schedule: name, Rounds: n, G: k.G, Variance: k.Variance}
		var measured []float64
		for _, t := range seeds {
			steps, rates := t.steps[:n], t.rates[:n]
			total := 0
			for _, k := range steps {
				total += k
			}
			looked := min(len(t.path.squares), (total+t.stride-1)/t.stride)
			sum, way := 0.0, 0.0
			for i, s := range t.path.squares[:looked] { // Theorem 1 weighs iterations by their rates
				sum += t.path.rates[i] * s
				way += t.path.rates[i]
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
func least(seeds []trace, iterations float64) float64 {
	n := int(iterations) / seeds[0].stride
	for _, t := range seeds {
		n = min(n, len(t.path.squares))
	}
	low := math.Inf(1)
	for i := range max(1, n) {
		sum := 0.0
		for _, t := range seeds {
			sum += t.path.squares[i]
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
func (r *Result) curve(name string, seeds []trace) (list []Moment) {
	start := r.F0 - r.Constants.FStar
	for i := range moments + 1 {
		m := Moment{Schedule: name, Seconds: r.Limit * float64(i) / moments}
		var gaps []float64
		for _, t := range seeds {
			at := 0 // rounds that have ended by then
			for at < len(t.seconds) && t.seconds[at] <= m.Seconds*(1+1e-12) {
				at++
			}
			gap, total := start, 0
			if at > 0 {
				gap = t.gaps[at-1]
			}
			for _, k := range t.steps[:at] {
				total += k
			}
			gaps = append(gaps, gap)
			m.Rounds += float64(at) / float64(len(seeds))
			m.Steps += float64(total) / float64(len(seeds))
			m.LocalSteps += float64(t.steps[min(at, len(t.steps)-1)]) / float64(len(seeds))
		}
		e := statistics.EstimateMean(gaps)
		m.Gap, m.Half = e.Mean, half(e.Half)
		list = append(list, m)
	}
	return list
}
