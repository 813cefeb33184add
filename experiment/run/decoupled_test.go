package run_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/data/federated"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/learn"
)

// decoupledWorker is one worker of the loop that TestDecoupled_IndependentLoop writes out.
type decoupledWorker struct {
	// x is its copy of the model, got each parameter as it was received last, v the momentum of its steps.
	x, got, v []float64
	// at holds for each fragment how often it had moved when it was received.
	at []int
	// steps and turns are how many steps and tasks the worker has done.
	steps, turns int
	// finish is when its update arrives, and computed when the steps of the last one were done, in seconds.
	finish, computed float64
	// base is the model from which its task started, and moved how often each fragment had moved then.
	base  []float64
	moved []int
}

// Asynchronous DiLoCo of four workers of unequal speed, written out in float64 with its own clock: fragments
// by each worker's turn, each late by its own moves, tokens as weights, a grace after the second update of
// a round, and local steps by speed. Models agree to 1e-6 of the movement over 24 rounds.
func TestDecoupled_IndependentLoop(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		fit   bool
		grace float64
		n     int
	}{
		"grace":          {false, 0.3, 2},
		"without grace":  {false, 0, 2},
		"steps by speed": {true, 0.05, 2},
		"each alone":     {false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) { playDecoupled(t, x.fit, x.grace, x.n) })
	}
}

// playDecoupled plays a run of rounds with n updates and compares its models with those of the loop.
func playDecoupled(t *testing.T, fit bool, grace float64, n int) {
	const rounds, fragments, tau, k0, batch, megabits = 24, 3, 3, 8, 8, 6.
	const rate, alpha, eta, mu, exponent = 0.1, 0.25, 0.7, 0.9, 0.5
	step := []float64{0.1, 0.053, 0.031, 0.0207}
	down, up := []float64{20, 21, 7, 100}, []float64{5, 5.5, 3, 90}
	var fleet string
	for i := range step {
		fleet += fmt.Sprintf(
			"{name: c%d, count: 1, seconds_per_step: %g, download_mbps: %g, upload_mbps: %g},", i, step[i], down[i], up[i],
		)
	}
	sets := []string{
		"task=sent140", "clients=4", "cohort=4", fmt.Sprint("batch=", batch),
		fmt.Sprint("stop.rounds=", rounds), "fleet=[" + fleet + "]", fmt.Sprint("network.model_megabits=", megabits),
		fmt.Sprint("schedule.k0=", k0), "schedule.k=fixed", fmt.Sprint("schedule.eta0=", rate),
		"local={optimizer: sgd, keep: true, momentum: 0.9}",
		fmt.Sprintf("aggregate={algorithm: decoupled, weights: taken, fragments: %d, overlap: %d, mix: %g}", fragments, tau, alpha),
		fmt.Sprintf("close={rule: buffered, n: %d}", n), "out=" + filepath.Join(t.TempDir(), "run"),
	}
	if grace > 0 {
		sets = append(sets, fmt.Sprint("close.grace=", grace))
	}
	if fit {
		sets = append(sets, "select=fit")
	}
	c, err := config.Load("", sets)
	if err != nil {
		t.Fatal(err)
	}
	var models [][]float32
	var reports []round.Report
	options := run.Options{Callbacks: run.Callbacks{
		Model: func(_ int, params []float32) { models = append(models, params) },
		Round: func(r *round.Report) { reports = append(reports, *r) },
	}}
	if _, err := run.Run(t.Context(), c, options); err != nil {
		t.Fatal(err)
	}

	p, err := problem.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	model := p.Model.(learn.Model)
	params := model.Params()
	initial := make([]float32, params)
	copy(initial, p.Initial)
	double := func() []float64 {
		list := make([]float64, params)
		for i, value := range initial {
			list[i] = float64(value)
		}
		return list
	}
	span := func(fragment int) (from, to int) {
		return fragment * params / fragments, (fragment + 1) * params / fragments
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	work := model.NewWorkspace(batch, kernel)
	train := func(client int, w *decoupledWorker, steps int) {
		var order federated.Minibatches
		order.Reset(c.Seed, client, p.Set.Samples(client), batch, int64(w.steps))
		local, gradient := make([]float32, params), make([]float32, params)
		for range steps {
			var b learn.Batch
			if err := p.Set.Batch(&b, client, order.Next()); err != nil {
				t.Fatal(err)
			}
			for i := range local {
				local[i] = float32(w.x[i])
			}
			if _, err := work.Gradient(gradient, local, &b); err != nil {
				t.Fatal(err)
			}
			w.steps++
			for i, g := range gradient {
				// What a worker keeps are float32.
				w.v[i] = float64(float32(0.9*w.v[i] + float64(g)))
				w.x[i] = float64(float32(w.x[i] - rate*w.v[i]))
			}
		}
	}
	takes := func(w, k int) float64 {
		return megabits/fragments/down[w] + float64(k)*step[w] + megabits/fragments/up[w]
	}
	steps := []int{k0, k0, k0, k0}
	if fit {
		limit, fewest := math.Inf(1), 0.
		for w := range step {
			limit, fewest = min(limit, takes(w, k0)), max(fewest, takes(w, 1))
		}
		limit = max(limit, fewest) + 1e-9
		for w := range steps {
			for steps[w] > 1 && takes(w, steps[w]) > limit {
				steps[w]--
			}
		}
		if steps[0] == k0 || steps[3] != k0 {
			t.Fatalf("%v local steps: the test says little", steps)
		}
	}
	theta, momentum, moved := double(), make([]float64, params), make([]int, fragments)
	workers := make([]*decoupledWorker, len(step))
	begin := func(w int, now float64) {
		r := workers[w]
		r.base, r.moved = slices.Clone(theta), slices.Clone(moved)
		there := now + megabits/fragments/down[w]
		computing := float64(steps[w]) * step[w]
		if r.turns > 0 {
			computing -= min(float64(min(tau, steps[w]))*step[w], there-r.computed)
		}
		r.computed = there + computing
		r.finish = r.computed + megabits/fragments/up[w]
	}
	for w := range workers {
		workers[w] = &decoupledWorker{
			x: double(), got: double(), v: make([]float64, params), at: make([]int, fragments),
		}
		begin(w, 0)
	}
	late, alone := map[int]bool{}, map[int]bool{}
	for index := range rounds {
		byTime := []int{0, 1, 2, 3}
		slices.SortFunc(byTime, func(a, b int) int {
			if workers[a].finish < workers[b].finish {
				return -1
			}
			return 1
		})
		end := workers[byTime[n-1]].finish + grace
		var members []int
		for _, w := range byTime {
			if workers[w].finish <= end {
				members = append(members, w)
			}
		}
		if len(members) == len(workers) {
			end = workers[byTime[3]].finish
		}
		report := reports[index]
		if math.Abs(report.End.Seconds()-end) > 1e-6 || report.Outcomes[0] != len(members) {
			t.Fatalf("round %d of %v ends at %g, want %g of %d", index+1, report.Outcomes, report.End.Seconds(), end, len(members))
		}
		alone[len(members)] = true
		tokens := 0.
		for _, w := range members {
			tokens += float64(steps[w] * min(batch, p.Set.Samples(w)))
		}
		sum, moves := make([]float64, params), make([]bool, fragments)
		for _, w := range members {
			r := workers[w]
			train(w, r, min(tau, steps[w]))
			if r.turns > 0 {
				sent := (r.turns - 1) % fragments
				from, to := span(sent)
				for i := from; i < to; i++ {
					r.x[i] = alpha*r.x[i] + (1-alpha)*r.base[i]
					r.got[i] = r.base[i]
				}
				r.at[sent] = r.moved[sent]
			}
			train(w, r, steps[w]-min(tau, steps[w]))
			fragment := r.turns % fragments
			age := moved[fragment] - r.at[fragment]
			late[age] = true
			weight := float64(steps[w]*min(batch, p.Set.Samples(w))) / tokens * math.Pow(1+float64(age), -exponent)
			from, to := span(fragment)
			for i := from; i < to; i++ {
				sum[i] += weight * (r.x[i] - r.got[i])
			}
			moves[fragment] = true
			r.turns++
		}
		for fragment, moves := range moves {
			if !moves {
				continue
			}
			moved[fragment]++
			from, to := span(fragment)
			for i := from; i < to; i++ {
				momentum[i] = mu*momentum[i] + sum[i]
				theta[i] += eta * (sum[i] + mu*momentum[i])
			}
		}
		off, movement := 0., 0.
		for i, value := range models[index] {
			off += math.Pow(float64(value)-theta[i], 2)
			movement += math.Pow(theta[i]-float64(initial[i]), 2)
		}
		if off := math.Sqrt(off / movement); off > 1e-6 {
			t.Fatalf("round %d: %g of the movement off", index+1, off)
		}
		for _, w := range members {
			begin(w, end)
		}
	}
	if len(late) < 3 || (grace > 0 && len(alone) < 2) {
		t.Errorf("ages %v, updates in a round %v: the test says little", late, alone)
	}
}

// Where all clients are equally fast, and a round takes the updates of all, each sends the same fragment
// at the same time: the models are those of streaming to the bits, on the same clock.
func TestDecoupled_EqualSpeedIsStreaming(t *testing.T) {
	t.Parallel()
	play := func(sets ...string) (models [][]float32, seconds float64) {
		c, err := config.Load("", append([]string{
			"task=sent140", "clients=3", "cohort=3", "batch=4", "stop.rounds=8", "schedule.k0=5", "schedule.k=fixed",
			"local={optimizer: adamw, keep: true}", "compress={method: four_bit}", "network.download_mbps=1",
			"network.upload_mbps=1", "compute.seconds_per_step=0.05", "out=" + filepath.Join(t.TempDir(), "run"),
		}, sets...))
		if err != nil {
			t.Fatal(err)
		}
		options := run.Options{Callbacks: run.Callbacks{
			Model: func(_ int, params []float32) { models = append(models, params) },
		}}
		summary, err := run.Run(t.Context(), c, options)
		if err != nil {
			t.Fatal(err)
		}
		return models, summary.VirtualSeconds
	}
	want, wantSeconds := play("aggregate={algorithm: streaming, fragments: 3, overlap: 2, mix: 0.25}")
	got, seconds := play("aggregate={algorithm: decoupled, fragments: 3, overlap: 2, mix: 0.25}", "close={rule: buffered, n: 3}")
	if seconds != wantSeconds || !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("decoupled takes %g s, streaming %g s, and the models differ", seconds, wantSeconds)
	}
}
