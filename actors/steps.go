package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"fedpace/algorithm"
	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// Steps takes the local steps of one worker and measures models: in Go, or in a process of the
// user's.
type Steps interface {
	// Run takes the local steps of each task from the base model, and calls done with the model of each
	// task in order. done must make the model equal to the base again, except for the last task.
	Run(ctx context.Context, w *Work, done func(i int, model []float32, firstStepLoss float64) error) error
	// Evaluate returns the sum of a model's losses over samples, and adds to scores, one for each of
	// the model's metrics.
	Evaluate(ctx context.Context, model []float32, measured Measured, scores []learn.Score) (lossSum float64, err error)
	// Close releases memory and processes.
	Close() error
}

// Work is the local steps of several clients that start from the same model.
type Work struct {
	Base  []float32
	Tasks []Assignment
	// Client is the client half of the algorithm. Nil means that local steps are those of the optimizer
	// alone.
	Client algorithm.Client
	// Start starts task i in Client.
	Start func(i int)
	// States holds for each task what the client's steps have kept from its last task, such as an optimizer's memory,
	// nil for a client's first task. Run replaces each by what they keep now before it calls done for the task. Nil
	// States mean that nothing is kept.
	States [][]float32
	// Rounds is the number of rounds that have made the base model, set with States.
	Rounds uint64
}

// continueSteps takes a client's local steps from model, which it replaces by the result. memory is
// what the client's steps remembered before, nil for a first task, and memoryValues is the length of that
// memory, 0 if they remember nothing. It returns the loss before the first step and what the steps remember
// now. If the task has no steps, the model and the memory stay, and the loss is 0.
func continueSteps(
	ctx context.Context,
	steps Steps,
	model []float32,
	a Assignment,
	memory []float32,
	memoryValues int,
) (firstStepLoss float64, nextMemory []float32, err error) {
	if a.LocalSteps == 0 {
		return 0, memory, nil
	}
	// The steps are run as a job of one task, from the model as it is.
	w := &Work{Base: model, Tasks: []Assignment{a}, Start: func(int) {}}
	if memoryValues > 0 {
		w.States = [][]float32{memory}
	}
	err = steps.Run(ctx, w, func(_ int, stepped []float32, loss float64) error {
		copy(model, stepped)
		firstStepLoss = loss
		return nil
	})
	if err != nil || memoryValues == 0 {
		return firstStepLoss, memory, err
	}
	return firstStepLoss, w.States[0], nil
}

// Measured selects the samples of an evaluation: Count held-out samples from FirstSample on, or
// Count samples of a client, spread evenly over all that it has.
type Measured struct {
	// Client is the client's number, or HeldOut.
	Client int
	// FirstSample is the first held-out sample, counted among those of Spread.
	FirstSample int
	// Count is the number of samples to measure.
	Count int
	// Spread is the number of held-out samples that the whole evaluation measures, at even
	// distances among all of them. 0 means that it measures all.
	Spread int
	// Outcomes takes the model's output for each sample. Nil means that the outputs are not kept.
	Outcomes *metric.Outcomes
	// State is the client's state if a part of the model is its own. Nil means that it has none yet.
	State []float32
}

// HeldOut stands for the client of an evaluation on held-out samples.
const HeldOut = -1

// sample returns the index of the i-th measured sample among all of the client's samples, whose number is samples.
// The measured ones lie at even distances.
func (m *Measured) sample(i, samples int) int32 {
	return int32(int64(i) * int64(samples) / int64(m.Count))
}

// heldOutPlace returns the index of the i-th measured sample among all held-out samples of the set, whose
// number is heldOut. The measured samples follow one another or, if Spread is not 0, are some of the Spread
// samples that lie at even distances among all.
func (m *Measured) heldOutPlace(i, heldOut int) int {
	number := m.FirstSample + i
	if m.Spread == 0 {
		return number
	}
	return int(int64(number) * int64(heldOut) / int64(m.Spread))
}

// describe describes n of the measured samples for the message of an error. first is the number of the first
// one, counted from 0 among the measured samples.
func (m *Measured) describe(set federated.Set, first, n int) string {
	source := "held-out samples"
	if m.Spread > 0 {
		source = fmt.Sprintf("of the %d held-out samples at even distances the samples", m.Spread)
	}
	if m.Client != HeldOut {
		source = fmt.Sprintf("of client %d (%s) the measured samples", m.Client, set.Client(m.Client))
	}
	return fmt.Sprintf("%s %d to %d", source, m.FirstSample+first, m.FirstSample+first+n-1)
}

// goSteps are the local steps of a model of package learn.
type goSteps struct {
	problem *Problem

	// work runs the model. It is made when it is first needed: where steps are arranged, it may never be.
	work learn.Workspace
	// arranged takes plain steps and measures models, faster than work and to the same bits. It is nil
	// for models that have no such arithmetic, and where steps are not plain.
	arranged *arranged
	// clientModel is the model of the client under way, which steps change.
	clientModel []float32
	// order draws the minibatches of the client, and batch is the present one.
	order federated.Minibatches
	batch learn.Batch

	// samples are the indices of the samples of an evaluation by client.
	samples []int32

	// draws are the random numbers of the augmentation, from source. Nil means no augmentation.
	draws  *rand.Rand
	source rand.PCG

	// stepper takes the local steps. Nil means plain SGD.
	stepper learn.Stepper
	// gradient is set if the stepper or the algorithm needs to see gradients.
	gradient []float32
}

// evaluationBatch is the number of samples that are measured at a time.
const evaluationBatch = 256

// newGoSteps allocates the memory of one worker. client is the client half of the algorithm, nil if
// it does not change gradients.
func newGoSteps(p *Problem, client algorithm.Client) *goSteps {
	s := &goSteps{problem: p, clientModel: make([]float32, p.Model.Params())}
	if p.Optimizer != nil {
		s.stepper = p.Optimizer.Stepper(p.Model.Trainable())
	}
	if p.Augment == FlipCrop {
		s.draws = rand.New(&s.source)
	}
	isPlainSGD := client == nil && s.stepper == nil
	if isPlainSGD {
		// A step of plain SGD adds the gradient to the parameters at once, which arranged steps do faster.
		s.arranged = newArranged(p)
	} else {
		// The algorithm corrects a step's gradient before the optimizer uses it, so the gradient has memory of its own.
		s.gradient = make([]float32, len(s.clientModel))
	}
	return s
}

// maxBatch returns the largest number of samples that a workspace gets at once.
func (p *Problem) maxBatch() int { return max(p.Batch, p.LargestBatch, evaluationBatch) }

// workspace returns the memory of the model's arithmetic, and makes it when it is first needed.
func (s *goSteps) workspace() learn.Workspace {
	if s.work == nil {
		s.work = s.problem.Model.(learn.Model).NewWorkspace(s.problem.maxBatch(), s.problem.Kernel)
	}
	return s.work
}

// Close implements [Steps]. There is nothing to release.
func (s *goSteps) Close() error { return nil }

// Run implements [Steps] in Go: it takes the steps of each task from the base model, and calls done
// with the result, which is valid until done returns. A client's optimizer continues with its memory
// from the client's last task, if it has one. Between the tasks s.clientModel is the base model again, because done
// makes it so (see [Steps]); Run copies the base only before the first task.
func (s *goSteps) Run(
	ctx context.Context,
	w *Work,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	copy(s.clientModel, w.Base)
	for i := range w.Tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.Start(i)
		// An optimizer without a memory, or a job without states, starts afresh in each task.
		keeper, hasMemory := s.stepper.(learn.StatefulStepper)
		hasMemory = hasMemory && w.States != nil
		if hasMemory && w.States[i] != nil {
			keeper.Load(w.States[i])
		} else if s.stepper != nil {
			s.stepper.Start()
		}
		// The last step of a task is like the others here, so step is not told which one it is.
		step := func(rate float32, _ bool) (float64, error) { return s.step(w.Client, rate) }
		loss, err := s.task(ctx, &w.Tasks[i], step)
		if err == nil && hasMemory {
			w.States[i] = make([]float32, keeper.Memory())
			keeper.Save(w.States[i])
		}
		if err == nil {
			err = done(i, s.clientModel, loss)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// task runs one client's local steps and returns the loss before the first one. Each is taken by step, on
// s.batch at the learning rate; isLast says that it is the task's last one. Every source of randomness is keyed by
// (seed, client, step), so any host takes the same steps.
func (s *goSteps) task(
	ctx context.Context,
	a *Assignment,
	step func(rate float32, isLast bool) (loss float64, err error),
) (firstStepLoss float64, err error) {
	label := s.problem.behaviour(a).Label
	s.order.Reset(
		s.problem.Seed,
		a.Client,
		cmp.Or(a.Samples, s.problem.Set.Samples(a.Client)),
		cmp.Or(a.Batch, s.problem.Batch),
		a.StepsDone,
	)
	for k := range a.LocalSteps {
		// A step may take 50 ms, so a long task looks now and then whether it was cancelled.
		if k%64 == 63 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		s.batch.Reset()
		samples := s.order.Next()
		// The samples of the task may be some of the client's, from FirstSample on.
		if a.FirstSample > 0 {
			for i := range samples {
				samples[i] += int32(a.FirstSample)
			}
		}
		if err := s.problem.Set.Batch(&s.batch, a.Client, samples); err != nil {
			return 0, fmt.Errorf("actors: data of client %d (%s): %w", a.Client, s.problem.Set.Client(a.Client), err)
		}
		if label != nil {
			for i, y := range s.batch.Labels {
				s.batch.Labels[i] = label(y, int32(s.problem.Model.Samples().Classes))
			}
		}
		// Augmentation draws from a stream of its own in each step, so that it does not depend on
		// other tasks.
		if s.draws != nil {
			keyed.Reseed(&s.source, s.problem.Seed, keyed.Augment, uint64(a.Client), uint64(a.StepsDone)+uint64(k))
			image := s.problem.Model.Samples().Image
			if err := learn.Augment(&s.batch, image[0], image[1], image[2], cropPadding, s.draws); err != nil {
				return 0, err
			}
		}
		s.batch.Seed = keyed.Hash(s.problem.Seed, keyed.LocalStep, uint64(a.Client), uint64(a.StepsDone)+uint64(k))
		loss, err := step(float32(a.Rate), k == a.LocalSteps-1)
		if errors.Is(err, learn.ErrNotFinite) {
			return 0, &Diverged{
				Task:   a.Task,
				Client: a.Client,
				Step:   k + 1,
				Cause:  err.Error(),
			}
		}
		if err != nil {
			return 0, fmt.Errorf(
				"actors: task %d, client %d (%s): %w",
				a.Task,
				a.Client,
				s.problem.Set.Client(a.Client),
				err,
			)
		}
		if k == 0 {
			firstStepLoss = loss
		}
	}
	return firstStepLoss, nil
}

// step takes one local step of s.clientModel on s.batch at the learning rate rate, and returns the loss before it. If
// client, the client half of the algorithm, is not nil, it corrects the gradient first. The step is the
// optimizer's (s.stepper), or that of plain SGD if there is none.
func (s *goSteps) step(client algorithm.Client, rate float32) (loss float64, err error) {
	if client == nil && s.stepper == nil {
		return s.workspace().Step(s.clientModel, &s.batch, rate)
	}
	loss, err = s.workspace().Gradient(s.gradient, s.clientModel, &s.batch)
	if err != nil {
		return loss, err
	}
	// Only trained parameters move, and they come first.
	n := s.problem.Model.Trainable()
	local := s.clientModel[:n]
	gradient := s.gradient[:n]
	if client != nil {
		client.Correct(local, gradient)
	}
	if s.stepper != nil {
		s.stepper.Step(local, gradient, rate)
		return loss, nil
	}
	for i, g := range gradient {
		local[i] -= float32(rate * g)
	}
	return loss, nil
}

// Evaluate implements [Steps] in Go, in batches of evaluationBatch samples. A loss that is not
// finite is an [ErrModelDiverged] that names the samples.
func (s *goSteps) Evaluate(
	ctx context.Context,
	model []float32,
	measured Measured,
	scores []learn.Score,
) (lossSum float64, err error) {
	evaluate := s.evaluation(model)
	for done := 0; done < measured.Count; done += evaluationBatch {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := min(evaluationBatch, measured.Count-done)
		s.batch.Reset()
		err := s.fill(&measured, done, n)
		var loss float64
		if err == nil {
			s.batch.Outcomes = measured.Outcomes
			loss, err = evaluate(&s.batch, scores)
		}
		// The answers follow the outputs, which the model has added.
		if o := measured.Outcomes; o != nil && err == nil {
			o.Labels = append(o.Labels, s.batch.Labels...)
			o.Targets = append(o.Targets, s.batch.Targets...)
		}
		// Callers treat a model that has diverged otherwise than a set that cannot be read.
		if errors.Is(err, learn.ErrNotFinite) {
			return 0, fmt.Errorf("%w on %s is not finite", ErrModelDiverged, measured.describe(s.problem.Set, done, n))
		}
		if err != nil {
			return 0, fmt.Errorf("actors: %s: %w", measured.describe(s.problem.Set, done, n), err)
		}
		lossSum += loss
	}
	return lossSum, nil
}

// evaluation returns a function that measures the model on a batch: it returns the sum of the losses of the
// batch's samples, and adds to scores, one for each of the model's metrics.
func (s *goSteps) evaluation(model []float32) func(b *learn.Batch, scores []learn.Score) (lossSum float64, err error) {
	if s.arranged != nil {
		return s.arranged.evaluation(model)
	}
	work := s.workspace()
	return func(b *learn.Batch, scores []learn.Score) (float64, error) { return work.Evaluate(model, b, scores) }
}

// fillHeldOut appends n of the measured held-out samples to the batch, from number first on among
// them. They are neighbours in the set or, if measured.Spread is set, lie at even distances.
func (s *goSteps) fillHeldOut(measured *Measured, first, n int) error {
	set := s.problem.Set
	// Spread is how many samples at even distances the whole evaluation measures, 0 for all.
	if measured.Spread == 0 {
		return set.HeldOutBatch(&s.batch, measured.FirstSample+first, n)
	}
	for i := first; i < first+n; i++ {
		if err := set.HeldOutBatch(&s.batch, measured.heldOutPlace(i, set.HeldOut()), 1); err != nil {
			return err
		}
	}
	return nil
}

// fill appends n of the measured samples to the batch, from number first on among them. They are
// held-out samples or those of one client.
func (s *goSteps) fill(measured *Measured, first, n int) error {
	set := s.problem.Set
	if measured.Client == HeldOut {
		return s.fillHeldOut(measured, first, n)
	}
	s.samples = s.samples[:0]
	for i := first; i < first+n; i++ {
		s.samples = append(s.samples, measured.sample(i, set.Samples(measured.Client)))
	}
	return set.Batch(&s.batch, measured.Client, s.samples)
}
