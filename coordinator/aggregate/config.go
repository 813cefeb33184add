package aggregate

import (
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/algorithm/privacy"
	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/learn"
)

// Config is what an [Aggregator] is made of.
type Config struct {
	Learning Learning
	// Round is the configuration of the round machine, of which the population, the sites, the
	// metrics and the quality by which models compare are read.
	Round    round.Config
	Observer Observer
	// Devices are the run's real devices; nil means that all clients are simulated.
	Devices *realdevices.Devices
}

// Learning is what a run that trains needs beyond its rounds.
type Learning struct {
	Model learn.ModelInfo
	// Initial is the first model: Model.Params() values, which are not modified.
	Initial []float32
	// Spec is what a trainer must know to train: architecture, data, seed, minibatch.
	Spec *bus.Spec
	// Kernel is the class of the trainers that may take the run's jobs.
	Kernel string
	// Jobs is the number of jobs that a round is split into for the trainers of this process,
	// about two per worker. Remote hosts add theirs.
	Jobs int
	// HeldOut is the number of held-out samples, at least 1.
	HeldOut int
	// Arrived returns which of a client's samples a task trains on that starts at a time, and MeasuredAt which
	// held-out samples an evaluation at a time takes: so many from the first on. They are pure, and nil
	// where all samples are there from the beginning.
	Arrived    func(client int, start round.Time) (first, count int)
	MeasuredAt func(at round.Time) (first, count int)
	// EvaluatedSamples is the number of held-out samples that an evaluation takes, spread evenly; 0 means
	// all.
	EvaluatedSamples int
	// Units says for each target what 1 is worth in the unit of the user's data; if it is nil, the
	// units are the same.
	Units []float64
	// EvaluationSamples returns how many of a client's samples an evaluation by client takes, at most as
	// many as the client has; nil where the run has no such evaluations.
	EvaluationSamples func(client int) int
	// Samples returns a client's number of training samples for sample-weighted FedAvg
	// (Eq. 2); nil weighs the accepted updates equally (Algorithm 1).
	Samples func(client int) int
	// SamplesPerStep returns the samples of one local step of a client, where updates weigh by the samples
	// that their steps took; nil where they do not.
	SamplesPerStep func(client int) int
	// Batch returns a client's minibatch size, 0 for that of Spec; nil where all clients have that
	// of Spec.
	Batch func(client int) int
	// Attackers are the clients that attack; nil where all are honest.
	Attackers *Attackers
	// Algorithm is how updates become a model; nil means FedAvg. It is made for the model and the
	// population, and its state advances with the run.
	Algorithm *algorithm.Instance
	// Combine clips or combines the updates of single clients before the algorithm.
	Combine combine.Setup
	// Secure says how updates weigh where they are aggregated securely; nil if they are not.
	Secure *Secure
	// Privacy adds noise to the sums of updates that Combine has clipped; nil adds none.
	Privacy *privacy.Mechanism
}

// Observer is informed of training, from the run's own goroutine: a slow observer holds the run.
// Any of its functions may be nil.
type Observer struct {
	// Trained reports how many of a round's simulated clients have been trained: 0, then more as
	// their sums arrive.
	Trained func(done, clients int)
	// Best reports the best validation so far by Round.Quality; params may be kept, not changed.
	Best func(quality float64, params []float32)
	// Model reports the global model after a round with updates; params may be kept, not changed.
	Model func(round int, params []float32)
}
