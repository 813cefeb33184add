package convex

import (
	"fmt"
	"math"
	"slices"

	"fedpace/coordinator/theory"
	"fedpace/data/federated"
	"fedpace/learn"
)

// objective is a federated objective in float64. Its methods may be called
// concurrently.
type objective interface {
	// value is f_c(x), gradient writes ∇f_c(x).
	value(c int, x []float64) float64
	gradient(dst []float64, c int, x []float64)
	// variance is that of one sample's gradient about ∇f_c(x), drawn uniformly:
	// the mean of ‖∇f(x; ξ) − ∇f_c(x)‖².
	variance(c int, x []float64) float64
	// curvature returns an L and a mu for all clients.
	curvature() (l, mu float64)
	// minimise returns the parameters at which the weighted sum of the f_c is smallest.
	minimise(weights []float64) ([]float64, error)
}

// Problem is a federated problem with its optimum.
type Problem struct {
	// L and Mu bound the curvature of every client's objective from above and below, in units of
	// loss over squared length.
	L, Mu float64
	// Star is x*, the minimum of the weighted objective.
	Star []float64
	// FStar is F(x*), its value there.
	FStar float64
	// Gamma is F* − Σ p_c f_c*: how far the clients' own minima are from the common one.
	Gamma float64
	// Clients is the number of clients.
	Clients int
	// Batch is the number of samples of a minibatch.
	Batch int
	// Weights holds p_c, the weight of each client in the objective.
	Weights []float64

	// Set is the data set, which whoever opened it closes.
	Set federated.Set
	// Model is the model whose parameters are x.
	Model learn.Model

	// objective computes the clients' objectives and their gradients.
	objective objective
	// samples holds the number of samples of each client.
	samples []int
}

// maxParameters bounds the problems whose minimum is found by Newton's method.
const maxParameters = 2000

// New reads the convex problem of a data set and a model, and finds its minimum. batch is the number
// of samples of a minibatch. weights are the clients' p_c of the objective; if they are nil, all
// clients have the same one, as in Algorithm 1's mean over a uniform cohort. It is an error if the
// model is not strongly convex or has more than maxParameters parameters.
func New(set federated.Set, model learn.Model, batch int, weights []float64) (*Problem, error) {
	clients := set.Clients()
	p := &Problem{
		Clients: clients,
		Batch:   batch,
		Set:     set,
		Model:   model,
		Weights: weights,
	}
	if weights == nil {
		p.Weights = slices.Repeat([]float64{1 / float64(clients)}, clients)
	}
	if batch < 1 || len(p.Weights) != clients {
		return nil, fmt.Errorf("convex: minibatches of %d, %d weights for %d clients", batch, len(p.Weights), clients)
	}
	if model.Params() > maxParameters {
		return nil, fmt.Errorf(
			"convex: %s has %d parameters; the optimum is found for at most %d",
			model,
			model.Params(),
			maxParameters,
		)
	}
	for c := range clients {
		p.samples = append(p.samples, set.Samples(c))
	}
	var err error
	// The kind of model decides how the objective is read from the samples.
	switch kind := learn.Convex(model).(type) {
	case learn.Quadratic:
		p.objective, err = readQuadratic(set, kind)
	case learn.Logistic:
		p.objective, err = readLogistic(set, kind)
	default:
		err = fmt.Errorf("convex: %s is not strongly convex, want a quadratic or logistic model", model)
	}
	if err != nil {
		return nil, err
	}
	return p, p.solve()
}

// solve finds the minimum x* of the weighted objective and its value F*, the bounds L and Mu of the
// curvature, and Gamma: F* minus the weighted mean of the minima of the clients' own objectives (Li
// et al. 2020). Gamma is 0 if all clients have the same minimum.
func (p *Problem) solve() (err error) {
	p.Star, err = p.objective.minimise(p.Weights)
	if err != nil {
		return err
	}
	p.FStar = p.Value(p.Star)
	p.L, p.Mu = p.objective.curvature()
	// The objective of one client is the weighted one with all weight on that client.
	oneClient := make([]float64, p.Clients)
	meanMinimum := 0.0
	for c := range p.Clients {
		clear(oneClient)
		oneClient[c] = 1
		x, err := p.objective.minimise(oneClient)
		if err != nil {
			return fmt.Errorf("client %d: %w", c, err)
		}
		meanMinimum += float64(p.Weights[c] * p.objective.value(c, x))
	}
	// Rounding may leave a difference slightly below zero.
	p.Gamma = math.Max(0, p.FStar-meanMinimum)
	return nil
}

// Value is F(x).
func (p *Problem) Value(x []float64) float64 { return weightedValue(p.objective, p.Weights, x) }

// weightedValue is the weighted sum of the clients' objectives at x. Clients of weight 0 cost nothing.
func weightedValue(o objective, weights, x []float64) (f float64) {
	for c, w := range weights {
		if w != 0 {
			f += float64(w * o.value(c, x))
		}
	}
	return f
}

// Gradient writes ∇F(x), the weighted sum of the gradients of all clients, to dst and returns its
// squared norm. dst and x have one element for each parameter.
func (p *Problem) Gradient(dst, x []float64) (square float64) {
	clear(dst)
	clientGradient := make([]float64, len(x))
	for c, w := range p.Weights {
		p.objective.gradient(clientGradient, c, x)
		addScaled(dst, w, clientGradient)
	}
	return norm2(dst)
}

// Noise returns σ_c² at x: the variance of the gradient of a minibatch of Batch samples of client c, or all
// of them if it has fewer. They are drawn without replacement, each choice as likely. Every single
// minibatch of a run is drawn so, but those of one epoch share no sample.
func (p *Problem) Noise(c int, x []float64) float64 {
	n := float64(p.samples[c])
	b := math.Min(float64(p.Batch), n)
	// Every minibatch has the only sample.
	if n == 1 {
		return 0
	}
	// The mean of b of n values has the variance of one of them times (n-b)/(b(n-1)), which is 0 for all of them.
	varianceOfOne := p.objective.variance(c, x)
	return varianceOfOne * (n - b) / (b * (n - 1))
}

// SecondMoment returns E‖∇f_c(x; ξ)‖², the second moment of the gradient of a minibatch of client c at x, which
// G² bounds, and the part of it that is noise (see [Problem.Noise]). It overwrites dst by ∇f_c(x).
func (p *Problem) SecondMoment(dst []float64, c int, x []float64) (second, noise float64) {
	p.objective.gradient(dst, c, x)
	noise = p.Noise(c, x)
	return norm2(dst) + noise, noise
}

// Distance returns ‖x − x*‖, the Euclidean distance of the parameters x from the minimum of the
// weighted objective.
func (p *Problem) Distance(x []float64) float64 {
	sum := 0.0
	for j := range x {
		sum += float64((x[j] - p.Star[j]) * (x[j] - p.Star[j]))
	}
	return math.Sqrt(sum)
}

// Constants returns those of Theorem 1 for rounds of n clients that start from x. Variance is
// Σ p_c² σ_c², where σ_c² is the larger one of the values at x and at x*. G is the root of the largest
// second moment of all clients at these two points. Both are bounds only if a run's parameters stay between the
// points. G is not the one that the paper prints, which [theory.PrintedG] returns.
func (p *Problem) Constants(x []float64, n int) theory.Constants {
	c := theory.Constants{
		L:       p.L,
		Mu:      p.Mu,
		Gamma:   p.Gamma,
		FStar:   p.FStar,
		N:       n,
		Clients: p.Clients,
	}
	gradient := make([]float64, len(x))
	for client, w := range p.Weights {
		startMoment, startNoise := p.SecondMoment(gradient, client, x)
		starMoment, starNoise := p.SecondMoment(gradient, client, p.Star)
		c.Variance += float64(w * w * max(startNoise, starNoise))
		c.G = max(c.G, math.Sqrt(max(startMoment, starMoment)))
	}
	return c
}

// Widen returns a copy of the parameters of a model as float64, in which objectives and distances
// are computed without the rounding of float32.
func Widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// addScaled adds factor times values to dst. Each product is rounded before it is added, so that
// machines that could fuse both have the same bits as others.
func addScaled(dst []float64, factor float64, values []float64) {
	for i, v := range values {
		dst[i] += float64(factor * v)
	}
}

// subtract writes x − y to dst.
func subtract(dst, x, y []float64) {
	for i := range dst {
		dst[i] = x[i] - y[i]
	}
}

// norm2 is the squared Euclidean norm.
func norm2(x []float64) (sum float64) {
	for _, v := range x {
		sum += float64(v * v)
	}
	return sum
}

// clientSamples returns all samples of client c of a set as one batch. width is the number of values of a
// sample. It is an error if the samples have another number of values.
func clientSamples(set federated.Set, c, width int) (*learn.Batch, error) {
	all := make([]int32, set.Samples(c))
	for i := range all {
		all[i] = int32(i)
	}
	b := new(learn.Batch)
	if err := set.Batch(b, c, all); err != nil {
		return nil, fmt.Errorf("convex: client %d (%s): %w", c, set.Client(c), err)
	}
	if len(b.X) != b.N*width {
		return nil, fmt.Errorf("convex: samples of client %d have %d values, want %d", c, len(b.X)/max(1, b.N), width)
	}
	return b, nil
}
