package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/internal/mailbox"
)

// Limits of what may wait for the coordinator.
const (
	maxPlans = 4 << 20
	maxSums  = 1 << 12
)

// Coordinator is a [bus.Coordinator].
type Coordinator struct {
	run    *run
	kernel string

	life context.Context // ends when the coordinator is closed
	end  context.CancelCauseFunc

	sending sync.Mutex
	batch   *batch // tasks that have not left; nil: none

	plans    *mailbox.Mailbox[bus.ClientPlan]
	patience time.Duration // for plans
	late     *time.Timer   // runs while plans are waited for
	sums     *mailbox.Mailbox[*bus.ReceivedSum]
	ignored  atomic.Int64
}

func newCoordinator(r *run, config bus.CoordinatorConfig) *Coordinator {
	c := &Coordinator{
		run: r, kernel: config.Kernel, patience: cmp.Or(config.PlanPatience, 10*time.Second),
		plans: mailbox.New[bus.ClientPlan](maxPlans), sums: mailbox.New[*bus.ReceivedSum](maxSums),
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.late = time.AfterFunc(time.Hour, func() {
		c.plans.Signal(fmt.Errorf("bus: run %s: no plan for %v, although one is waited for: %w", r.name, c.patience, bus.ErrInterrupted))
	})
	c.late.Stop()
	return c
}

// Close forgets what the run had on the bus.
func (c *Coordinator) Close(context.Context) error {
	c.run.vacate(c)
	err := fmt.Errorf("bus: run %s: the coordinator is closed", c.run.name)
	c.plans.Fail(err)
	c.sums.Fail(err)
	c.end(err)
	c.late.Stop()
	return nil
}

func (c *Coordinator) Life() context.Context { return c.life }

func (c *Coordinator) Pending() int   { return c.plans.Pending() + c.sums.Pending() }
func (c *Coordinator) Ignored() int64 { return c.ignored.Load() }

// Hosts are none: there is no other process.
func (c *Coordinator) Hosts() (hosts, workers int) { return 0, 0 }

// TakePlans sends what tasks have not left. When no plan comes for
// CoordinatorConfig.PlanPatience, its error wraps [bus.ErrInterrupted]: a task that
// no host gets leaves no trace.
func (c *Coordinator) TakePlans(ctx context.Context, buf []bus.ClientPlan) ([]bus.ClientPlan, error) {
	c.flush()
	c.late.Reset(c.patience)
	defer c.late.Stop()
	return c.plans.Take(ctx, buf)
}

// PutModel shares the slice with the hosts.
func (c *Coordinator) PutModel(_ context.Context, digest bus.Digest, params []float32) error {
	if digest.IsZero() || len(params) == 0 || len(params) > bus.MaxParams {
		return fmt.Errorf("bus: model %s of %d parameters, want 1 to %d", digest, len(params), bus.MaxParams)
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.models[digest] = params
	return nil
}

// PutModelsAgain does nothing: no model is ever lost.
func (c *Coordinator) PutModelsAgain(context.Context) error { return nil }

func (c *Coordinator) DeleteModel(_ context.Context, digest bus.Digest) error {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	delete(c.run.models, digest)
	return nil
}

// SendJob queues a job; one that is open already is not queued again.
func (c *Coordinator) SendJob(_ context.Context, j *bus.Job) error {
	if err := j.Validate(); err != nil {
		return err
	}
	if j.Kernel != c.kernel {
		return bus.Fault("job", "kernel", j.Kernel, fmt.Sprintf("the run's, %q", c.kernel))
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if c.run.jobs[j.Job] == nil {
		o := &openJob{job: j}
		c.run.jobs[j.Job] = o
		c.run.enqueue(o)
	}
	return nil
}

func (c *Coordinator) TakeSum(ctx context.Context) (*bus.ReceivedSum, error) {
	return c.sums.TakeOne(ctx)
}

// receive takes a host's sum, or finds that of the same job that waits already; nil: the
// job is not open. With the run's lock held.
func (c *Coordinator) receive(r *bus.Result) (sent *sentSum, first bool, err error) {
	o := c.run.jobs[r.Job]
	if o == nil {
		return nil, false, nil
	}
	if err := cmp.Or(r.Validate(), r.ValidateFor(o.job)); err != nil {
		return nil, false, err
	}
	if o.sum != nil {
		return o.sum, false, nil
	}
	o.sum = &sentSum{answered: make(chan struct{})}
	var once sync.Once
	c.sums.Put(&bus.ReceivedSum{
		Result: r,
		Accept: func() { once.Do(func() { c.answer(o, nil) }) },
		Reject: func(reason string) { once.Do(func() { c.answer(o, errors.New(reason)) }) },
	})
	return o.sum, true, nil
}

// answer answers the sum of a job, which is closed if it is accepted.
func (c *Coordinator) answer(o *openJob, refused error) {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if refused == nil && c.run.jobs[o.job.Job] == o {
		delete(c.run.jobs, o.job.Job)
	}
	o.sum.refused = refused
	close(o.sum.answered)
	o.sum = nil
}

// batchSize is how many tasks travel together. A host works at a full batch while
// the coordinator fills the next; what is left when the coordinator waits for plans
// is answered on its goroutine, which has nothing else to do.
const batchSize = 256

// batch is tasks on their way to a host.
type batch struct {
	from  *Coordinator
	count int
	tasks [batchSize]order
}

// order is a task with its client. The digest is the memory of the task's.
type order struct {
	client int
	task   bus.Task
	digest bus.Digest
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (o *order) set(client int, t *bus.Task) {
	o.client = client
	o.task = bus.Task{
		Task: t.Task, Round: t.Round, LocalSteps: t.LocalSteps, LearningRate: t.LearningRate, StepsDone: t.StepsDone,
		ModelBits: t.ModelBits, UpdateBits: t.UpdateBits, StartNs: t.StartNs, Joules: t.Joules, Device: t.Device, Presence: t.Presence,
		Stamp: t.Stamp, Over: t.Over, Placement: t.Placement, Version: t.Version, ModelDigest: append(o.digest[:0], t.ModelDigest...),
	}
	o.task.Digest = append(o.task.Digest, t.Digest...)
	o.task.FrozenDigest = append(o.task.FrozenDigest, t.FrozenDigest...)
	o.task.KeptDigest = append(o.task.KeptDigest, t.KeptDigest...)
}

// SendTask adds a task to the batch that leaves when it is full or plans are waited
// for.
func (c *Coordinator) SendTask(client int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if client < 0 || client > bus.MaxClients {
		return fmt.Errorf("bus: client %d, want 0 to %d", client, bus.MaxClients)
	}
	c.sending.Lock()
	if c.batch == nil {
		c.batch = batches.Get().(*batch)
		c.batch.from, c.batch.count = c, 0
	}
	b := c.batch
	b.tasks[b.count].set(client, t)
	b.count++
	full := b.count == batchSize
	c.sending.Unlock()
	if full {
		c.flush()
	}
	return nil
}

// flush sends the tasks that have not left. Without a host they are lost.
func (c *Coordinator) flush() {
	c.sending.Lock()
	b := c.batch
	c.batch = nil
	c.sending.Unlock()
	if b == nil {
		return
	}
	h := c.run.host()
	switch {
	case h == nil:
	case b.count < batchSize:
		h.answer(b)
	default:
		select {
		case h.batches <- b:
		case <-h.life.Done():
		}
	}
}

// serve answers full batches until the host ends.
func (h *Host) serve() {
	for {
		select {
		case b := <-h.batches:
			h.answer(b)
		case <-h.life.Done():
			return
		}
	}
}

// answer returns the plans of a batch, unless the host has ended.
func (h *Host) answer(b *batch) {
	h.planning.Lock()
	defer h.planning.Unlock()
	if h.life.Err() != nil {
		return
	}
	memory := make([]bus.Plan, b.count)
	h.plans = h.plans[:0]
	for i := range memory {
		o, p := &b.tasks[i], &memory[i]
		p.Task, p.Placement = o.task.Task, o.task.Placement
		err := h.plan(o.client, &o.task, p)
		if err == nil {
			err = p.Validate()
		}
		if err != nil {
			h.end(fmt.Errorf("bus: plan of client %d for task %d: %w", o.client, o.task.Task, err))
			return
		}
		h.plans = append(h.plans, bus.ClientPlan{Client: o.client, Plan: p})
	}
	b.from.plans.PutAll(h.plans)
	batches.Put(b)
}
