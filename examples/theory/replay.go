package main

import (
	"context"
	"fmt"
	"slices"

	"fedpace/data/federated"
	"fedpace/experiment/convex"
	"fedpace/learn"
)

// path is what the analysis sees of a run: the mean model of all clients, iteration by iteration.
type path struct {
	// Squares is ‖∇F(x̄_t)‖² at every stride-th iteration, x̄_t being the weighted mean of all clients'
	// models, whether or not they took part.
	Squares []float64
	Rates   []float64 // learning rates of these iterations
	// Second is the largest E‖∇f_c(x; ξ)‖² of any client at any of its iterates: the smallest G² with
	// which the analysis holds.
	Second float64
	// Variance is Σ p_c² σ_c², with each client's largest σ_c² along the run.
	Variance float64
}

// replayer repeats a run with all clients taking part. It is not safe for concurrent use.
type replayer struct {
	problem *convex.Problem
	seed    uint64 // of the run, from which its minibatches are drawn
	stride  int    // every stride-th iteration is measured

	work     learn.Workspace
	order    federated.Minibatches
	batch    learn.Batch
	local    []float32   // a client's model
	wide     []float64   // the same model, as the formulas take it
	gradient []float64   // scratch space of gradients
	means    [][]float64 // x̄_t of the round's measured iterations
	noise    []float64   // largest σ_c² of each client
}

// newReplayer makes a replayer of runs of a problem with a seed.
func newReplayer(problem *convex.Problem, seed uint64, stride int) *replayer {
	n := problem.Model.Params()
	return &replayer{
		problem:  problem,
		seed:     seed,
		stride:   stride,
		work:     problem.Model.NewWorkspace(problem.Batch, learn.Kernel{}),
		local:    make([]float32, n),
		wide:     make([]float64, n),
		gradient: make([]float64, n),
		noise:    make([]float64, problem.Clients),
	}
}

// run replays rounds with the given local steps and learning rates. Round i starts from models[i], the
// run's own model (Eq. 2). All clients do the round's steps, on minibatches as if they had taken part
// in every round before, which has the same distribution as what the participants drew.
func (r *replayer) run(ctx context.Context, models [][]float32, steps []int, rates []float64) (path, error) {
	var p path
	before := int64(0) // local steps of the rounds before
	next := 0          // the round's first iteration that is measured
	for i, k := range steps {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		measured := len(p.Squares)
		following, err := r.round(&p, models[i], k, before, next, float32(rates[i]))
		if err != nil {
			return p, err
		}
		p.Rates = append(p.Rates, slices.Repeat(rates[i:i+1], len(p.Squares)-measured)...)
		before += int64(k)
		next = following
	}
	for c, v := range r.noise {
		w := r.problem.Weights[c]
		p.Variance += w * w * v
	}
	return p, nil
}

// round replays one round of k local steps, from model, and adds what it measures to p. Clients took
// before local steps in earlier rounds. Iterations next, next+stride, ... of the round are measured. It
// returns the first iteration of the following round that is measured.
func (r *replayer) round(p *path, model []float32, k int, before int64, next int, rate float32) (int, error) {
	measured := 0
	for t := next; t < k; t += r.stride {
		if measured == len(r.means) {
			r.means = append(r.means, make([]float64, len(r.local)))
		}
		clear(r.means[measured])
		measured++
	}
	for c := range r.problem.Clients {
		copy(r.local, model)
		r.order.Reset(r.seed, c, r.problem.Set.Samples(c), r.problem.Batch, before)
		index := 0 // into r.means
		for t := range k {
			if t >= next && (t-next)%r.stride == 0 {
				r.measure(p, c, r.means[index])
				index++
			}
			r.batch.Reset()
			if err := r.problem.Set.Batch(&r.batch, c, r.order.Next()); err != nil {
				return 0, err
			}
			if _, err := r.work.Step(r.local, &r.batch, rate); err != nil {
				return 0, fmt.Errorf("client %d: %w", c, err)
			}
		}
	}
	for _, mean := range r.means[:measured] {
		p.Squares = append(p.Squares, r.problem.Gradient(r.gradient, mean))
	}
	return next + measured*r.stride - k, nil
}

// measure takes the gradient of client c at its present model, and adds the model to the weighted mean
// of the iteration.
func (r *replayer) measure(p *path, c int, mean []float64) {
	w := r.problem.Weights[c]
	for j, v := range r.local {
		r.wide[j] = float64(v)
		mean[j] += w * r.wide[j]
	}
	second, noise := r.problem.Second(r.gradient, c, r.wide)
	r.noise[c] = max(r.noise[c], noise)
	p.Second = max(p.Second, second)
}
