package advise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"fedpace/config"
	"fedpace/coordinator/theory"
	"fedpace/data/federated"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/learn"
	"fedpace/metrics/outputs"
)

// How much of a data set an estimate looks at.
const (
	// probedClients is the largest number of clients whose gradients are taken.
	probedClients = 32
	// probedBatches is the number of minibatches of each client from which G and the variance are
	// estimated.
	probedBatches = 8
)

// Estimate finds the constants of Theorem 1 for the finished run in dir, whose configuration is c. fStar, the
// lowest loss of the run, stands for F*. Minibatches of some clients, at the run's first and last models,
// give G and the variance. The change of the gradient from the first model to the last, divided by their
// distance, is at most L; its part along the line between them is at least mu where the objective is convex.
// The constants are rough: a network has no such constants.
func Estimate(ctx context.Context, dir string, c config.Config, fStar float64) (theory.Constants, []Source, error) {
	var k theory.Constants
	if c.External() {
		return k, nil, &config.KeyError{
			Key: "trainer",
			Problem: "the constants are estimated from gradients that fedpace takes itself, and the model is the " +
				"trainer's (give the constants)",
		}
	}
	// The initial model follows from the configuration; only the last one is in the folder.
	p, err := problem.Open(c)
	if err != nil {
		return k, nil, err
	}
	defer p.Close()
	last, err := folder.ReadModel(filepath.Join(dir, outputs.ModelFile), p.Model.Tensors())
	if err != nil {
		return k, nil, fmt.Errorf("%s has no final model to estimate at: %w", dir, err)
	}
	k, err = look(ctx, p, last)
	if err != nil {
		return k, nil, err
	}
	// The lowest loss of the run stands for F*.
	k.FStar = fStar
	minibatches := fmt.Sprintf(
		"estimated: %d minibatches of each of %d clients, at the first and the last model",
		probedBatches,
		min(probedClients, k.Clients),
	)
	origins := []string{
		"estimated: |∇F(x) − ∇F(y)|/|x − y| of the first and the last model, at most L",
		"estimated: (∇F(x) − ∇F(y))·(x − y)/|x − y|² of them, at least mu where F is convex",
		minibatches + ", the larger; divided by the clients",
		"taken as 0: a run does not show the clients' own minima",
		minibatches + ", the largest",
		"the least mean over a window of rounds: at least F*, and K* is 0 there",
	}
	// A slope that is not positive shows that the objective is not convex, and mu must be positive.
	if k.Mu <= 0 {
		k.Mu = k.L
		origins[1] = "taken as L: between the first and the last model F is not convex"
	}
	return k, sources(k, origins...), nil
}

// look takes gradients at the problem's initial model and at the model y, of the same minibatches at both.
// G comes from the client with the largest mean squared norm. The variance is the mean of the clients' own,
// at the model where it is larger, divided by the number of clients. L and mu are slopes of the mean gradient
// between the two models; mu is below 0 where the objective is not convex between them.
func look(ctx context.Context, p *problem.Problem, y []float32) (k theory.Constants, err error) {
	set := p.Set
	c := &p.Config
	x := p.Initial
	n := len(y)
	k.N, k.Clients = c.Cohort, set.Clients()
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return k, err
	}
	work := p.Model.(learn.Model).NewWorkspace(c.Batch, kernel)
	var order federated.Minibatches
	var batch learn.Batch
	grad := make([]float32, n)
	var mean [2][]float64
	clients := min(probedClients, set.Clients())
	// largest is the largest mean squared gradient norm E‖g‖² among the clients.
	var largest float64
	var variance [2]float64
	for m := range mean {
		mean[m] = make([]float64, n)
	}
	sum := make([]float64, n)
	for i := range clients {
		if err := ctx.Err(); err != nil {
			return k, err
		}
		// The clients that are probed are spread evenly over the population.
		client := i * set.Clients() / clients
		// The minibatches are the same at both models, so that the gradients differ by the models
		// alone.
		for m, params := range [][]float32{x, y} {
			clear(sum)
			squares := 0.0
			order.Reset(c.Seed, client, set.Samples(client), c.Batch, 0)
			for range probedBatches {
				batch.Reset()
				if err := set.Batch(&batch, client, order.Next()); err != nil {
					return k, err
				}
				if _, err := work.Gradient(grad, params, &batch); err != nil {
					return k, err
				}
				// The mean gradient and the mean squared norm together give the variance.
				for j, g := range grad {
					sum[j] += float64(g) / probedBatches
					squares += float64(float64(g)*float64(g)) / probedBatches
				}
			}
			square := 0.0
			for j, s := range sum {
				square += float64(s * s)
				mean[m][j] += s / float64(clients)
			}
			largest = max(largest, squares)
			// Bessel's correction: the mean is estimated from the same few gradients.
			variance[m] += max(0, squares-square) * probedBatches / (probedBatches - 1) / float64(clients)
		}
	}
	k.G = math.Sqrt(largest)
	k.Variance = max(variance[0], variance[1]) / float64(k.Clients)
	way := 0.0
	dot := 0.0
	square := 0.0
	// way is |x − y|², dot the product of both differences, and square that of the gradients.
	for j := range x {
		d := float64(x[j]) - float64(y[j])
		g := mean[0][j] - mean[1][j]
		way += float64(d * d)
		dot += float64(d * g)
		square += float64(g * g)
	}
	// Without a distance between the models there is no slope.
	if way == 0 {
		return k, errors.New("the run ended at the model that it started from: nothing can be estimated")
	}
	k.Mu = dot / way
	k.L = math.Sqrt(square / way)
	return k, nil
}
