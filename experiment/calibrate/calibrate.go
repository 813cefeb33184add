package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/synthetic"
	"fedpace/actors/learn"
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
	if steps < 2 || steps > MaxCalibration {
		return c, fmt.Errorf("calibrate: %d steps, want 2 to %d", steps, MaxCalibration)
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return c, err
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
	params := make([]float32, model.Params())
	model.Init(params, 1)
	work := model.NewWorkspace(paper.Batch, kernel)
	var order federated.Minibatches
	order.Reset(1, 0, set.Samples(0), paper.Batch, 0)
	var batch learn.Batch
	times := make([]float64, 0, steps)
	for k := range calibrationWarmUp + steps {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		started := time.Now()
		batch.Reset()
		if err := set.Batch(&batch, 0, order.Next()); err != nil {
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
	c = Calibration{Task: task, Kernel: kernel.Instructions(), Steps: steps, PaperMean: paper.SecondsPerStep, PaperStd: paper.StdPerStep}
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
