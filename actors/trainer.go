package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/bus"
	"fedpace/coordinator/aggregate"
	"fedpace/internal/keyed"
	"fedpace/internal/registry"
)

// Problem is what is learned: equal on every host of a run, or the hosts would
// train different models.
type Problem struct {
	Model learn.Model
	Set   federated.Set
	Seed  uint64 // of the minibatches' order and of the augmentation
	Batch int    // minibatch size
	// LargestBatch is the largest that a class of clients has; 0: none has its own.
	LargestBatch int
	Augment      string // NoAugment or FlipCrop

	Algorithm aggregate.Algorithm // its client half is run
	Optimizer learn.Optimizer     // of local steps; nil: plain SGD
	// Compression is what updates go through before they are added; nil: they are whole.
	Compression aggregate.Compression
	Kernel      learn.Kernel // of the local steps and evaluations
}

// The augmentations of training images.
const (
	NoAugment = "none"
	// FlipCrop is a random horizontal flip and a random crop of the image's own
	// size after zero padding, drawn once a minibatch (paper/NOTES, "Data").
	FlipCrop    = "flip_crop"
	cropPadding = 4 // in pixels, as in the published code of the paper's authors
)

// Spec is the problem as jobs name it.
func (p *Problem) Spec() *bus.Spec {
	algorithm, err := aggregate.Algorithms.Encode(p.Algorithm)
	if err != nil { // its options are numbers and words
		panic("actors: " + err.Error())
	}
	local, compression := "", ""
	if !learn.Plain(p.Optimizer) {
		if local, err = learn.Optimizers.Encode(p.Optimizer); err != nil {
			panic("actors: " + err.Error())
		}
	}
	if p.Compression != nil {
		if compression, err = aggregate.Compressions.Encode(p.Compression); err != nil {
			panic("actors: " + err.Error())
		}
	}
	return &bus.Spec{Model: p.Model.String(), DataDigest: p.Set.Info().Digest, Seed: p.Seed, Batch: uint32(p.Batch), Augment: p.Augment, Algorithm: algorithm, Compression: compression, Local: local, Metrics: p.metrics()}
}

// metrics are the names of the model's metrics.
func (p *Problem) metrics() (names []string) {
	for _, m := range p.Model.Metrics() {
		names = append(names, m.Name)
	}
	return names
}

// Check says whether model, data and settings fit each other.
func (p *Problem) Check() error {
	info := p.Set.Info()
	reads := p.Model.Samples()
	if !reads.Fit(info.Samples) {
		return fmt.Errorf("model: %s reads %s, %s has %s", p.Model, reads.Describe(), info.Name, info.Describe())
	}
	if p.Batch < 1 {
		return fmt.Errorf("batch: minibatches of %d samples, want at least 1", p.Batch)
	}
	switch p.Augment {
	case NoAugment:
	case FlipCrop:
		if reads.Image == [3]int{} {
			return fmt.Errorf("augment: %s does not read images; want %s", p.Model, NoAugment)
		}
	default:
		return fmt.Errorf("augment: %q is not %s or %s", p.Augment, NoAugment, FlipCrop)
	}
	if !learn.Plain(p.Optimizer) {
		client := p.Algorithm.Client(p.Model.Params())
		if _, ok := client.(aggregate.Correcting); client != nil && !ok {
			return fmt.Errorf("local: %s takes local steps of its own, which %s does not know; want sgd without options",
				aggregate.Algorithms.NameOf(p.Algorithm), learn.Optimizers.NameOf(p.Optimizer))
		}
	}
	return nil
}

// Assignment is one client's accepted work in a job.
type Assignment struct {
	Task       uint64
	Client     int
	LocalSteps int     // K
	StepsDone  int64   // the client's accepted steps before this task
	Rate       float64 // eta
	Batch      int     // samples of a minibatch; 0: the problem's
	Weight     float64 // of the update in the aggregate; a round's weights sum to 1 at most. 0: only the loss is wanted

	Variate []float32 // c_i, for an algorithm with client state, or the client's residual; nil: zero
}

// Shared is what the tasks of a job have in common beyond the model, where clients keep
// a vector ([aggregate.Variates]).
type Shared struct {
	Mean      []float32 // c; nil: zero
	Weight    float64   // of a client's change in the exact sum: 1/N
	Residuals bool      // clients keep what compression leaves out: there is no c, and no sum of changes
}

// Outcome is what one client's work came to besides its share of the sum.
type Outcome struct {
	FirstStepLoss float64   // before the first step (Eq. 15's f_c(x_r, xi))
	Variate       []float32 // next c_i or residual, where clients keep one; the caller's to keep
}

// errModelDiverged is the error of a model whose loss is not finite.
var errModelDiverged = errors.New("diverged: the model's loss")

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

// Trainer is one worker's model, data and memory. It is not safe for
// concurrent use; workers share nothing but the read-only model and set.
type Trainer struct {
	problem Problem

	work  learn.Workspace
	local []float32 // the client's model
	order federated.Minibatches
	batch learn.Batch

	samples []int32 // of an evaluation by client

	source rand.PCG
	draws  *rand.Rand // on source, for the augmentation; nil: minibatches are taken as they are

	client   aggregate.Client     // nil: the algorithm does not change local steps
	correct  aggregate.Correcting // client, where stepper takes its steps
	stepper  learn.Stepper        // nil: local steps are plain SGD, or client's
	gradient []float32            // for client and stepper
	zero     []float32            // never written to; nil: neither client state nor compression needs it
	state    bool                 // the algorithm has client state

	compressor aggregate.Compressor // nil: updates are whole
	update     []float32            // for it
	coins      rand.PCG             // for it
}

// evaluationBatch is how many held-out samples are measured at a time.
const evaluationBatch = 256

// NewTrainer allocates one worker's memory.
func NewTrainer(p Problem) (*Trainer, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{
		problem: p,
		work:    p.Model.NewWorkspace(max(p.Batch, p.LargestBatch, evaluationBatch), p.Kernel),
		local:   make([]float32, p.Model.Params()),
	}
	if p.Optimizer != nil {
		t.stepper = p.Optimizer.Stepper(len(t.local))
	}
	if t.client = p.Algorithm.Client(len(t.local)); t.client != nil && t.stepper != nil {
		t.correct = t.client.(aggregate.Correcting)
	}
	if t.client != nil || t.stepper != nil {
		t.gradient = make([]float32, len(t.local))
	}
	if t.state = registry.NeedsOf(p.Algorithm).ClientState; t.state || p.Compression != nil {
		t.zero = make([]float32, len(t.local))
	}
	if p.Compression != nil {
		t.compressor, t.update = p.Compression.Compressor(len(t.local)), make([]float32, len(t.local))
	}
	if p.Augment == FlipCrop {
		t.draws = rand.New(&t.source)
	}
	return t, nil
}

// SumLength is the length of a job's exact sum: that of the parameters and, with
// an algorithm's client state, of its changes after them.
func (t *Trainer) SumLength(shared *Shared) int {
	if shared.variates() {
		return 2 * len(t.local)
	}
	return len(t.local)
}

// variates reports whether the vectors are an algorithm's client state.
func (s *Shared) variates() bool { return s != nil && !s.Residuals }

// Train runs each assignment's K local steps from base (Algorithm 1, lines 5-8,
// with the algorithm's steps) and adds its weighted update to sum
// (learn.AddExact), which has SumLength. Without shared, as in a loss query, an
// algorithm with client state does plain steps. A loss or update that is not
// finite is a *Diverged.
func (t *Trainer) Train(ctx context.Context, base []float32, shared *Shared, work []Assignment, sum []int64) ([]Outcome, error) {
	if err := t.check(len(base), shared, work, sum); err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(work))
	copy(t.local, base)
	for i := range work {
		a := &work[i]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		loss, err := t.task(ctx, base, shared, a)
		if err != nil {
			return nil, err
		}
		outcomes[i].FirstStepLoss = loss
		if t.compressor != nil && (shared != nil || a.Weight > 0) {
			if outcomes[i].Variate, err = t.addCompressed(sum, base, shared, a); err != nil {
				return nil, err
			}
			continue
		}
		if shared != nil {
			outcomes[i].Variate = t.client.End(t.local, a.LocalSteps, a.Rate)
		}
		if bad := learn.AddExactAndReset(sum[:len(base)], a.Weight, t.local, base); bad >= 0 {
			return nil, &Diverged{Task: a.Task, Client: a.Client,
				Cause: fmt.Sprintf("parameter %d moved from %g to %g", bad, base[bad], t.local[bad])}
		}
		if shared == nil {
			continue
		}
		next := outcomes[i].Variate
		if bad := learn.AddExact(sum[len(base):], shared.Weight, next, t.vector(a.Variate)); bad >= 0 {
			return nil, &Diverged{Task: a.Task, Client: a.Client,
				Cause: fmt.Sprintf("the control variate of parameter %d became %g", bad, next[bad])}
		}
	}
	return outcomes, nil
}

// addCompressed adds what compression makes of t.local's update, with the client's
// residual where it keeps one, and returns what is left out then. t.local is base after.
func (t *Trainer) addCompressed(sum []int64, base []float32, shared *Shared, a *Assignment) (left []float32, err error) {
	if err := aggregate.Check(t.local, base); err != nil {
		return nil, &Diverged{Task: a.Task, Client: a.Client, Cause: err.Error()}
	}
	for i, x := range base {
		t.update[i] = t.local[i] - x
	}
	if shared != nil {
		for i, r := range t.vector(a.Variate) {
			t.update[i] += r
		}
		left = slices.Clone(t.update)
	}
	keyed.Reseed(&t.coins, t.problem.Seed, keyed.Compression, uint64(a.Client), a.Task)
	t.compressor.Compress(t.update, &t.coins)
	for i := range left {
		left[i] -= t.update[i]
	}
	copy(t.local, base)
	if bad := learn.AddExact(sum, a.Weight, t.update, t.zero); bad >= 0 {
		return nil, &Diverged{Task: a.Task, Client: a.Client,
			Cause: fmt.Sprintf("the compressed update of parameter %d is %g", bad, t.update[bad])}
	}
	return left, nil
}

// Local runs one client's K local steps from base and returns its own model,
// where [Trainer.Train] adds it to a sum: it is what a real device sends. The
// algorithm must not have client state; a.Weight is not used.
func (t *Trainer) Local(ctx context.Context, base []float32, a Assignment) (model []float32, firstStepLoss float64, err error) {
	if t.state || t.compressor != nil {
		return nil, 0, fmt.Errorf("actors: task %d: a device keeps no control variates, and sends whole models", a.Task)
	}
	if len(base) != len(t.local) {
		return nil, 0, fmt.Errorf("actors: task %d: a model of %d parameters, %s has %d", a.Task, len(base), t.problem.Model, len(t.local))
	}
	copy(t.local, base)
	if firstStepLoss, err = t.task(ctx, base, nil, &a); err != nil {
		return nil, 0, err
	}
	return slices.Clone(t.local), firstStepLoss, nil
}

// check refuses a job that would index out of range or divide by zero.
func (t *Trainer) check(params int, shared *Shared, work []Assignment, sum []int64) error {
	if want := t.SumLength(shared); params != len(t.local) || len(sum) != want {
		return fmt.Errorf("actors: a model of %d parameters with a sum of %d values, %s takes %d and %d", params, len(sum), t.problem.Model, len(t.local), want)
	}
	for _, a := range work {
		if most := max(t.problem.Batch, t.problem.LargestBatch); a.Batch < 0 || a.Batch > most {
			return fmt.Errorf("actors: task %d: minibatches of %d samples, at most %d", a.Task, a.Batch, most)
		}
	}
	if shared == nil {
		return nil
	}
	if shared.Residuals && t.compressor == nil || !shared.Residuals && !t.state {
		return errors.New("actors: a job with control variates for an algorithm without, or with residuals of updates that are not compressed")
	}
	if shared.Mean != nil && len(shared.Mean) != params {
		return fmt.Errorf("actors: the server's control variate has %d values, want %d", len(shared.Mean), params)
	}
	for _, a := range work {
		if a.Variate != nil && len(a.Variate) != params {
			return fmt.Errorf("actors: task %d: the control variate of client %d has %d values, want %d", a.Task, a.Client, len(a.Variate), params)
		}
		if !shared.Residuals && (a.LocalSteps < 1 || !(float32(a.Rate) > 0)) {
			return fmt.Errorf("actors: task %d, client %d: %d local steps at rate %g leave no control variate", a.Task, a.Client, a.LocalSteps, a.Rate)
		}
	}
	return nil
}

// vector is a control variate or a residual; nil stands for zero.
func (t *Trainer) vector(v []float32) []float32 {
	if v == nil {
		return t.zero
	}
	return v
}

// task runs the client's local steps on t.local, which equals base before.
func (t *Trainer) task(ctx context.Context, base []float32, shared *Shared, a *Assignment) (first float64, err error) {
	client := t.client
	switch {
	case shared.variates():
		client.Start(base, t.vector(shared.Mean), t.vector(a.Variate))
	case t.state:
		client = nil
	case client != nil:
		client.Start(base, nil, nil)
	}
	if t.stepper != nil {
		t.stepper.Start()
	}
	t.order.Reset(t.problem.Seed, a.Client, t.problem.Set.Samples(a.Client), cmp.Or(a.Batch, t.problem.Batch), a.StepsDone)
	for k := range a.LocalSteps {
		if k%64 == 63 && ctx.Err() != nil { // a step may take 50 ms
			return 0, ctx.Err()
		}
		t.batch.Reset()
		if err := t.problem.Set.Batch(&t.batch, a.Client, t.order.Next()); err != nil {
			return 0, fmt.Errorf("actors: data of client %d (%s): %w", a.Client, t.problem.Set.Client(a.Client), err)
		}
		if t.draws != nil { // a stream of this step's own
			keyed.Reseed(&t.source, t.problem.Seed, keyed.Augment, uint64(a.Client), uint64(a.StepsDone)+uint64(k))
			image := t.problem.Model.Samples().Image
			if err := learn.Augment(&t.batch, image[0], image[1], image[2], cropPadding, t.draws); err != nil {
				return 0, err
			}
		}
		t.batch.Seed = keyed.Hash(t.problem.Seed, keyed.LocalStep, uint64(a.Client), uint64(a.StepsDone)+uint64(k))
		loss, err := t.step(client, float32(a.Rate))
		if errors.Is(err, learn.ErrNotFinite) {
			return 0, &Diverged{Task: a.Task, Client: a.Client, Step: k + 1, Cause: err.Error()}
		}
		if err != nil {
			return 0, fmt.Errorf("actors: task %d, client %d (%s): %w", a.Task, a.Client, t.problem.Set.Client(a.Client), err)
		}
		if k == 0 {
			first = loss
		}
	}
	return first, nil
}

// step takes one local step on t.batch, by the client half of the algorithm unless that
// is nil, and returns the loss before it.
func (t *Trainer) step(client aggregate.Client, rate float32) (loss float64, err error) {
	if client == nil && t.stepper == nil {
		return t.work.Step(t.local, &t.batch, rate)
	}
	if loss, err = t.work.Gradient(t.gradient, t.local, &t.batch); err != nil {
		return loss, err
	}
	if t.stepper == nil {
		client.Step(t.local, t.gradient, rate)
		return loss, nil
	}
	if t.correct != nil {
		t.correct.Correct(t.local, t.gradient)
	}
	t.stepper.Step(t.local, t.gradient, rate)
	return loss, nil
}

// Evaluate measures a model on held-out samples from..from+count-1: the sum of
// their losses, and what they add to each of the model's metrics.
func (t *Trainer) Evaluate(ctx context.Context, params []float32, from, count int) (lossSum float64, scores []learn.Score, err error) {
	return t.measure(ctx, params, "held-out samples", from, count, func(first, n int) error {
		return t.problem.Set.HeldOutBatch(&t.batch, first, n)
	})
}

// EvaluateClient is Evaluate on so many of a client's own samples, at most all, spread
// evenly over them.
func (t *Trainer) EvaluateClient(ctx context.Context, params []float32, client, count int) (lossSum float64, scores []learn.Score, err error) {
	own := t.problem.Set.Samples(client)
	of := fmt.Sprintf("of client %d (%s) the measured samples", client, t.problem.Set.Client(client))
	return t.measure(ctx, params, of, 0, count, func(first, n int) error {
		t.samples = t.samples[:0]
		for i := first; i < first+n; i++ {
			t.samples = append(t.samples, int32(int64(i)*int64(own)/int64(count)))
		}
		return t.problem.Set.Batch(&t.batch, client, t.samples)
	})
}

// measure measures a model on the samples from..from+count-1 of those that fill appends to
// the batch, n from the first on. of names them in errors.
func (t *Trainer) measure(ctx context.Context, params []float32, of string, from, count int, fill func(first, n int) error) (lossSum float64, scores []learn.Score, err error) {
	scores = make([]learn.Score, len(t.problem.Model.Metrics()))
	for done := 0; done < count; done += evaluationBatch {
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		n := min(evaluationBatch, count-done)
		first, last := from+done, from+done+n-1
		t.batch.Reset()
		if err := fill(first, n); err != nil {
			return 0, nil, fmt.Errorf("actors: %s %d to %d: %w", of, first, last, err)
		}
		loss, err := t.work.Evaluate(params, &t.batch, scores)
		if errors.Is(err, learn.ErrNotFinite) {
			return 0, nil, fmt.Errorf("%w on %s %d to %d is not finite", errModelDiverged, of, first, last)
		}
		if err != nil {
			return 0, nil, fmt.Errorf("actors: %s %d to %d: %w", of, first, last, err)
		}
		lossSum += loss
	}
	return lossSum, scores, nil
}
