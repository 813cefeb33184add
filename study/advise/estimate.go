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
	k, err = probeGradients(ctx, p, last)
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
	// The origins are in the order of the list constants, as sources pairs them: L, mu, the variance, Gamma, G, F*.
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

// probeGradients estimates constants of Theorem 1 from gradients at the problem's initial model and at the
// parameters last, of the same minibatches at both. G comes from the client with the largest mean squared norm.
// The variance is the mean of the clients' own, at the model where it is larger, divided by the number of
// clients. L and mu are slopes of the mean gradient between the two models; mu is below 0 where the objective
// is not convex between them. F* and Gamma stay 0.
func probeGradients(ctx context.Context, p *problem.Problem, last []float32) (k theory.Constants, err error) {
	set := p.Set
	c := &p.Config
	first := p.Initial
	k.N = c.Cohort
	k.Clients = set.Clients()
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return k, err
	}
	work := p.Model.(learn.Model).NewWorkspace(c.Batch, kernel)
	var minibatches federated.Minibatches
	var batch learn.Batch
	gradient := make([]float32, len(last))
	clients := min(probedClients, set.Clients())
	// maxMeanSquare is the largest mean squared gradient norm E‖g‖² among the clients.
	var maxMeanSquare float64
	// meanGradient and variance have an entry for the first model and one for the last.
	var meanGradient [2][]float64
	var variance [2]float64
	for model := range meanGradient {
		meanGradient[model] = make([]float64, len(last))
	}
	// clientGradient is the mean gradient of one client at one model.
	clientGradient := make([]float64, len(last))
	for i := range clients {
		if err := ctx.Err(); err != nil {
			return k, err
		}
		// The clients that are probed are spread evenly over the population.
		client := i * set.Clients() / clients
		// The minibatches are the same at both models, so that the gradients differ by the models
		// alone.
		for model, params := range [][]float32{first, last} {
			clear(clientGradient)
			meanSquare := 0.0
			minibatches.Reset(c.Seed, client, set.Samples(client), c.Batch, 0)
			for range probedBatches {
				batch.Reset()
				if err := set.Batch(&batch, client, minibatches.Next()); err != nil {
					return k, err
				}
				if _, err := work.Gradient(gradient, params, &batch); err != nil {
					return k, err
				}
				// The mean gradient and the mean squared norm together give the variance.
				for j, g := range gradient {
					clientGradient[j] += float64(g) / probedBatches
					meanSquare += float64(float64(g)*float64(g)) / probedBatches
				}
			}
			squareOfMean := 0.0
			for j, g := range clientGradient {
				squareOfMean += float64(g * g)
				meanGradient[model][j] += g / float64(clients)
			}
			maxMeanSquare = max(maxMeanSquare, meanSquare)
			// Bessel's correction: the mean is estimated from the same few gradients.
			clientVariance := max(0, meanSquare-squareOfMean) * probedBatches / (probedBatches - 1)
			variance[model] += clientVariance / float64(clients)
		}
	}
	k.G = math.Sqrt(maxMeanSquare)
	// Theorem 1 has Σ p_c² σ_c². With equal weights p_c = 1/Clients that is the mean of σ_c² divided by Clients.
	k.Variance = max(variance[0], variance[1]) / float64(k.Clients)
	// The three sums are |x − y|², (∇F(x) − ∇F(y))·(x − y) and |∇F(x) − ∇F(y)|².
	distanceSquared := 0.0
	product := 0.0
	changeSquared := 0.0
	for j := range first {
		distance := float64(first[j]) - float64(last[j])
		change := meanGradient[0][j] - meanGradient[1][j]
		distanceSquared += float64(distance * distance)
		product += float64(distance * change)
		changeSquared += float64(change * change)
	}
	// Without a distance between the models there is no slope.
	if distanceSquared == 0 {
		return k, errors.New("the run ended at the model that it started from: nothing can be estimated")
	}
	k.Mu = product / distanceSquared
	k.L = math.Sqrt(changeSquared / distanceSquared)
	return k, nil
}
