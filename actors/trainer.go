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
	Variate []float32

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
	Variate       []float32 // what the client keeps next, where clients keep something; the caller's to keep
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
	problem   Problem
	steps     Steps
	params    int
	trainable int // so many of them are trained, the first ones
	travels   int // and so many are not frozen

	client algorithm.Client // nil: the algorithm does not change local steps
	zero   []float32        // never written to; nil: neither client state nor compression needs it
	state  bool             // the algorithm has client state
	own    int              // of what a client keeps, the values that are the algorithm's or the compression's
	local  int              // and those that its steps remember, which follow

	compressors map[int]algorithm.Compressor // by the length of what they compress
	update      []float32                    // for them; nil: updates are whole
	feedback    float32                      // part of a residual that is added to it
	coins       rand.PCG                     // for them

	plots map[int]plot // by [Assignment].Attacker: what its colluders sent last
}

// NewTrainer allocates one worker's memory. Close it after use.
func NewTrainer(p Problem) (*Trainer, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{
		problem:   p,
		params:    p.Model.Params(),
		trainable: p.Model.Trainable(),
		travels:   learn.Travels(p.Model),
		plots:     map[int]plot{},
	}
	t.client = p.Algorithm.Client(t.trainable)
	t.state = algorithm.KeepsVariates(p.Algorithm)
	if t.state || p.Compression != nil {
		t.zero = make([]float32, t.params)
	}
	t.local = p.Memory()
	if t.state || registry.NeedsOf(p.Compression).ClientState {
		t.own = t.params
	}
	if p.Compression != nil {
		t.compressors = map[int]algorithm.Compressor{}
		t.update = make([]float32, t.trainable)
		t.feedback = 1
		if d, ok := p.Compression.(algorithm.Decaying); ok {
			t.feedback = float32(d.Feedback())
		}
	}
	whole := p
	whole.Model = learn.Stepped(p.Model)
	if p.Trainer != nil {
		t.steps = newProcessSteps(&whole)
	} else {
		t.steps = newGoSteps(&whole, t.client)
	}
	if m, ok := p.Model.(*learn.Personal); ok {
		t.steps = &personal{
			Steps:     t.steps,
			of:        m,
			memory:    p.stepMemory(),
			headSteps: p.HeadSteps,
			model:     make([]float32, t.params),
			whole:     make([]float32, t.params),
		}
	}
	if of, ok := p.Algorithm.(algorithm.Streaming); ok {
		t.steps = &streaming{Steps: t.steps, of: of, memory: p.stepMemory()}
	}
	return t, nil
}

func (t *Trainer) Close() error { return t.steps.Close() }

// SumLength is the length of a job's exact sum: that of the parameters and, with
// an algorithm's client state, of its changes after them.
func (t *Trainer) SumLength(shared *Shared) int {
	if shared.variates() {
		return 2 * t.params
	}
	return t.params
}

// variates reports whether the vectors are an algorithm's client state.
func (s *Shared) variates() bool { return s != nil && !s.Residuals }

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
		copy(model[t.travels:], base[t.travels:]) // whatever a trainer's process has made of it
		t.hide(base, model, &work[i])
		outcomes[i].FirstStepLoss = t.attack(base, model, firstStepLoss, &work[i])
		if t.problem.Clips && learn.AddExact(sum[:len(base)], 0, model, base) >= 0 { // adds nothing
			shorten(model, base)
		}
		kept, err := t.add(sum, base, model, shared, &work[i])
		if w.Local != nil {
			kept = append(kept, w.Local[i]...)
		}
		outcomes[i].Variate = kept
		return err
	})
	return outcomes, err
}

// shorten brings an update that is finite, and too long for an exact sum, to half the length that it
// takes, so that no rounding passes that. The direction stays: who clips sees no difference.
func shorten(model, base []float32) {
	largest := 0.0
	for i, x := range model {
		largest = max(largest, math.Abs(float64(x)-float64(base[i])))
	}
	for i, x := range model {
		model[i] = base[i] + float32(algorithm.MaxDifference/2/largest*(float64(x)-float64(base[i])))
	}
}

// hide adds the noise to a client's model that it adds itself before it sends anything. In a
// loss query nothing is sent.
func (t *Trainer) hide(base, model []float32, a *Assignment) {
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
	case shared.variates():
		w.Start = func(i int) { w.Client.Start(base[:n], t.vector(shared.Mean)[:n], t.vector(tasks[i].Variate)[:n]) }
	case t.state:
		w.Client = nil
	case t.client != nil:
		w.Start = func(int) { w.Client.Start(base[:n], nil, nil) }
	}
	if shared != nil && t.local > 0 {
		w.Local = make([][]float32, len(tasks))
		w.Rounds = shared.Rounds
		for i, a := range tasks {
			if a.Variate != nil {
				w.Local[i] = a.Variate[t.own:]
			}
		}
	}
	return w
}

// add adds a client's update to the sum, and returns what it keeps. The model equals
// base after.
func (t *Trainer) add(sum []int64, base, model []float32, shared *Shared, a *Assignment) (kept []float32, err error) {
	if t.update != nil && (shared != nil || a.Weight > 0) {
		return t.addCompressed(sum, base, model, shared, a)
	}
	if shared.variates() {
		kept = t.client.End(model[:t.trainable], a.LocalSteps, a.Rate)
		kept = append(kept, t.zero[t.trainable:]...)
	}
	if bad := learn.AddExactAndReset(sum[:len(base)], a.Weight, model, base); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("parameter %d moved from %g to %g", bad, base[bad], model[bad])}
	}
	if !shared.variates() {
		return nil, nil
	}
	if bad := learn.AddExact(sum[len(base):], shared.Weight, kept, t.vector(a.Variate)); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("the control variate of parameter %d became %g", bad, kept[bad])}
	}
	return kept, nil
}

// compress returns what compression makes of a client's update, with the client's residual where
// it keeps one, until the next, and what is left out then. It is that of some of the parameters.
func (t *Trainer) compress(
	base, model []float32,
	shared *Shared,
	a *Assignment,
) (update, left []float32, from, to int, err error) {
	if err := algorithm.Check(model, base); err != nil {
		return nil, nil, 0, 0, &Diverged{Task: a.Task, Client: a.Client, Cause: err.Error()}
	}
	from, to = t.sent(shared)
	update = t.update[:to-from]
	for i := range update {
		update[i] = model[from+i] - base[from+i]
	}
	if shared != nil && t.own > 0 {
		left = slices.Clone(t.vector(a.Variate))
		for i := range update {
			update[i] += float32(t.feedback * left[from+i])
		}
		copy(left[from:], update)
	}
	keyed.Reseed(&t.coins, t.problem.Seed, keyed.Compression, uint64(a.Client), a.Task)
	if t.compressors[len(update)] == nil {
		t.compressors[len(update)] = t.problem.Compression.Compressor(len(update))
	}
	t.compressors[len(update)].Compress(update, &t.coins)
	if left != nil {
		for i, sent := range update {
			left[from+i] -= sent
		}
	}
	return update, left, from, to, nil
}

// addCompressed adds what compression makes of a client's update, and returns what is left out
// where the client keeps that. What is not trained is added whole. The model equals base after.
func (t *Trainer) addCompressed(
	sum []int64,
	base, model []float32,
	shared *Shared,
	a *Assignment,
) (left []float32, err error) {
	update, left, from, to, err := t.compress(base, model, shared, a)
	if err != nil {
		return nil, err
	}
	copy(model[:t.trainable], base)
	if bad := learn.AddExact(sum[from:to], a.Weight, update, t.zero[from:to]); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("the compressed update of parameter %d is %g", from+bad, update[bad])}
	}
	if rest := model[t.trainable:]; len(rest) > 0 {
		learn.AddExactAndReset(sum[t.trainable:], a.Weight, rest, base[t.trainable:]) // Check has looked at rest
	}
	return left, nil
}

// sent is the part of the parameters that a round compresses and sends.
func (t *Trainer) sent(shared *Shared) (from, to int) {
	if of, ok := t.problem.Algorithm.(algorithm.Streaming); ok && shared != nil {
		return of.Span(shared.Rounds, t.trainable)
	}
	return 0, t.trainable
}

// Kept is how many values a client keeps from task to task.
func (t *Trainer) Kept() int { return t.own + t.local }

// Local runs one client's K local steps from base, where [Trainer.Train] adds what comes of them
// to a sum, and returns what a real device sends: its own model or, where updates are
// compressed, the difference of that from base; and what it keeps, nil if nothing. Of the
// algorithm it must not keep control variates; a.Weight is not used.
func (t *Trainer) Local(
	ctx context.Context,
	base []float32,
	a Assignment,
) (values, kept []float32, firstStepLoss float64, err error) {
	a.Weight = 1
	shared := &Shared{Residuals: true}
	if t.Kept() == 0 {
		shared = nil
	}
	if t.state {
		return nil, nil, 0, fmt.Errorf("actors: task %d: a device has no control variates", a.Task)
	}
	if err := t.check(len(base), shared, []Assignment{a}, t.SumLength(shared)); err != nil {
		return nil, nil, 0, err
	}
	w := t.work(base, shared, []Assignment{a})
	err = t.steps.Run(ctx, w, func(_ int, model []float32, loss float64) error {
		firstStepLoss = loss
		t.hide(base, model, &a)
		values = slices.Clone(model)
		if t.update != nil {
			for i, x := range base {
				values[i] -= x
			}
			update, left, from, _, err := t.compress(base, model, shared, &a)
			if err != nil {
				return err
			}
			copy(values[from:], update)
			kept = left
		}
		if w.Local != nil {
			kept = append(kept, w.Local[0]...)
		}
		return nil
	})
	return values, kept, firstStepLoss, err
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
		if most := max(t.problem.Batch, t.problem.LargestBatch); a.Batch < 0 || a.Batch > most {
			return fmt.Errorf("actors: task %d: minibatches of %d samples, at most %d", a.Task, a.Batch, most)
		}
		if most := len(t.problem.Attacks); a.Attacker < 0 || a.Attacker > most {
			return fmt.Errorf("actors: task %d: attacker of class %d of %d", a.Task, a.Attacker, most)
		}
	}
	if shared == nil {
		return nil
	}
	if shared.Residuals == t.state || t.own+t.local == 0 {
		return errors.New("actors: a job with control variates for an algorithm without, or with vectors where clients keep none")
	}
	if shared.Mean != nil && len(shared.Mean) != params {
		return fmt.Errorf("actors: the server's control variate has %d values, want %d", len(shared.Mean), params)
	}
	for _, a := range all {
		if want := t.own + t.local; a.Variate != nil && len(a.Variate) != want {
			return fmt.Errorf(
				"actors: task %d: what client %d keeps has %d values, want %d",
				a.Task,
				a.Client,
				len(a.Variate),
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

// vector is the control variate or residual of what a client keeps; nil stands for zero.
func (t *Trainer) vector(v []float32) []float32 {
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
	of Measured,
) (lossSum float64, scores []learn.Score, err error) {
	if of.Kept != nil {
		if want := t.own + t.local; len(of.Kept) != want {
			return 0, nil, fmt.Errorf(
				"actors: what client %d keeps has %d values, want %d",
				of.Client,
				len(of.Kept),
				want,
			)
		}
		of.Kept = of.Kept[t.own:]
	}
	scores = make([]learn.Score, len(t.problem.Model.Metrics()))
	lossSum, err = t.steps.Evaluate(ctx, params, of, scores)
	return lossSum, scores, err
}
