package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"fedpace/algorithm"
	"fedpace/algorithm/privacy"
	"fedpace/internal/keyed"
	"fedpace/learn"
	"fedpace/registry"
)

// Assignment is one client's accepted work in a job.
type Assignment struct {
	Task       uint64
	Client     int
	LocalSteps int     // K
	StepsDone  int64   // the client's accepted steps before this task
	Rate       float64 // eta
	Batch      int     // samples of a minibatch; 0: the problem's
	// weight of the update in the aggregate; a round's weights sum to 1 at most. 0: only the loss is wanted
	Weight float64

	// what the client keeps: c_i or its residual, then what its steps remember; nil: zero, and nothing yet
	State []float32

	Attacker  int          // 1 + the number of the client's class among [Problem.Attacks]; 0: it is honest
	Colluders []Assignment // tasks of the round whose honest updates the attacker knows; nil: none, or it needs none
}

// Shared is what the tasks of a job have in common beyond the model, where clients keep
// a vector ([algorithm.Variates]).
type Shared struct {
	Mean      []float32 // c; nil: zero
	Weight    float64   // weight of a client's change in the exact sum: 1/N
	Residuals bool      // what clients keep has no mean: there is no c, and no sum of changes
	Rounds    uint64    // that have made the model
}

// Outcome is what one client's work came to besides its share of the sum.
type Outcome struct {
	FirstStepLoss float64   // before the first step (Eq. 15's f_c(x_r, xi))
	State         []float32 // what the client keeps next, where clients keep something; the caller's to keep
}

// ErrModelDiverged is the error of a model whose loss is not finite.
var ErrModelDiverged = errors.New("diverged: the model's loss")

// Diverged says that a client's loss or update stopped being finite.
type Diverged struct {
	Task   uint64
	Client int
	Step   int // local step, from 1; 0: the update as a whole
	Cause  string
}

func (d *Diverged) Error() string {
	step := ""
	if d.Step > 0 {
		step = fmt.Sprintf(", local step %d", d.Step)
	}
	return fmt.Sprintf("diverged: task %d, client %d%s: %s", d.Task, d.Client, step, d.Cause)
}

// Trainer is one worker's steps, with what is done with them: exact sums, the clients'
// vectors, compression, and the search for divergence. It is not safe for concurrent
// use; workers share nothing but the read-only model and set.
type Trainer struct {
	problem      Problem
	steps        Steps
	params       int
	trainable    int // so many of them are trained, the first ones
	communicated int // and so many are not frozen

	client             algorithm.Client // nil: the algorithm does not change local steps
	zero               []float32        // never written to; nil: neither client state nor compression needs it
	hasControlVariates bool             // the algorithm has client state
	stateValues        int              // of what a client keeps, the values that are the algorithm's or the compression's
	memoryValues       int              // and those that its steps remember, which follow

	compressors map[int]algorithm.Compressor // by the length of what they compress
	update      []float32                    // for them; nil: updates are whole
	feedback    float32                      // part of a residual that is added to it
	coins       rand.PCG                     // for them

	collusions map[int]collusion // by [Assignment].Attacker: what its colluders sent last
}

// NewTrainer allocates one worker's memory. Close it after use.
func NewTrainer(p Problem) (*Trainer, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{
		problem:      p,
		params:       p.Model.Params(),
		trainable:    p.Model.Trainable(),
		communicated: learn.Travels(p.Model),
		collusions:   map[int]collusion{},
	}
	t.client = p.Algorithm.Client(t.trainable)
	t.hasControlVariates = algorithm.KeepsVariates(p.Algorithm)
	if t.hasControlVariates || p.Compression != nil {
		t.zero = make([]float32, t.params)
	}
	t.memoryValues = p.Memory()
	if t.hasControlVariates || registry.NeedsOf(p.Compression).ClientState {
		t.stateValues = t.params
	}
	if p.Compression != nil {
		t.compressors = map[int]algorithm.Compressor{}
		t.update = make([]float32, t.trainable)
		t.feedback = 1
		if d, ok := p.Compression.(algorithm.Decaying); ok {
			t.feedback = float32(d.Feedback())
		}
	}
	stepProblem := p
	stepProblem.Model = learn.Stepped(p.Model)
	if p.Trainer != nil {
		t.steps = newProcessSteps(&stepProblem)
	} else {
		t.steps = newGoSteps(&stepProblem, t.client)
	}
	if m, ok := p.Model.(*learn.Personal); ok {
		t.steps = &personal{
			Steps:     t.steps,
			model:     m,
			memory:    p.stepMemory(),
			headSteps: p.HeadSteps,
			shared:    make([]float32, t.params),
			full:      make([]float32, t.params),
		}
	}
	if streamed, ok := p.Algorithm.(algorithm.Streaming); ok {
		t.steps = &streaming{Steps: t.steps, algorithm: streamed, memory: p.stepMemory()}
	}
	return t, nil
}

func (t *Trainer) Close() error { return t.steps.Close() }

// SumLength is the length of a job's exact sum: that of the parameters and, with
// an algorithm's client state, of its changes after them.
func (t *Trainer) SumLength(shared *Shared) int {
	if shared.hasControlVariates() {
		return 2 * t.params
	}
	return t.params
}

// hasControlVariates reports whether the vectors are an algorithm's client state.
func (s *Shared) hasControlVariates() bool { return s != nil && !s.Residuals }

// Train runs each assignment's K local steps from base (Algorithm 1, lines 5-8,
// with the algorithm's steps) and adds its weighted update to sum
// (learn.AddExact), which has SumLength. Without shared, as in a loss query, an
// algorithm with client state does plain steps. A loss or update that is not
// finite is a *Diverged.
func (t *Trainer) Train(
	ctx context.Context,
	base []float32,
	shared *Shared,
	work []Assignment,
	sum []int64,
) ([]Outcome, error) {
	if err := t.check(len(base), shared, work, len(sum)); err != nil {
		return nil, err
	}
	if err := t.collude(ctx, base, shared, work); err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(work))
	w := t.work(base, shared, work)
	err := t.steps.Run(ctx, w, func(i int, model []float32, firstStepLoss float64) (err error) {
		copy(model[t.communicated:], base[t.communicated:]) // whatever a trainer's process has made of it
		t.addNoise(base, model, &work[i])
		outcomes[i].FirstStepLoss = t.attack(base, model, firstStepLoss, &work[i])
		if t.problem.Clips && learn.AddExact(sum[:len(base)], 0, model, base) >= 0 { // adds nothing
			shortenUpdate(model, base)
		}
		state, err := t.add(sum, base, model, shared, &work[i])
		if w.Local != nil {
			state = append(state, w.Local[i]...)
		}
		outcomes[i].State = state
		return err
	})
	return outcomes, err
}

// shortenUpdate brings an update that is finite, and too long for an exact sum, to half the length that it
// takes, so that no rounding passes that. The direction stays: who clips sees no difference.
func shortenUpdate(model, base []float32) {
	largest := 0.0
	for i, x := range model {
		largest = max(largest, math.Abs(float64(x)-float64(base[i])))
	}
	for i, x := range model {
		model[i] = base[i] + float32(algorithm.MaxDifference/2/largest*(float64(x)-float64(base[i])))
	}
}

// addNoise adds the noise to a client's model that it adds itself before it sends anything. In a
// loss query nothing is sent.
func (t *Trainer) addNoise(base, model []float32, a *Assignment) {
	if !t.problem.Noise.On() || a.Weight == 0 {
		return
	}
	var key privacy.Secret
	if t.problem.Secret != nil {
		key = t.problem.Secret()
	} else {
		for part := range uint64(len(key) / 8) {
			binary.LittleEndian.PutUint64(
				key[8*part:],
				keyed.Hash(t.problem.Seed, keyed.LocalNoise, uint64(a.Client), a.Task, part),
			)
		}
	}
	t.problem.Noise.Hide(model[:t.trainable], base[:t.trainable], key)
}

// work is what the steps are taken for. The client half of the algorithm does not see
// what is not trained.
func (t *Trainer) work(base []float32, shared *Shared, tasks []Assignment) *Work {
	w := &Work{
		Base:   base,
		Tasks:  tasks,
		Client: t.client,
		Start:  func(int) {},
	}
	n := t.trainable
	switch {
	case shared.hasControlVariates():
		w.Start = func(i int) { w.Client.Start(base[:n], t.orZero(shared.Mean)[:n], t.orZero(tasks[i].State)[:n]) }
	case t.hasControlVariates:
		w.Client = nil
	case t.client != nil:
		w.Start = func(int) { w.Client.Start(base[:n], nil, nil) }
	}
	if shared != nil && t.memoryValues > 0 {
		w.Local = make([][]float32, len(tasks))
		w.Rounds = shared.Rounds
		for i, a := range tasks {
			if a.State != nil {
				w.Local[i] = a.State[t.stateValues:]
			}
		}
	}
	return w
}

// add adds a client's update to the sum, and returns what it keeps. The model equals
// base after.
func (t *Trainer) add(sum []int64, base, model []float32, shared *Shared, a *Assignment) (state []float32, err error) {
	if t.update != nil && (shared != nil || a.Weight > 0) {
		return t.addCompressed(sum, base, model, shared, a)
	}
	if shared.hasControlVariates() {
		state = t.client.End(model[:t.trainable], a.LocalSteps, a.Rate)
		state = append(state, t.zero[t.trainable:]...)
	}
	if bad := learn.AddExactAndReset(sum[:len(base)], a.Weight, model, base); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("parameter %d moved from %g to %g", bad, base[bad], model[bad])}
	}
	if !shared.hasControlVariates() {
		return nil, nil
	}
	if bad := learn.AddExact(sum[len(base):], shared.Weight, state, t.orZero(a.State)); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("the control variate of parameter %d became %g", bad, state[bad])}
	}
	return state, nil
}

// compress returns what compression makes of a client's update, with the client's residual where
// it keeps one, until the next, and what is left out then. It is that of some of the parameters.
func (t *Trainer) compress(
	base, model []float32,
	shared *Shared,
	a *Assignment,
) (update, residual []float32, start, end int, err error) {
	if err := algorithm.Check(model, base); err != nil {
		return nil, nil, 0, 0, &Diverged{Task: a.Task, Client: a.Client, Cause: err.Error()}
	}
	start, end = t.sentRange(shared)
	update = t.update[:end-start]
	for i := range update {
		update[i] = model[start+i] - base[start+i]
	}
	if shared != nil && t.stateValues > 0 {
		residual = slices.Clone(t.orZero(a.State))
		for i := range update {
			update[i] += float32(t.feedback * residual[start+i])
		}
		copy(residual[start:], update)
	}
	keyed.Reseed(&t.coins, t.problem.Seed, keyed.Compression, uint64(a.Client), a.Task)
	if t.compressors[len(update)] == nil {
		t.compressors[len(update)] = t.problem.Compression.Compressor(len(update))
	}
	t.compressors[len(update)].Compress(update, &t.coins)
	if residual != nil {
		for i, sent := range update {
			residual[start+i] -= sent
		}
	}
	return update, residual, start, end, nil
}

// addCompressed adds what compression makes of a client's update, and returns what is left out
// where the client keeps that. What is not trained is added whole. The model equals base after.
func (t *Trainer) addCompressed(
	sum []int64,
	base, model []float32,
	shared *Shared,
	a *Assignment,
) (residual []float32, err error) {
	update, residual, start, end, err := t.compress(base, model, shared, a)
	if err != nil {
		return nil, err
	}
	copy(model[:t.trainable], base)
	if bad := learn.AddExact(sum[start:end], a.Weight, update, t.zero[start:end]); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("the compressed update of parameter %d is %g", start+bad, update[bad])}
	}
	if untrained := model[t.trainable:]; len(untrained) > 0 {
		learn.AddExactAndReset(sum[t.trainable:], a.Weight, untrained, base[t.trainable:]) // Check has looked at rest
	}
	return residual, nil
}

// sentRange is the part of the parameters that a round compresses and sends.
func (t *Trainer) sentRange(shared *Shared) (start, end int) {
	if streamed, ok := t.problem.Algorithm.(algorithm.Streaming); ok && shared != nil {
		return streamed.Span(shared.Rounds, t.trainable)
	}
	return 0, t.trainable
}

// StateLength is how many values a client keeps from task to task.
func (t *Trainer) StateLength() int { return t.stateValues + t.memoryValues }

// Local runs one client's K local steps from base, where [Trainer.Train] adds what comes of them
// to a sum, and returns what a real device sends: its own model or, where updates are
// compressed, the difference of that from base; and what it keeps, nil if nothing. Of the
// algorithm it must not keep control variates; a.Weight is not used.
func (t *Trainer) Local(
	ctx context.Context,
	base []float32,
	a Assignment,
) (values, state []float32, firstStepLoss float64, err error) {
	a.Weight = 1
	shared := &Shared{Residuals: true}
	if t.StateLength() == 0 {
		shared = nil
	}
	if t.hasControlVariates {
		return nil, nil, 0, fmt.Errorf("actors: task %d: a device has no control variates", a.Task)
	}
	if err := t.check(len(base), shared, []Assignment{a}, t.SumLength(shared)); err != nil {
		return nil, nil, 0, err
	}
	w := t.work(base, shared, []Assignment{a})
	err = t.steps.Run(ctx, w, func(_ int, model []float32, loss float64) error {
		firstStepLoss = loss
		t.addNoise(base, model, &a)
		values = slices.Clone(model)
		if t.update != nil {
			for i, x := range base {
				values[i] -= x
			}
			update, residual, start, _, err := t.compress(base, model, shared, &a)
			if err != nil {
				return err
			}
			copy(values[start:], update)
			state = residual
		}
		if w.Local != nil {
			state = append(state, w.Local[0]...)
		}
		return nil
	})
	return values, state, firstStepLoss, err
}

// check refuses a job that would index out of range or divide by zero.
func (t *Trainer) check(params int, shared *Shared, work []Assignment, sum int) error {
	if want := t.SumLength(shared); params != t.params || sum != want {
		return fmt.Errorf(
			"actors: a model of %d parameters with a sum of %d values, %s takes %d and %d",
			params,
			sum,
			t.problem.Model,
			t.params,
			want,
		)
	}
	all := slices.Clip(work)
	for _, a := range work {
		all = append(all, a.Colluders...)
	}
	for _, a := range all {
		if maxBatch := max(t.problem.Batch, t.problem.LargestBatch); a.Batch < 0 || a.Batch > maxBatch {
			return fmt.Errorf("actors: task %d: minibatches of %d samples, at most %d", a.Task, a.Batch, maxBatch)
		}
		if attacks := len(t.problem.Attacks); a.Attacker < 0 || a.Attacker > attacks {
			return fmt.Errorf("actors: task %d: attacker of class %d of %d", a.Task, a.Attacker, attacks)
		}
	}
	if shared == nil {
		return nil
	}
	if shared.Residuals == t.hasControlVariates || t.stateValues+t.memoryValues == 0 {
		return errors.New("actors: a job with control variates for an algorithm without, or with vectors where clients keep none")
	}
	if shared.Mean != nil && len(shared.Mean) != params {
		return fmt.Errorf("actors: the server's control variate has %d values, want %d", len(shared.Mean), params)
	}
	for _, a := range all {
		if want := t.stateValues + t.memoryValues; a.State != nil && len(a.State) != want {
			return fmt.Errorf(
				"actors: task %d: what client %d keeps has %d values, want %d",
				a.Task,
				a.Client,
				len(a.State),
				want,
			)
		}
		if !shared.Residuals && (a.LocalSteps < 1 || !(float32(a.Rate) > 0)) {
			return fmt.Errorf(
				"actors: task %d, client %d: %d local steps at rate %g leave no control variate",
				a.Task,
				a.Client,
				a.LocalSteps,
				a.Rate,
			)
		}
	}
	return nil
}

// orZero is the control variate or residual of what a client keeps; nil stands for zero.
func (t *Trainer) orZero(v []float32) []float32 {
	if v == nil {
		return t.zero
	}
	return v[:t.params]
}

// Evaluate measures a model on samples: the sum of their losses, and what they add to each
// of the model's metrics.
func (t *Trainer) Evaluate(
	ctx context.Context,
	params []float32,
	measured Measured,
) (lossSum float64, scores []learn.Score, err error) {
	if measured.State != nil {
		if want := t.stateValues + t.memoryValues; len(measured.State) != want {
			return 0, nil, fmt.Errorf(
				"actors: what client %d keeps has %d values, want %d",
				measured.Client,
				len(measured.State),
				want,
			)
		}
		measured.State = measured.State[t.stateValues:]
	}
	scores = make([]learn.Score, len(t.problem.Model.Metrics()))
	lossSum, err = t.steps.Evaluate(ctx, params, measured, scores)
	return lossSum, scores, err
}
