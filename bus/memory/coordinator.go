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

// Coordinator is the coordinator's end of a run within one process: a [bus.Coordinator].
type Coordinator struct {
	run    *run
	kernel string

	// life ends when the coordinator is closed.
	life context.Context
	end  context.CancelCauseFunc

	// sending guards batch.
	sending sync.Mutex
	// batch holds the tasks that were not handed to a host yet, nil if there are none.
	batch *batch

	plans *planQueue
	// patience is how long TakePlans waits for a plan.
	patience time.Duration
	// planTimer is the timer that runs while plans are waited for.
	planTimer *time.Timer
	sums      *mailbox.Mailbox[*bus.ReceivedSum]
	ignored   atomic.Int64
}

// newCoordinator makes the coordinator of run r by config; a patience of 0 is 10 seconds. The timer
// for missing plans is made, but does not run before plans are waited for.
func newCoordinator(r *run, config bus.CoordinatorConfig) *Coordinator {
	c := &Coordinator{
		run:      r,
		kernel:   config.Kernel,
		patience: cmp.Or(config.PlanPatience, 10*time.Second),
		plans:    newPlanQueue(maxPlans),
		sums:     mailbox.New[*bus.ReceivedSum](maxSums),
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.planTimer = time.AfterFunc(time.Hour, func() {
		c.plans.box.Signal(fmt.Errorf(
			"bus: run %s: no plan for %v, although one is waited for: %w",
			r.name,
			c.patience,
			bus.ErrInterrupted,
		))
	})
	c.planTimer.Stop()
	return c
}

// Close ends the coordinator: what the run had on the bus is forgotten, and calls under way return
// an error. It never fails.
func (c *Coordinator) Close(context.Context) error {
	c.run.vacate(c)
	err := fmt.Errorf("bus: run %s: the coordinator is closed", c.run.name)
	c.plans.box.Fail(err)
	c.sums.Fail(err)
	c.end(err)
	c.planTimer.Stop()
	return nil
}

// Life implements [bus.Coordinator]: it ends when the coordinator is closed.
func (c *Coordinator) Life() context.Context { return c.life }

// Pending returns the number of plans and sums that were not taken yet.
func (c *Coordinator) Pending() int { return c.plans.box.Pending() + c.sums.Pending() }

// Ignored returns the number of sums that were refused or repeated.
func (c *Coordinator) Ignored() int64 { return c.ignored.Load() }

// Hosts implements [bus.Coordinator]: there are no hosts in other processes.
func (c *Coordinator) Hosts() (hosts, workers int) { return 0, 0 }

// TakePlans hands the remaining tasks to a host and waits for plans. If none arrives for
// CoordinatorConfig.PlanPatience, its error wraps [bus.ErrInterrupted], since nothing else shows that no
// host got a task.
func (c *Coordinator) TakePlans(ctx context.Context, buf []bus.ClientPlan) ([]bus.ClientPlan, error) {
	c.flush()
	c.planTimer.Reset(c.patience)
	defer c.planTimer.Stop()
	return c.plans.take(ctx, buf)
}

// PutModel makes a model available to hosts under its digest. It shares the slice params with them, so
// params must not be written to from now on.
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

// DeleteModel removes a model, which hosts get no longer.
func (c *Coordinator) DeleteModel(_ context.Context, digest bus.Digest) error {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	delete(c.run.models, digest)
	return nil
}

// SendJob queues job j for the hosts of its kernel class; a job that is open already is not queued
// again. The job stays open until its sum is accepted.
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

// TakeSum waits for the next sum.
func (c *Coordinator) TakeSum(ctx context.Context) (*bus.ReceivedSum, error) {
	return c.sums.TakeOne(ctx)
}

// receiveSum takes a host's sum r. It returns the sum of the job that waits for the coordinator's decision; first
// says that this is r, and not an earlier sum of the same job. It returns nil if the job is not open, and an error if
// the sum does not fit its job. The caller holds the run's lock.
func (c *Coordinator) receiveSum(r *bus.Result) (sent *sentSum, first bool, err error) {
	o := c.run.jobs[r.Job]
	if o == nil {
		return nil, false, nil
	}
	if err := cmp.Or(r.Validate(), r.ValidateFor(o.job)); err != nil {
		return nil, false, err
	}
	// Another host has sent a sum of the job, which is not decided yet.
	if o.sum != nil {
		return o.sum, false, nil
	}
	o.sum = &sentSum{answered: make(chan struct{})}
	var once sync.Once
	c.sums.Put(&bus.ReceivedSum{
		Result: r,
		Accept: func() { once.Do(func() { c.decide(o, nil) }) },
		Reject: func(reason string) { once.Do(func() { c.decide(o, errors.New(reason)) }) },
	})
	return o.sum, true, nil
}

// decide decides the sum of the open job o and wakes the host that waits for the decision. refused is the reason of a
// refusal, after which the job stays open. Nil accepts the sum, which closes the job.
func (c *Coordinator) decide(o *openJob, refused error) {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if refused == nil && c.run.jobs[o.job.Job] == o {
		delete(c.run.jobs, o.job.Job)
	}
	o.sum.refused = refused
	close(o.sum.answered)
	o.sum = nil
}
