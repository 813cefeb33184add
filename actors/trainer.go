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

// Assignment is one client's accepted task in a job.
type Assignment struct {
	Task   uint64
	Client int
	// LocalSteps is K.
	LocalSteps int
	// StepsDone counts the client's accepted steps before this task; it decides the position in its
	// data.
	StepsDone int64
	// Rate is the learning rate eta.
	Rate float64
	// Batch is the number of samples of a minibatch. 0 means the problem's.
	Batch int
	// Samples is how many of the client's samples the task trains on, neighbours from FirstSample on. 0 means
	// all.
	FirstSample, Samples int
	// Weight is the update's weight in the aggregate. The weights of a round sum to at most 1. 0 means
	// that only the loss is wanted (a loss query).
	Weight float64

	// State is what the client keeps: its control variate or residual, then the memory of its steps.
	// Nil means zeros and no memory yet.
	State []float32

	// Attacker is 1 + the number of the client's class in [Problem.Attacks]. 0 means that it is honest.
	Attacker int
	// Colluders are the tasks of the round whose honest updates the attacker knows, if it needs them.
	Colluders []Assignment
}

// Shared is what the tasks of a job have in common besides the model, if clients have a state
// ([algorithm.Variates]).
type Shared struct {
	// Mean is the server's control variate c. Nil means zero.
	Mean []float32
	// Weight is that of a client's change in the exact sum of control variates, 1/N.
	Weight float64
	// Residuals says that client states are residuals: there is no server variate and no sum of
	// changes.
	Residuals bool
	// Rounds is the number of rounds that have made the model of the tasks.
	Rounds uint64
}

// Outcome is the result of one client's task besides its part of the sum.
type Outcome struct {
	// FirstStepLoss is the loss before the first step (f_c(x_r, xi) of Eq. 15).
	FirstStepLoss float64
	// State is the client's next state, which the caller may keep. Nil if clients have none.
	State []float32
	// Buffers are those that the steps have changed, from number FirstBuffer of the model's buffers to the
	// last that changed. The caller may keep them. They are nil where steps have changed none, in a loss
	// query, and where buffers are part of the sum ([Problem].SumsBuffers).
	Buffers     []float32
	FirstBuffer int
}

// ErrModelDiverged is the error of a model whose loss is not finite.
var ErrModelDiverged = errors.New("diverged: the model's loss")

// Diverged reports that a client's loss or update is not finite, or too large to be aggregated.
type Diverged struct {
	Task   uint64
	Client int
	// Step is the local step, counted from 1. 0 means the update as a whole.
	Step  int
	Cause string
}

// Error names the task, the client, the local step if that is known, and the cause of the
// divergence.
func (d *Diverged) Error() string {
	step := ""
	if d.Step > 0 {
		step = fmt.Sprintf(", local step %d", d.Step)
	}
	return fmt.Sprintf("diverged: task %d, client %d%s: %s", d.Task, d.Client, step, d.Cause)
}

// Trainer does the training tasks of one worker: it takes the local steps and adds weighted updates
// to exact sums, with client states, compression, attacks and the search for divergence. It is not
// safe for concurrent use. Workers share only the read-only model and data set.
type Trainer struct {
	problem Problem
	steps   Steps
	params  int
	// trainable is the number of trained parameters, which come first.
	trainable int
	// communicated is the number of parameters that are not frozen, which come before the frozen ones.
	communicated int
	// summed is the number of parameters, from the first on, that updates in sums consist of.
	summed int
	// sendsPlainUpdates says that clients send what local steps lead to, as it is.
	sendsPlainUpdates bool

	// client is the client half of the algorithm. Nil means that it does not change local steps.
	client algorithm.Client
	// zero stands for a client's vector that is not set; it is never written to. Nil if neither client
	// state nor compression needs it.
	zero []float32
	// hasControlVariates says that the algorithm keeps a control variate for each client.
	hasControlVariates bool
	// stateValues is the number of values of a client's state that belong to the algorithm or the
	// compression. The memory of the steps (memoryValues) follows them.
	stateValues int
	// memoryValues is the number of values that the client's steps remember.
	memoryValues int

	// compressors are the compressors of this worker by the length of the updates.
	compressors map[int]algorithm.Compressor
	// update is the buffer of compression. Nil means that updates are not compressed.
	update []float32
	// feedback is the factor of a residual when it is added to the next update.
	feedback float32
	// compressionSource is the random source of compression.
	compressionSource rand.PCG

	// collusions holds the last common update of the colluders of each class, by [Assignment].Attacker.
	collusions map[int]collusion
}

// NewTrainer checks the problem, allocates the memory of one worker, and starts its process if the
// problem has an external trainer. Close it after use.
func NewTrainer(p Problem) (*Trainer, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{
		problem:      p,
		params:       p.Model.Params(),
		trainable:    p.Model.Trainable(),
		communicated: learn.Communicated(p.Model),
		collusions:   map[int]collusion{},
	}
	// The exact sum of updates holds these parameters only; each client sends its buffers beside it.
	t.summed = SummedParams(&p)
	t.client = p.Algorithm.Client(t.trainable)
	t.hasControlVariates = algorithm.HasControlVariates(p.Algorithm)
	// Zeros stand for a client's state before its first task.
	if t.hasControlVariates || p.Compression != nil {
		t.zero = make([]float32, t.params)
	}
	t.memoryValues = p.MemoryValues()
	t.sendsPlainUpdates = p.plain()
	if t.hasControlVariates || registry.NeedsOf(p.Compression).ClientState {
		t.stateValues = t.params
	}
	if p.Compression != nil {
		t.compressors = map[int]algorithm.Compressor{}
		t.update = make([]float32, t.trainable)
		// A compression may let old residuals decay. By default they are added whole.
		t.feedback = 1
		if d, ok := p.Compression.(algorithm.Decaying); ok {
			t.feedback = float32(d.Feedback())
		}
	}
	// Of a model with private parameters the steps see the whole model, with its parameters in their original order.
	stepProblem := p
	stepProblem.Model = learn.Stepped(p.Model)
	if p.Trainer != nil {
		t.steps = newProcessSteps(&stepProblem)
	} else {
		t.steps = newGoSteps(&stepProblem, t.client)
	}
	// Personal and streaming steps wrap the plain ones.
	if m, ok := p.Model.(*learn.Personal); ok {
		t.steps = &personal{
			Steps:        t.steps,
			model:        m,
			memoryValues: p.stepMemoryValues(),
			headSteps:    p.HeadSteps,
			clientModel:  make([]float32, t.params),
			stepModel:    make([]float32, t.params),
		}
	}
	switch a := p.Algorithm.(type) {
	case algorithm.Streaming:
		t.steps = &streaming{Steps: t.steps, algorithm: a, memoryValues: p.stepMemoryValues()}
	case algorithm.Decoupled:
		t.steps = &decoupled{Steps: t.steps, algorithm: a, memoryValues: p.stepMemoryValues()}
	}
	return t, nil
}

// SummedParams returns the number of parameters, from the first on, that the exact sums of a problem's
// updates hold: the trained ones or, with [Problem].SumsBuffers, buffers of floats as well. Behind them
// lie buffers that each client sends beside the sum, if any, and frozen values.
func SummedParams(p *Problem) int {
	if p.SumsBuffers {
		return learn.Communicated(p.Model) - learn.Integers(p.Model)
	}
	return min(p.Model.Trainable(), learn.Communicated(p.Model))
}

// SentBuffers returns the number of the model's buffers that clients send beside the exact sum of
// updates, 0 if buffers are part of the sum. A client sends only those that it has changed.
func SentBuffers(p *Problem) int {
	if p.SumsBuffers {
		return 0
	}
	return learn.Communicated(p.Model) - SummedParams(p)
}

// Close releases the memory and ends the process.
func (t *Trainer) Close() error { return t.steps.Close() }

// SumLength returns the length of a job's exact sum: one value per parameter, and as many for the
// changes of control variates if clients have them.
func (t *Trainer) SumLength(shared *Shared) int {
	if shared.hasControlVariates() {
		return 2 * t.params
	}
	return t.params
}

// hasControlVariates reports whether client states are control variates. A nil Shared has none.
func (s *Shared) hasControlVariates() bool { return s != nil && !s.Residuals }

// Train runs each assignment's K local steps from base (Algorithm 1, lines 5-8, with the
// algorithm's steps) and adds its weighted update to sum (see learn.AddExact), which must have
// SumLength values. Without shared, as in a loss query, an algorithm with control variates takes
// plain steps. A loss or update that is not finite is a *Diverged.
func (t *Trainer) Train(
	ctx context.Context,
	base []float32,
	shared *Shared,
	tasks []Assignment,
	sum []int64,
) ([]Outcome, error) {
	if err := t.check(len(base), shared, tasks, len(sum)); err != nil {
		return nil, err
	}
	if err := t.collude(ctx, base, shared, tasks); err != nil {
		return nil, err
	}
	// The faster way gives the same bits, but only where a client sends its update as it is.
	if s, ok := t.steps.(*goSteps); ok && s.arranged != nil && t.sendsPlainUpdates {
		return t.trainArranged(ctx, s, base, tasks, sum)
	}
	outcomes := make([]Outcome, len(tasks))
	w := t.work(base, shared, tasks)
	err := t.steps.Run(ctx, w, func(i int, model []float32, firstStepLoss float64) error {
		o := &outcomes[i]
		o.FirstStepLoss = firstStepLoss
		err := t.addUpdate(sum, base, model, shared, &tasks[i], o)
		// In a client's state what the steps remember follows the algorithm's part, which addUpdate has set.
		if w.States != nil {
			o.State = append(o.State, w.States[i]...)
		}
		return err
	})
	return outcomes, err
}

// addUpdate makes of a client's model after its local steps what the client sends, and adds this weighted update
// to sum: with the client's noise and its attack, if it has one, and cut off where it is too long for a sum. It
// stores the loss that the client reports, its buffers and the algorithm's part of its state in the outcome o, which
// has the loss before the first step. The model equals base afterwards, so that its memory can be used again.
func (t *Trainer) addUpdate(
	sum []int64,
	base, model []float32,
	shared *Shared,
	a *Assignment,
	o *Outcome,
) (err error) {
	// Parameters that are not communicated stay as they were, whatever a trainer's process has
	// made of them.
	copy(model[t.communicated:], base[t.communicated:])
	t.addNoise(base, model, a)
	o.FirstStepLoss = t.attack(base, model, o.FirstStepLoss, a)
	if err := t.takeBuffers(o, base, model, a); err != nil {
		return err
	}
	// With weight 0 AddExact adds nothing, and only looks for a difference that is too large.
	if t.problem.Clips && learn.AddExact(sum[:len(base)], 0, model, base) >= 0 {
		shortenUpdate(model, base)
	}
	o.State, err = t.add(sum, base, model, shared, a)
	return err
}

// takeBuffers moves the buffers that a client sends beside the sum, such as running means of a batch
// normalisation, from its model to the outcome of its task. They lie from t.summed to t.communicated. In the model
// they are those of base afterwards, so that its update, which is added to a sum next, does not contain them. In a
// loss query nothing is sent.
func (t *Trainer) takeBuffers(o *Outcome, base, model []float32, a *Assignment) error {
	sent := model[t.summed:t.communicated]
	before := base[t.summed:t.communicated]
	if a.Weight > 0 && !t.problem.SumsBuffers {
		if err := t.checkBuffers(a, model); err != nil {
			return err
		}
		first, end := changedRange(before, sent)
		if first < end {
			o.FirstBuffer = first
			o.Buffers = slices.Clone(sent[first:end])
		}
	}
	copy(sent, before)
	return nil
}

// checkBuffers returns an error for the first buffer of a client's model that is not finite, which means that
// training diverged. It is called before buffers travel as they are, beside a sum or in a real device's model; those
// in a sum are checked with it.
func (t *Trainer) checkBuffers(a *Assignment, model []float32) error {
	if err := learn.CheckBuffers(t.problem.Model, model); err != nil {
		return &Diverged{Task: a.Task, Client: a.Client, Cause: err.Error()}
	}
	return nil
}

// changedRange returns the smallest range that holds all places at which two vectors of the same length
// differ: its first index and the index behind its last. Both are 0 where the vectors are equal.
func changedRange(before, after []float32) (first, end int) {
	for first < len(after) && after[first] == before[first] {
		first++
	}
	end = len(after)
	for end > first && after[end-1] == before[end-1] {
		end--
	}
	if first == end {
		return 0, 0
	}
	return first, end
}

// shortenUpdate scales a finite update that is too long for an exact sum down to half of the
// largest difference that fits, so that rounding cannot exceed it. The direction stays, so an
// aggregation that clips norms sees no difference.
func shortenUpdate(model, base []float32) {
	largest := 0.0
	for i, x := range model {
		largest = max(largest, math.Abs(float64(x)-float64(base[i])))
	}
	for i, x := range model {
		model[i] = base[i] + float32(algorithm.MaxDifference/2/largest*(float64(x)-float64(base[i])))
	}
}

// addNoise adds the client's own noise to its model before anything is sent. In a loss query
// nothing is sent, so nothing is added.
func (t *Trainer) addNoise(base, model []float32, a *Assignment) {
	if !t.problem.Noise.On() || a.Weight == 0 {
		return
	}
	t.problem.Noise.Hide(model[:t.trainable], base[:t.trainable], t.noiseKey(a))
}

// noiseKey returns the key of the noise on an update: a secret where the problem has them, else one that
// follows from the seed, the client and the task.
func (t *Trainer) noiseKey(a *Assignment) (key privacy.Secret) {
	if t.problem.Secret != nil {
		return t.problem.Secret()
	}
	for part := range uint64(len(key) / 8) {
		binary.LittleEndian.PutUint64(
			key[8*part:],
			keyed.Hash(t.problem.Seed, keyed.LocalNoise, uint64(a.Client), a.Task, part),
		)
	}
	return key
}

// work returns the local steps of tasks that start from the model base, in the form that t.steps takes. Its
// Start prepares the client half of the algorithm for one task, and is called before the task's steps. The client
// half of the algorithm sees only trained parameters. shared is what all tasks of the job share; nil where clients
// keep no state, and for a loss query, after which they remember nothing.
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
	// Without control variates from the server, steps are those of the optimizer alone.
	case t.hasControlVariates:
		w.Client = nil
	case t.client != nil:
		w.Start = func(int) { w.Client.Start(base[:n], nil, nil) }
	}
	// The state of a client holds the algorithm's values first, and then what its steps remember.
	if shared != nil && t.memoryValues > 0 {
		w.States = make([][]float32, len(tasks))
		w.Rounds = shared.Rounds
		for i, a := range tasks {
			if a.State != nil {
				w.States[i] = a.State[t.stateValues:]
			}
		}
	}
	return w
}

// add adds a client's weighted update, model − base, to the sum and returns the algorithm's part of
// the client's next state; nil if there is none. An update is added compressed, with noise on a grid, or as it is;
// only then there may be control variates (SCAFFOLD), whose change follows the update in the sum. The model equals
// base afterwards, so that its memory can be used for the next task. A value that is out of range or not finite is
// an error.
func (t *Trainer) add(sum []int64, base, model []float32, shared *Shared, a *Assignment) (state []float32, err error) {
	if t.update != nil && (shared != nil || a.Weight > 0) {
		return t.addCompressed(sum, base, model, shared, a)
	}
	// Noise that is exact in the sum is added with the update, which is rounded to its grid.
	if t.problem.Grid.On() && a.Weight > 0 {
		n := t.summed
		if err := t.problem.Grid.Add(sum[:n], a.Weight, model[:n], base[:n], t.noiseKey(a)); err != nil {
			return nil, &Diverged{Task: a.Task, Client: a.Client, Cause: err.Error()}
		}
		copy(model, base)
		return nil, nil
	}
	if t.problem.ScalesBuffers {
		if err := t.addBuffers(sum, base, model, a); err != nil {
			return nil, err
		}
	}
	// The client's next control variate follows from its model, so it is computed before the model
	// is reset.
	if shared.hasControlVariates() {
		state = t.client.End(model[:t.trainable], a.LocalSteps, a.Rate)
		state = append(state, t.zero[t.trainable:]...)
	}
	if bad := learn.AddExactAndReset(sum[:len(base)], a.Weight, model, base); bad >= 0 {
		return nil, t.outOfRange(a, bad, model[bad], base[bad])
	}
	if !shared.hasControlVariates() {
		return nil, nil
	}
	// The change of the control variate is added behind the model's update.
	if bad := learn.AddExact(sum[len(base):], shared.Weight, state, t.orZero(a.State)); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("the control variate of parameter %d became %g", bad, state[bad])}
	}
	return state, nil
}

// addBuffers adds the differences of a client's buffers of floats from those of base to the sum. Buffers may move
// further than a sum of trained values can hold, so each difference counts in a larger unit ([learn.SumUnit]), by
// which the receiver multiplies it. The buffers of the model equal those of base afterwards.
func (t *Trainer) addBuffers(sum []int64, base, model []float32, a *Assignment) error {
	for _, u := range learn.SumUnits(t.problem.Model, base) {
		bad := learn.AddExact(sum[u.First:u.End], a.Weight, u.Scaled(model), u.Scaled(base))
		if bad >= 0 {
			bad += u.First
			return t.outOfRange(a, bad, model[bad], base[bad])
		}
		copy(model[u.First:u.End], base[u.First:u.End])
	}
	return nil
}

// compress returns the compressed update of a client for parameters start to end-1. If clients keep residuals,
// the residual of the client's task before is added to the update first, and what the compression leaves out is
// returned as its next one (error feedback). Clients keep none if t.stateValues is 0, and if shared is nil, which
// means that clients have no state in this job; the residual is nil then. The update is valid until the next
// call.
func (t *Trainer) compress(
	base, model []float32,
	shared *Shared,
	a *Assignment,
) (update, residual []float32, start, end int, err error) {
	if err := t.checkUpdate(a, model, base); err != nil {
		return nil, nil, 0, 0, err
	}
	start, end = t.sentRange(shared, a)
	update = t.update[:end-start]
	for i := range update {
		update[i] = model[start+i] - base[start+i]
	}
	if shared != nil && t.stateValues > 0 {
		residual = slices.Clone(t.orZero(a.State))
		for i := range update {
			update[i] += float32(t.feedback * residual[start+i])
		}
		// What is sent of the update is subtracted below.
		copy(residual[start:], update)
	}
	// The random numbers of the compression follow from the client and the task, so that a task has
	// the same result on each worker.
	keyed.Reseed(&t.compressionSource, t.problem.Seed, keyed.Compression, uint64(a.Client), a.Task)
	if t.compressors[len(update)] == nil {
		t.compressors[len(update)] = t.problem.Compression.Compressor(len(update))
	}
	t.compressors[len(update)].Compress(update, &t.compressionSource)
	if residual != nil {
		// The residual is the update less what was sent of it.
		for i, sent := range update {
			residual[start+i] -= sent
		}
	}
	return update, residual, start, end, nil
}

// addCompressed adds a client's compressed update to the sum and returns its residual, nil if
// clients keep none. Parameters that are not trained are added uncompressed. The model equals base
// afterwards.
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
		// The differences of the untrained values were checked before, so none is refused here.
		learn.AddExactAndReset(sum[t.trainable:], a.Weight, untrained, base[t.trainable:])
	}
	return residual, nil
}

// sentRange returns the range of parameters that a client compresses and sends: all trained ones, or one fragment. With
// Streaming that is the fragment of the round that makes the next model, with Decoupled that of the client's
// turn, which is the number of tasks that it has done. shared is nil in a loss query, which sends nothing: its
// range is that of all.
func (t *Trainer) sentRange(shared *Shared, task *Assignment) (start, end int) {
	switch a := t.problem.Algorithm.(type) {
	case algorithm.Streaming:
		if shared != nil {
			return a.Span(shared.Rounds, t.trainable)
		}
	case algorithm.Decoupled:
		if shared != nil {
			return a.Span(a.Turn(task.State), t.trainable)
		}
	}
	return 0, t.trainable
}

// StateLength returns the number of values of a client's state.
func (t *Trainer) StateLength() int { return t.stateValues + t.memoryValues }

// Local runs one client's local steps from base for a real device, which has no sum to add to. It
// returns the values that the device sends (its model, or the difference to base if updates are
// compressed), its next state (nil if there is none) and the loss before the first step. The
// algorithm must not have control variates. a.Weight is not used.
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
	err = t.steps.Run(ctx, w, func(_ int, model []float32, loss float64) (err error) {
		firstStepLoss = loss
		values, state, err = t.deviceValues(base, model, shared, &a)
		// In a device's state what the steps remember follows the compression's part.
		if err == nil && w.States != nil {
			state = append(state, w.States[0]...)
		}
		return err
	})
	return values, state, firstStepLoss, err
}

// deviceValues returns what a real device sends after its local steps, and the residual that its compression
// leaves, nil if there is none. The values are the model with the device's noise or, with compression, the
// difference to base. base is the model before the steps. model, the one after them, is changed.
func (t *Trainer) deviceValues(
	base, model []float32,
	shared *Shared,
	a *Assignment,
) (values, residual []float32, err error) {
	t.addNoise(base, model, a)
	if err := t.checkBuffers(a, model); err != nil {
		return nil, nil, err
	}
	// The model belongs to the steps, which use its memory again.
	values = slices.Clone(model)
	if t.update == nil {
		return values, nil, nil
	}
	for i, x := range base {
		values[i] -= x
	}
	// Buffers are sent beside the sum, so the update that is compressed must not contain them.
	copy(model[t.summed:], base[t.summed:])
	update, residual, start, _, err := t.compress(base, model, shared, a)
	if err != nil {
		return nil, nil, err
	}
	// Of the differences only those in the sent range, which begins at start, are compressed.
	copy(values[start:], update)
	return values, residual, nil
}

// checkSamples returns an error if a task is to train on samples that its client does not have.
func (t *Trainer) checkSamples(a *Assignment) error {
	// The task trains on all samples of its client.
	if a.Samples == 0 {
		return nil
	}
	set := t.problem.Set
	isClient := a.Client >= 0 && a.Client < set.Clients()
	if !isClient || a.FirstSample < 0 || a.Samples < 0 || a.FirstSample > set.Samples(a.Client)-a.Samples {
		return fmt.Errorf("actors: task %d: %d samples of client %d from %d on, which it does not have",
			a.Task, a.Samples, a.Client, a.FirstSample)
	}
	return nil
}

// check returns an error for a job that would index out of range or divide by zero. params is the
// number of parameters of the job's model, shared what its tasks share (nil where clients keep no state),
// and sumLength the length of the sum that the tasks' updates are added to.
func (t *Trainer) check(params int, shared *Shared, tasks []Assignment, sumLength int) error {
	// The sum must fit the model, with control variates where there are any.
	if want := t.SumLength(shared); params != t.params || sumLength != want {
		return fmt.Errorf(
			"actors: a model of %d parameters with a sum of %d values, %s takes %d and %d",
			params,
			sumLength,
			t.problem.Model,
			t.params,
			want,
		)
	}
	// The tasks of colluders are trained, too, so they are checked alike.
	all := slices.Clip(tasks)
	for _, a := range tasks {
		all = append(all, a.Colluders...)
	}
	// Every task must have a minibatch and an attacker that this worker knows.
	for _, a := range all {
		if maxBatch := max(t.problem.Batch, t.problem.LargestBatch); a.Batch < 0 || a.Batch > maxBatch {
			return fmt.Errorf("actors: task %d: minibatches of %d samples, at most %d", a.Task, a.Batch, maxBatch)
		}
		if err := t.checkSamples(&a); err != nil {
			return err
		}
		if attacks := len(t.problem.Attacks); a.Attacker < 0 || a.Attacker > attacks {
			return fmt.Errorf("actors: task %d: attacker of class %d of %d", a.Task, a.Attacker, attacks)
		}
	}
	if shared == nil {
		return nil
	}
	// Clients keep control variates or residuals, as the algorithm says, so the job must be of that kind.
	if shared.Residuals == t.hasControlVariates || t.stateValues+t.memoryValues == 0 {
		return errors.New("actors: a job with control variates for an algorithm without, " +
			"or with vectors where clients keep none")
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

// orZero returns the control variate or residual at the beginning of a client's state, zeros for a
// nil state.
func (t *Trainer) orZero(state []float32) []float32 {
	if state == nil {
		return t.zero
	}
	return state[:t.params]
}

// Evaluate measures a model on the samples that measured names. It returns the sum of their losses,
// and the sum and weight of each of the model's metrics.
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
		// The steps see only what they remember themselves, which is behind the algorithm's values.
		measured.State = measured.State[t.stateValues:]
	}
	scores = make([]learn.Score, len(t.problem.Model.Metrics()))
	lossSum, err = t.steps.Evaluate(ctx, params, measured, scores)
	return lossSum, scores, err
}

// checkUpdate returns an error for the first parameter of a client's model that cannot be added to a
// sum, because it is not finite or too far from the base model.
func (t *Trainer) checkUpdate(a *Assignment, model, base []float32) error {
	err := algorithm.Check(model, base)
	if d := (*algorithm.DifferenceError)(nil); errors.As(err, &d) {
		return t.outOfRange(a, d.Index, d.X, d.Model)
	}
	return err
}

// outOfRange returns the error of a parameter that moved from before to after, a difference that
// does not fit into an exact sum. It names the tensor and the limit. A value that is not finite, or
// a trained parameter that moved so far, means that training diverged. With differential privacy
// and with secure aggregation sums hold buffers, too. One that follows the samples, such as the
// running variance of a batch normalisation on raw features, has not diverged: its samples need
// another scale.
func (t *Trainer) outOfRange(a *Assignment, index int, after, before float32) error {
	tensor := learn.TensorAt(t.problem.Model, index)
	change := fmt.Sprintf("parameter %d, of tensor %s, moved from %g to %g", index, tensor, before, after)
	isFinite := !math.IsNaN(float64(after)) && !math.IsInf(float64(after), 0)
	if !isFinite {
		return &Diverged{Task: a.Task, Client: a.Client, Cause: change}
	}
	// Trained parameters come first in the model.
	if index < t.trainable {
		change += fmt.Sprintf("; sums of updates hold differences below %d", algorithm.MaxDifference)
		return &Diverged{Task: a.Task, Client: a.Client, Cause: change}
	}
	limit := "2^17"
	if t.problem.ScalesBuffers {
		limit = "2^35 times its value before"
	}
	return fmt.Errorf(
		"actors: task %d, client %d: %s; sums of updates hold differences below %s. It is not trained, and nothing "+
			"diverged: it follows the samples. With differential privacy or secure aggregation scale the features, "+
			"by data: {..., scale: standard} or in the script",
		a.Task,
		a.Client,
		change,
		limit,
	)
}
