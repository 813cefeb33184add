package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/synthetic"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
	"fedpace/internal/names"
	"fedpace/internal/tasks"
)

// Calibration is how long a task's minibatches take this machine: one step of SGD
// with the samples it needs, on one core.
type Calibration struct {
	Task      tasks.Task `json:"task"`
	Kernel    string     `json:"kernel"` // instructions, see learn.Kernel
	Steps     int        `json:"steps"`
	Mean      float64    `json:"mean_seconds"`
	Std       float64    `json:"std_seconds"` // of the sample, with n-1
	PaperMean float64    `json:"paper_mean_seconds"`
	PaperStd  float64    `json:"paper_std_seconds"` // Table 2
}

// calibrationWarmUp is how many steps are not counted: the first ones fill caches
// and make the data.
const calibrationWarmUp = 5

// MaxCalibration is the largest number of steps that Calibrate measures.
const MaxCalibration = 1_000_000

// Calibrate measures so many minibatches of one of the paper's tasks on synthetic
// data, as Table 2 does on a Raspberry Pi with 100.
func Calibrate(ctx context.Context, task tasks.Task, steps int) (c Calibration, err error) {
	paper, ok := task.Paper()
	if !ok {
		return c, fmt.Errorf("calibrate: %q is not a task of the paper's Table 2", task)
	}
	model, err := learn.Parse(paper.Architecture)
	if err != nil {
		return c, err
	}
	set, err := synthetic.New(string(task), 1, 1, 1)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	var order federated.Minibatches
	order.Reset(1, 0, set.Samples(0), paper.Batch, 0)
	c, err = measure(ctx, model, paper.Batch, steps, func(batch *learn.Batch) error { return set.Batch(batch, 0, order.Next()) })
	c.Task, c.PaperMean, c.PaperStd = task, paper.SecondsPerStep, paper.StdPerStep
	return c, err
}

// Model measures so many minibatches of a model, as learn.Parse reads it, on random
// samples.
func Model(ctx context.Context, spec string, batch, steps int) (Calibration, error) {
	model, err := learn.Parse(spec)
	if err != nil {
		return Calibration{}, fmt.Errorf("calibrate: %w", err)
	}
	of, r := model.Samples(), keyed.New(1, keyed.Weights)
	c, err := measure(ctx, model, batch, steps, func(b *learn.Batch) error {
		b.N = batch
		for range batch {
			appendSample(b, of, r)
		}
		return nil
	})
	c.Task = tasks.Custom
	return c, err
}

// sparseWords is how many words a random bag of words has.
const sparseWords = 12

// appendSample appends a random sample.
func appendSample(b *learn.Batch, of learn.Samples, r *rand.Rand) {
	switch of.Input {
	case learn.Sparse:
		n := min(sparseWords, of.Features)
		index, value := federated.AppendBag(b, n)
		for i := range n {
			index[i], value[i] = int32(i*of.Features/n), 1/float32(n)
		}
	case learn.Tokens:
		for range of.Features {
			b.Tokens = append(b.Tokens, byte(r.IntN(of.Vocabulary)))
		}
	default:
		for range of.Features {
			b.X = append(b.X, r.Float32())
		}
	}
	for range of.Targets {
		b.Targets = append(b.Targets, r.Float32())
	}
	if of.Classes > 0 {
		b.Labels = append(b.Labels, int32(r.IntN(of.Classes)))
	}
}

// measure times steps of SGD, each with the samples that next appends.
func measure(ctx context.Context, model learn.Model, batchSize, steps int, next func(*learn.Batch) error) (c Calibration, err error) {
	if steps < 2 || steps > MaxCalibration {
		return c, fmt.Errorf("calibrate: %d steps, want 2 to %d", steps, MaxCalibration)
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return c, err
	}
	params := make([]float32, model.Params())
	model.Init(params, 1)
	work := model.NewWorkspace(batchSize, kernel)
	var batch learn.Batch
	times := make([]float64, 0, steps)
	for k := range calibrationWarmUp + steps {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		started := time.Now()
		batch.Reset()
		if err := next(&batch); err != nil {
			return c, fmt.Errorf("calibrate: %w", err)
		}
		// A rate of 0 would be as quick; this one keeps every model finite.
		if _, err := work.Step(params, &batch, 1e-4); err != nil {
			return c, fmt.Errorf("calibrate: %w", err)
		}
		if k >= calibrationWarmUp {
			times = append(times, time.Since(started).Seconds())
		}
	}
	c = Calibration{Kernel: kernel.Instructions(), Steps: steps}
	c.Mean, c.Std = meanAndDeviation(times)
	return c, nil
}

// WriteClass writes the calibration as a configuration whose clients are all of
// this class: a file for fedpace run --config, or a class to be copied into
// another's fleet.
func (c *Calibration) WriteClass(w io.Writer, name string) error {
	if err := names.CheckName(name); err != nil {
		return fmt.Errorf("calibrate: name: %w", err)
	}
	_, err := fmt.Fprintf(w, `# A class of devices measured by fedpace calibrate: %d minibatches of %s with
# kernel %s.
task: %s
fleet:
  - {name: %s, seconds_per_step: %.6g, step_cv: %.4g}
`, c.Steps, c.Task, c.Kernel, c.Task, name, c.Mean, c.Std/c.Mean)
	return err
}

// meanAndDeviation is of at least two values: the deviation is the sample's, with
// n-1.
func meanAndDeviation(list []float64) (mean, deviation float64) {
	for _, x := range list {
		mean += x
	}
	mean /= float64(len(list))
	square := 0.0
	for _, x := range list {
		square += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(square / float64(len(list)-1))
}
