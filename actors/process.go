package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/actors/external"
	"fedpace/algorithm"
	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/internal/vector"
	"fedpace/learn"
)

// processSteps implements [Steps] by a process of an external trainer. The process gets the row numbers
// of the keyed minibatches, and the terms that the algorithm adds to gradients.
type processSteps struct {
	problem *Problem
	worker  *external.Worker
	set     federated.Numbered
	// optimizer is the run's local optimizer as the protocol writes it. Nil means plain SGD.
	optimizer json.RawMessage
	order     federated.Minibatches
}

// maxNumbers is the largest number of row numbers of one task, which take a gigabyte.
const maxNumbers = 1 << 28

// newProcessSteps returns the steps of one worker of the problem's external trainer. The worker
// gets a process of its own.
func newProcessSteps(p *Problem) *processSteps {
	s := &processSteps{problem: p, worker: p.Trainer.Worker(), set: p.Trainer.Set()}
	if !learn.Plain(p.Optimizer) {
		s.optimizer = json.RawMessage(p.Spec().Local)
	}
	return s
}

// pack stores a process's bytes in a state vector of the given number of values. The first value
// holds the number of bytes, and zeros fill the rest.
func pack(state []byte, values int) []float32 {
	v := make([]float32, 1, values)
	v[0] = math.Float32frombits(uint32(len(state)))
	// A value holds four bytes, so up to three zeros complete the last one.
	padding := make([]byte, -len(state)&3)
	v = vector.Append(v, append(slices.Clip(state), padding...))
	// The vector may be longer than the state; its capacity was allocated as zeros.
	return v[:values]
}

// unpack returns the bytes of a vector made by pack, nil for a nil vector. A length beyond the
// vector is cut.
func unpack(v []float32) []byte {
	if v == nil {
		return nil
	}
	length := int(math.Float32bits(v[0]))
	bytes := vector.Bytes(v[1:])
	return bytes[:min(length, len(bytes))]
}

// Close ends the worker's process.
func (s *processSteps) Close() error { return s.worker.Close() }

// Run implements [Steps] by a process of the external trainer. w.Start(i) sets w.Client, the client half of the
// algorithm, to task i. It is called before the terms of a task (a proximal coefficient and a vector added to
// gradients) are read from that half, and again before the task's result is handed to done.
func (s *processSteps) Run(
	ctx context.Context,
	w *Work,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	if len(w.Tasks) == 0 {
		return nil
	}
	job := &external.Job{Base: w.Base, Optimizer: s.optimizer}
	// The algorithm may add terms to the gradients: a proximal one, whose coefficient is the same for all tasks,
	// and a vector, which is another for each task.
	var terms algorithm.Additive
	hasVector := false
	if w.Client != nil {
		terms = w.Client.(algorithm.Additive)
		// Either all tasks have a vector or none has, so the first task tells.
		w.Start(0)
		var vector []float32
		job.Proximal, vector = terms.Terms()
		hasVector = vector != nil
	}
	for i := range w.Tasks {
		t, err := s.task(&w.Tasks[i])
		if err != nil {
			return err
		}
		if hasVector {
			// The worker calls Correct when it lays out the request of this task.
			t.Correct = func(dst []float32) {
				w.Start(i)
				_, vector := terms.Terms()
				// Values behind the trained parameters are not corrected.
				n := copy(dst, vector)
				clear(dst[n:])
			}
		}
		// The trainer keeps a state for each client from task to task, of at most MaxStateBytes.
		if w.States != nil {
			t.MaxStateBytes = s.problem.trainerMemoryBytes()
			t.State = unpack(w.States[i])
			t.Keep = func(state []byte) { w.States[i] = pack(state, s.problem.stepMemoryValues()) }
		}
		job.Tasks = append(job.Tasks, t)
	}
	err := s.worker.Train(ctx, job, func(i int, model []float32, loss float64) error {
		// The requests of later tasks are laid out already, which has set the client half to those.
		w.Start(i)
		return done(i, model, loss)
	})
	// The process names the task by its number in the job.
	if d := (*external.Diverged)(nil); errors.As(err, &d) {
		if d.Index < 0 {
			return fmt.Errorf("%w: %s", ErrModelDiverged, d.Cause)
		}
		a := &w.Tasks[d.Index]
		return &Diverged{
			Task:   a.Task,
			Client: a.Client,
			Step:   d.Step,
			Cause:  d.Cause,
		}
	}
	return err
}

// task returns a client's steps in the form that the process gets. The row numbers of its
// minibatches are written by Rows when the request is laid out: for each step the size of the
// minibatch, and then its rows.
func (s *processSteps) task(a *Assignment) (external.Task, error) {
	p := s.problem
	samples := cmp.Or(a.Samples, s.set.Samples(a.Client))
	batch := cmp.Or(a.Batch, p.Batch)
	// Each step needs a size and one number for each sample of its minibatch.
	numbers := int64(a.LocalSteps) * int64(1+min(batch, samples))
	if numbers > maxNumbers {
		return external.Task{}, fmt.Errorf("actors: task %d, client %d: %d local steps on minibatches of %d samples "+
			"are %d row numbers, at most %d are handed to a trainer",
			a.Task, a.Client, a.LocalSteps, batch, numbers, maxNumbers)
	}
	return external.Task{
		Client:     a.Client,
		Name:       s.set.Client(a.Client),
		Steps:      a.LocalSteps,
		Rate:       float64(float32(a.Rate)),
		Seed:       keyed.Hash(p.Seed, keyed.External, uint64(a.Client), a.Task),
		RowsLength: int(numbers),
		Rows: func(dst []int32) {
			s.order.Reset(p.Seed, a.Client, samples, batch, a.StepsDone)
			for range a.LocalSteps {
				rows := s.order.Next()
				dst[0] = int32(len(rows))
				for k, i := range rows {
					// The samples of the task may be some of the client's, from FirstSample on.
					dst[1+k] = s.set.Row(a.Client, int32(a.FirstSample)+i)
				}
				dst = dst[1+len(rows):]
			}
		},
	}, nil
}

// Evaluate implements [Steps] by the trainer's process. The process may weigh its loss by another measure
// than samples, such as tokens: the result is then its mean loss times the number of samples.
func (s *processSteps) Evaluate(
	ctx context.Context,
	model []float32,
	measured Measured,
	scores []learn.Score,
) (lossSum float64, err error) {
	found, err := s.worker.Evaluate(ctx, model, measured.Count, func(dst []int32) {
		for i := range dst {
			if measured.Client == HeldOut {
				dst[i] = s.set.HeldOutRow(measured.heldOutPlace(i, s.set.HeldOut()))
			} else {
				dst[i] = s.set.Row(measured.Client, measured.sample(i, s.set.Samples(measured.Client)))
			}
		}
	})
	if d := (*external.Diverged)(nil); errors.As(err, &d) {
		return 0, fmt.Errorf("%w on %s: %s", ErrModelDiverged, measured.describe(s.set, 0, measured.Count), d.Cause)
	}
	if err != nil {
		return 0, err
	}
	for i, x := range found.Metrics {
		scores[i].Sum += x.Sum
		scores[i].Weight += x.Weight
	}
	// The process weighs each sample by 1 if the weights sum to the number of samples.
	samples := float64(measured.Count)
	if found.Loss.Weight == samples {
		return found.Loss.Sum, nil
	}
	meanLoss := found.Loss.Sum / found.Loss.Weight
	return float64(meanLoss * samples), nil
}
