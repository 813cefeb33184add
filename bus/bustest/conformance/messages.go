package conformance

import (
	"math"

	"fedpace/bus"
)

// Model is small enough for one chunk.
var Model = []float32{1, 2, 3}

var nan = math.NaN()

// Job returns the training job with number n, which has one client, for a model with this digest and
// number of parameters.
func Job(n uint64, model bus.Digest, params int) *bus.Job {
	return &bus.Job{
		Job: n, Kind: bus.Train, Kernel: "go", Round: 2, ModelDigest: model.Bytes(), Params: uint32(params),
		Spec:    &bus.Spec{Model: "linear:5000,2", DataDigest: "ab", Seed: 7, Batch: 32},
		Clients: []*bus.ClientWork{{Task: 9, Client: 4, LocalSteps: 3, StepsDone: 12, LearningRate: 0.1, Weight: 0.5}},
	}
}

// Result returns the complete result of a training job for a model with this digest.
func Result(job uint64, model bus.Digest, values []int64, clients ...*bus.ClientLoss) *bus.Result {
	return &bus.Result{Sum: &bus.Sum{Job: job, ModelDigest: model.Bytes(), Clients: clients}, Values: values}
}

// Task returns the task with number n for a simulated client. Fields that the coordinator's side sets when it sends a
// task, and those that only real devices read, are empty.
func Task(n uint64) *bus.Task {
	return &bus.Task{
		Task: n, Round: 3, LocalSteps: 80, LearningRate: 0.3, StepsDone: 160,
		ModelDigest: bus.DigestOf([]float32{1}).Bytes(), ModelBits: 6_710_000, UpdateBits: 838_750,
		Joules: 12_000.5, Device: 18, Presence: 3,
	}
}

// Answer fills in the plan with which hosts of tests answer a task.
func Answer(client int, _ *bus.Task, p *bus.Plan) error {
	p.DownloadNs = 335_500_000
	p.ComputeNs = int64(client) * 17_000_000
	p.UploadNs = 1_342_000_000
	return nil
}
