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
	// Rates holds the learning rates of these iterations.
	Rates []float64
	// Second is the largest E‖∇f_c(x; ξ)‖² of any client at any of its iterates: the smallest G² with
	// which the analysis holds.
	Second float64
	// Variance is Σ p_c² σ_c², with each client's largest σ_c² along the run.
	Variance float64
}

// replayer repeats a run with all clients taking part. It is not safe for concurrent use.
type replayer struct {
	// problem is the convex problem whose runs are replayed.
	problem *convex.Problem
	// seed is the seed of the run, from which its minibatches are drawn.
	seed uint64
	// stride says that every stride-th iteration is measured.
	stride int

	// work takes the local steps.
	work learn.Workspace
	// minibatches draws the minibatches of the client that is replayed.
	minibatches federated.Minibatches
	// batch is the minibatch of the present step.
	batch learn.Batch
	// local is the model of the present client.
	local []float32
	// localWide is the same model in double precision, as the formulas take it.
	localWide []float64
	// gradient is scratch space of gradients.
	gradient []float64
	// means holds x̄_t for each measured iteration of the round.
	means [][]float64
	// largestNoise holds the largest σ_c² so far of each client.
	largestNoise []float64
}

// newReplayer makes a replayer of runs of a problem with a seed, which measures every stride-th iteration. It computes
// local steps in plain Go (learn.Kernel{}), so that traces are the same on every machine.
func newReplayer(problem *convex.Problem, seed uint64, stride int) *replayer {
	n := problem.Model.Params()
	return &replayer{
		problem:      problem,
		seed:         seed,
		stride:       stride,
		work:         problem.Model.NewWorkspace(problem.Batch, learn.Kernel{}),
		local:        make([]float32, n),
		localWide:    make([]float64, n),
		gradient:     make([]float64, n),
		largestNoise: make([]float64, problem.Clients),
	}
}

// run replays rounds with the given local steps and learning rates. Round i starts from models[i], the
// run's own model (Eq. 2). All clients do the round's steps, on minibatches as if they had taken part
// in every round before, which has the same distribution as what the participants drew.
func (r *replayer) run(ctx context.Context, models [][]float32, steps []int, rates []float64) (path, error) {
	var p path
	// stepsBefore is the number of local steps in the rounds before.
	stepsBefore := int64(0)
	// first is the first iteration of the round that is measured, counted from the round's start.
	first := 0
	for i, k := range steps {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		measured := len(p.Squares)
		firstOfNext, err := r.round(&p, models[i], k, stepsBefore, first, float32(rates[i]))
		if err != nil {
			return p, err
		}
		// Every measured iteration of a round has the round's learning rate.
		p.Rates = append(p.Rates, slices.Repeat(rates[i:i+1], len(p.Squares)-measured)...)
		stepsBefore += int64(k)
		first = firstOfNext
	}
	// The variance of the mean model's gradient weights each client by p_c².
	for c, v := range r.largestNoise {
		w := r.problem.Weights[c]
		p.Variance += w * w * v
	}
	return p, nil
}

// round replays one round of k local steps with a learning rate, from model, and adds what it measures to p. Each
// client has taken stepsBefore local steps in earlier rounds, which says what minibatches come next. Iterations first,
// first+stride, ... of the round are measured, counted from its start; there are none if first is k or more. It
// returns the first iteration of the following round that is measured, counted from the start of that round.
func (r *replayer) round(
	p *path,
	model []float32,
	k int,
	stepsBefore int64,
	first int,
	rate float32,
) (firstOfNext int, err error) {
	// measured is the number of iterations of the round that are measured.
	measured := 0
	// The means are sums over clients, so they start from zero.
	for t := first; t < k; t += r.stride {
		if measured == len(r.means) {
			r.means = append(r.means, make([]float64, len(r.local)))
		}
		clear(r.means[measured])
		measured++
	}
	// Clients are replayed one after the other, and each adds its models to the means.
	for c := range r.problem.Clients {
		copy(r.local, model)
		r.minibatches.Reset(r.seed, c, r.problem.Set.Samples(c), r.problem.Batch, stepsBefore)
		// index is the number of measured iterations so far, which is the index into r.means.
		index := 0
		for t := range k {
			// An iteration is measured before its step, as the theorem counts them.
			if t >= first && (t-first)%r.stride == 0 {
				r.measure(p, c, r.means[index])
				index++
			}
			r.batch.Reset()
			if err := r.problem.Set.Batch(&r.batch, c, r.minibatches.Next()); err != nil {
				return 0, err
			}
			if _, err := r.work.Step(r.local, &r.batch, rate); err != nil {
				return 0, fmt.Errorf("client %d: %w", c, err)
			}
		}
	}
	// The gradient of F is taken at the mean model, which is complete only now.
	for _, mean := range r.means[:measured] {
		p.Squares = append(p.Squares, r.problem.Gradient(r.gradient, mean))
	}
	// The next iteration to be measured lies behind this round, whose k iterations are taken off.
	return first + measured*r.stride - k, nil
}

// measure measures the gradient of client c at its present model, r.local: its second moment and its noise, of which p
// and r keep the largest. It also adds the model, weighted by p_c, to mean, the mean model of the iteration.
func (r *replayer) measure(p *path, c int, mean []float64) {
	w := r.problem.Weights[c]
	for j, v := range r.local {
		r.localWide[j] = float64(v)
		mean[j] += w * r.localWide[j]
	}
	second, noise := r.problem.SecondMoment(r.gradient, c, r.localWide)
	r.largestNoise[c] = max(r.largestNoise[c], noise)
	p.Second = max(p.Second, second)
}
