package lab

import (
	"context"
	"fmt"
	"slices"

	"fedpace/data/federated"
	"fedpace/experiment/convex"
	"fedpace/learn"
)

// path is what the analysis sees of a run.
type path struct {
	// Squares is ‖∇F(x̄_t)‖² at every stride-th iteration, x̄_t being the weighted
	// mean of all clients' models, whether or not they took part.
	Squares []float64
	Rates   []float64 // of these iterations
	// Second is the largest E‖∇f_c(x; ξ)‖² of any client at any of its iterates:
	// the least G² with which the analysis holds.
	Second float64
	// Variance is Σ p_c² σ_c², with each client's largest σ_c² on the way.
	Variance float64
}

// replayer goes through a run again. It is not safe for concurrent use.
type replayer struct {
	of     *convex.Problem
	seed   uint64
	stride int // iterations from one that is looked at to the next

	work  learn.Workspace
	order federated.Minibatches
	batch learn.Batch
	local []float32
	x, g  []float64
	mean  [][]float64 // x̄ of the round's iterations that are looked at
	noise []float64   // largest σ_c² of each client
}

func newReplayer(of *convex.Problem, seed uint64, stride int) *replayer {
	n := of.Model.Params()
	return &replayer{
		of:     of,
		seed:   seed,
		stride: stride,
		work:   of.Model.NewWorkspace(of.Batch, learn.Kernel{}),
		local:  make([]float32, n),
		x:      make([]float64, n),
		g:      make([]float64, n),
		noise:  make([]float64, of.Clients),
	}
}

// run goes through rounds of the given local steps, each from the model that it started from (Eq.
// 2): all clients do the round's steps, on minibatches as if they had taken part in every round
// before, which for those who did has the same distribution as what they drew.
func (r *replayer) run(ctx context.Context, models [][]float32, steps []int, rates []float64) (path, error) {
	var p path
	// iterations before the round; the next one to look at
	done := int64(0)
	next := 0
	for i, k := range steps {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		seen := len(p.Squares)
		last, err := r.round(&p, models[i], k, done, next, float32(rates[i]))
		if err != nil {
			return p, err
		}
		p.Rates = append(p.Rates, slices.Repeat(rates[i:i+1], len(p.Squares)-seen)...)
		done = done + int64(k)
		next = last
	}
	for c, v := range r.noise {
		w := r.of.Weights[c]
		p.Variance += w * w * v
	}
	return p, nil
}

// round goes through one round whose first iteration to look at is next; it
// returns that of the following round.
func (r *replayer) round(p *path, model []float32, k int, done int64, next int, rate float32) (int, error) {
	looked := 0
	for t := next; t < k; t += r.stride {
		if looked == len(r.mean) {
			r.mean = append(r.mean, make([]float64, len(r.local)))
		}
		clear(r.mean[looked])
		looked++
	}
	for c := range r.of.Clients {
		copy(r.local, model)
		r.order.Reset(r.seed, c, r.of.Set.Samples(c), r.of.Batch, done)
		for t, at := 0, 0; t < k; t++ {
			if t >= next && (t-next)%r.stride == 0 {
				r.look(p, c, r.mean[at])
				at++
			}
			r.batch.Reset()
			if err := r.of.Set.Batch(&r.batch, c, r.order.Next()); err != nil {
				return 0, err
			}
			if _, err := r.work.Step(r.local, &r.batch, rate); err != nil {
				return 0, fmt.Errorf("lab: client %d: %w", c, err)
			}
		}
	}
	for _, x := range r.mean[:looked] {
		p.Squares = append(p.Squares, r.of.Gradient(r.g, x))
	}
	return next + looked*r.stride - k, nil
}

// look measures a client's gradient and adds its model to the mean.
func (r *replayer) look(p *path, c int, mean []float64) {
	w := r.of.Weights[c]
	for j, v := range r.local {
		r.x[j] = float64(v)
		mean[j] += w * r.x[j]
	}
	second, noise := r.of.Second(r.g, c, r.x)
	r.noise[c], p.Second = max(r.noise[c], noise), max(p.Second, second)
}
