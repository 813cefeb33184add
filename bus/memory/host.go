package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/internal/names"
)

// postponement is how long a job waits that a host has given back to be done later.
const postponement = time.Second

// Host is a host's end of a run within one process: a [bus.Host].
type Host struct {
	run  *run
	name string

	// life ends when the host can no longer work. Its cause says why.
	life context.Context
	end  context.CancelCauseFunc
	// work waits for the goroutine that serves tasks.
	work sync.WaitGroup

	computePlan func(client int, t *bus.Task, p *bus.Plan) error
	batches     chan *batch
	// planning is held while computePlan is called.
	planning sync.Mutex
	plans    []bus.ClientPlan
}

// Err returns why the host can no longer work, nil while it can.
func (h *Host) Err() error { return context.Cause(h.life) }

// Done returns a channel that is closed when the host can no longer work.
func (h *Host) Done() <-chan struct{} { return h.life.Done() }

// Close ends the service of the host: it gets no further tasks, and Close waits for work under way.
// Deliveries that are held should be released first.
func (h *Host) Close() error {
	h.run.mu.Lock()
	h.run.hosts = slices.DeleteFunc(h.run.hosts, func(x *Host) bool { return x == h })
	h.run.mu.Unlock()
	h.end(fmt.Errorf("bus: run %s: host %s is closed", h.run.name, h.name))
	h.work.Wait()
	return nil
}

// ServeTasks begins to answer a share of the run's tasks with the plans that fn computes: the hosts get
// batches in turn. It returns at once.
func (h *Host) ServeTasks(_ context.Context, fn func(client int, t *bus.Task, p *bus.Plan) error) error {
	h.computePlan = fn
	h.batches = make(chan *batch, 32)
	h.work.Go(h.serve)
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	h.run.hosts = append(h.run.hosts, h)
	return nil
}

// Model returns the model with this digest. It is the coordinator's own slice, which must not be
// written to. Without such a model the error wraps [bus.ErrNoModel].
func (h *Host) Model(_ context.Context, digest bus.Digest) ([]float32, error) {
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	params := h.run.models[digest]
	if params == nil {
		return nil, fmt.Errorf("bus: model %s: %w", digest, bus.ErrNoModel)
	}
	return params, nil
}

// NextJob waits for a job of a kernel class and takes it from the queue. It returns an error when
// ctx ends or the host is closed.
func (h *Host) NextJob(ctx context.Context, kernel string) (bus.Delivery, error) {
	if err := names.CheckToken("kernel", kernel); err != nil {
		return nil, err
	}
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// The channel is closed when further jobs are queued.
		o, more := h.run.dequeue(kernel)
		if o != nil {
			return &delivery{h.run, o}, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
}

// SendSum gives the coordinator the result of a job and waits for its decision. The tensors are shared,
// not copied. A sum that is refused gives an error that wraps [bus.ErrRefused]. A repeat of another host's sum, and one
// of a job that is no longer open, give none. A job ends with its coordinator: then SendSum returns without an error,
// whether or not the sum was decided.
func (h *Host) SendSum(ctx context.Context, r *bus.Result) error {
	sent := &bus.Result{
		Sum:          proto.CloneOf(r.Sum),
		Values:       r.Values,
		ClientStates: r.ClientStates,
		Buffers:      r.Buffers,
	}
	sent.Trainer = h.name
	sent.Chunks = 1
	sent.Params = uint32(len(r.Values))
	if f := sent.Failure; f != nil {
		f.Kind = bus.Text(f.Kind)
		f.Text = bus.Text(f.Text)
	}
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	h.run.mu.Lock()
	coordinator := h.run.coordinator
	// The coordinator is gone, and the job with it.
	if coordinator == nil {
		h.run.mu.Unlock()
		return nil
	}
	// decision is nil if the job is not open. It is that about an earlier sum of the job if first is false.
	decision, first, err := coordinator.receiveSum(sent)
	h.run.mu.Unlock()
	if err == nil && decision != nil {
		select {
		case <-decision.answered:
			err = decision.refused
		case <-coordinator.life.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		err = fmt.Errorf("bus: sum of job %d: %w: %w", r.Job, bus.ErrRefused, err)
	}
	// A refused or repeated sum does not count.
	if err != nil || !first {
		coordinator.ignored.Add(1)
	}
	return err
}

// delivery is a job that a host has taken: a [bus.Delivery].
type delivery struct {
	run *run
	job *openJob
}

// Job returns the job that was delivered.
func (d *delivery) Job() *bus.Job { return d.job.job }

// Done has nothing to do: a job whose sum was accepted is closed.
func (d *delivery) Done(context.Context) error { return nil }

// Release gives the job back to the queue for another host, at once or, if later is true, after the time
// postponement. A job that has been closed by then does not get into the queue.
func (d *delivery) Release(later bool) error {
	if later {
		time.AfterFunc(postponement, d.requeue)
	} else {
		d.requeue()
	}
	return nil
}

// requeue puts the job into the queue again unless its sum was accepted meanwhile, which closes it.
func (d *delivery) requeue() {
	d.run.mu.Lock()
	defer d.run.mu.Unlock()
	if d.run.jobs[d.job.job.Job] == d.job {
		d.run.enqueue(d.job)
	}
}
