package learn

import "fedpace/actors/learn/network"

// What a model reads and is measured by lies beneath all models, with the networks.
type (
	// Samples says what the samples of a set are, or what a model reads.
	Samples = network.Samples
	// Input says which fields of a Batch a model reads.
	Input = network.Input
	// Batch is a minibatch in the layout its model reads.
	Batch = network.Batch
	// Metric names a quantity besides the loss by which a model is measured.
	Metric = network.Metric
	// Score is what samples add to a metric, whose value is Sum/Weight.
	Score = network.Score
)

// The kinds of input.
const (
	Dense  = network.Dense
	Sparse = network.Sparse
	Tokens = network.Tokens
)

// Accuracy is the metric of a classifier.
const Accuracy = network.Accuracy
