package simbus

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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
	conn   *Conn
	server *server
	run    string
	config bus.CoordinatorConfig
	// term is the term of the lease; later leases have higher terms. The server's lock guards it.
	term int64
	// placement is the placement of the coordinator's tasks.
	placement uint64

	// life ends when the coordinator is closed or has failed.
	life context.Context
	end  context.CancelCauseFunc
	// work waits for the goroutine that shows that the coordinator is present.
	work sync.WaitGroup

	// plans are those that have arrived and were not taken.
	plans *mailbox.Mailbox[bus.ClientPlan]
	// late is the timer that runs while plans are waited for.
	planTimer *time.Timer

	// mu guards what follows. models are those that were put, jobs the open ones by their numbers, sums those that
	// wait for a decision, and hosts what the bus has last said of the hosts.
	mu     sync.Mutex
	models map[bus.Digest][]float32
	jobs   map[uint64]*openJob
	sums   *mailbox.Mailbox[*bus.ReceivedSum]
	hosts  status

	// ignored is the number of messages that had no effect on the run, such as repeated or refused sums.
	ignored atomic.Int64
}

// openCoordinator opens a run on the bus of conn: it makes the coordinator, waits for the lease,
// and then watches whether the bus still knows the run. Zero times of config get their defaults.
func openCoordinator(ctx context.Context, conn *Conn, run string, config bus.CoordinatorConfig) (*Coordinator, error) {
	config.AckWait = cmp.Or(config.AckWait, 30*time.Second)
	config.PlanPatience = cmp.Or(config.PlanPatience, 10*time.Second)
	c := &Coordinator{
		conn: conn, server: conn.bus.server(run), run: run, config: config, placement: bus.FirstNumber(),
		plans: mailbox.New[bus.ClientPlan](maxPlans), sums: mailbox.New[*bus.ReceivedSum](maxSums),
		models: map[bus.Digest][]float32{}, jobs: map[uint64]*openJob{},
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	// The timer is stopped as soon as it is made. It runs, for PlanPatience, only while a plan is waited for.
	const neverReached = time.Hour
	c.planTimer = time.AfterFunc(neverReached, func() {
		c.plans.Signal(fmt.Errorf("bus: run %s: no plan for %v, although one is waited "+
			"for: %w", run, config.PlanPatience, bus.ErrInterrupted))
	})
	c.planTimer.Stop()
	// Only a run with Info admits hosts of other processes.
	if config.Info != nil {
		config.Info.Run = run
		if err := config.Info.Seal(); err != nil {
			return nil, err
		}
	}
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	if config.Info != nil {
		c.work.Go(c.keepLease)
	}
	return c, nil
}

// acquire gets the lease on the run. If another coordinator holds it, acquire waits until it would end, and asks again.
// It returns an error if the holder has renewed the lease meanwhile, so that it is alive.
func (c *Coordinator) acquire(ctx context.Context) error {
	// renewals is how often the other coordinator had renewed the lease at the first question, 0 before that.
	renewals := uint64(0)
	for {
		// A question may be repeated and arrive late, so it carries the value that it was asked with.
		renewalsBefore := renewals
		reply, err := ask(ctx, c.conn, "open", askEvery, func(answer func(acquired)) {
			answer(c.server.acquire(c, renewalsBefore))
		})
		err = cmp.Or(err, reply.err)
		// Without a renewal the lease was free, and is this coordinator's now.
		if err != nil || reply.renewals == 0 {
			return err
		}
		renewals = reply.renewals
		select {
		case <-time.After(reply.wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepLease renews the coordinator's lease from time to time, and learns what the bus knows of the run, until the
// coordinator is closed.
func (c *Coordinator) keepLease() {
	for range bus.Ticks(c.life, leaseFor/3) {
		c.mu.Lock()
		jobs := slices.Sorted(maps.Keys(c.jobs))
		models := c.digests()
		c.mu.Unlock()
		c.conn.send("look", func() {
			r := c.server.renewAndCheck(c, jobs, models)
			c.conn.receive("answer to look", func() { c.onStatus(r) })
		})
	}
}

// onStatus handles r, the bus's answer to a renewal of the lease. If another coordinator has the lease, this one
// fails. If the bus has lost jobs or models, the models are put again, and the driver of the run gets an error by
// which it sends the rest again.
func (c *Coordinator) onStatus(r status) {
	if r.lost {
		c.failed(fmt.Errorf("bus: run %s: another coordinator has taken the run over", c.run))
		return
	}
	c.mu.Lock()
	c.hosts = r
	models := maps.Clone(c.models)
	order := c.digests()
	c.mu.Unlock()
	if !r.missing {
		return
	}
	for _, d := range order {
		c.conn.send("model again", func() { c.server.putModel(c, d, models[d]) })
	}
	err := fmt.Errorf("bus: what run %s has on the bus was gone: %w", c.run, bus.ErrInterrupted)
	c.plans.Signal(err)
	c.sums.Signal(err)
}

// failed ends the run with an error.
func (c *Coordinator) failed(err error) {
	c.plans.Fail(err)
	c.sums.Fail(err)
	c.end(err)
}

// Close gives up the lease, has the bus forget the run, and waits for the coordinator's goroutines.
// Calls under way return an error. Close itself never fails.
func (c *Coordinator) Close(context.Context) error {
	c.conn.send("close", func() { c.server.close(c) })
	c.failed(fmt.Errorf("bus: run %s: the coordinator is closed", c.run))
	c.planTimer.Stop()
	c.work.Wait()
	return nil
}

// Life implements [bus.Coordinator]: the context ends when the coordinator is closed or has failed.
func (c *Coordinator) Life() context.Context { return c.life }

// Pending implements [bus.Coordinator]: it returns the number of plans and sums that were not taken yet.
func (c *Coordinator) Pending() int { return c.plans.Pending() + c.sums.Pending() }

// Ignored implements [bus.Coordinator]: it returns the number of messages that did not count.
func (c *Coordinator) Ignored() int64 { return c.ignored.Load() }

// Hosts implements [bus.Coordinator]: it returns the number of hosts that are present, and of their
// workers, by the newest answer of the bus.
func (c *Coordinator) Hosts() (hosts, workers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts.hosts, c.hosts.workers
}

// TakePlans implements [bus.Coordinator]: it waits for plans and returns all that have arrived. The error
// wraps [bus.ErrInterrupted] if no plan arrives for CoordinatorConfig.PlanPatience, since nothing else
// shows that no host got a task.
func (c *Coordinator) TakePlans(ctx context.Context, buf []bus.ClientPlan) ([]bus.ClientPlan, error) {
	c.planTimer.Reset(c.config.PlanPatience)
	defer c.planTimer.Stop()
	return c.plans.Take(ctx, buf)
}

// PutModel makes a model available to hosts under its digest, and waits until the bus has it. It
// shares the slice params, whose values must not change any more.
func (c *Coordinator) PutModel(ctx context.Context, digest bus.Digest, params []float32) error {
	if digest.IsZero() || len(params) == 0 || len(params) > bus.MaxParams {
		return fmt.Errorf("bus: model %s of %d parameters, want 1 to %d", digest, len(params), bus.MaxParams)
	}
	c.mu.Lock()
	c.models[digest] = params
	c.mu.Unlock()
	ctx, cancel := bus.Until(ctx, c.life)
	defer cancel()
	_, err := ask(ctx, c.conn, "model", askEvery, func(answer func(struct{})) {
		c.server.putModel(c, digest, params)
		answer(struct{}{})
	})
	return err
}

// PutModelsAgain puts all models of the run that were not deleted once more, in a fixed order,
// because the bus may have lost them.
func (c *Coordinator) PutModelsAgain(ctx context.Context) error {
	c.mu.Lock()
	models := maps.Clone(c.models)
	order := c.digests()
	c.mu.Unlock()
	for _, d := range order {
		if err := c.PutModel(ctx, d, models[d]); err != nil {
			return err
		}
	}
	return nil
}

// digests returns the digests of the models that are available, in order. The caller holds the lock.
func (c *Coordinator) digests() []bus.Digest {
	return slices.SortedFunc(maps.Keys(c.models), func(a, b bus.Digest) int { return bytes.Compare(a[:], b[:]) })
}

// DeleteModel removes the model with this digest from the coordinator and from the bus. The message to the bus may be
// lost, and the model then stays there.
func (c *Coordinator) DeleteModel(_ context.Context, digest bus.Digest) error {
	c.mu.Lock()
	delete(c.models, digest)
	c.mu.Unlock()
	c.conn.send("delete", func() { c.server.deleteModel(c, digest) })
	return nil
}

// SendJob opens job j and sends it to the queue of the bus; a job that is there already is not queued
// again. It stays open until its sum is accepted.
func (c *Coordinator) SendJob(_ context.Context, j *bus.Job) error {
	if err := j.Validate(); err != nil {
		return err
	}
	if j.Kernel != c.config.Kernel {
		return bus.Fault("job", "kernel", j.Kernel, fmt.Sprintf("the run's, %q", c.config.Kernel))
	}
	c.mu.Lock()
	if c.jobs[j.Job] == nil {
		c.jobs[j.Job] = &openJob{job: j}
	}
	c.mu.Unlock()
	c.conn.send("job", func() { c.server.put(c, j) })
	return nil
}

// TakeSum implements [bus.Coordinator]: it waits for the next sum of an open job.
func (c *Coordinator) TakeSum(ctx context.Context) (*bus.ReceivedSum, error) {
	return c.sums.TakeOne(ctx)
}

// openJob is a job whose sum has not been accepted.
type openJob struct {
	job *bus.Job
	// awaitsDecision says that the coordinator has a sum of the job and has not decided on it.
	awaitsDecision bool
	// repeats are the answers to repeats of that sum, given when it is answered.
	repeats []answer
}

// answer sends a trainer the decision about its sum.
type answer func(status bus.Status, reason string)

// maxWaiting is how many repeats of a sum may wait for its answer.
const maxWaiting = 16

// receiveSum takes the sum r from a trainer; to sends the trainer the decision. The sum of each job counts
// once: a repeat waits for the decision about the first, and hears that it is a repeat if that was
// accepted. Beyond maxWaiting, repeats are refused at once.
func (c *Coordinator) receiveSum(r *bus.Result, to answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.jobs[r.Job]
	if o == nil {
		c.reply(to, bus.Repeated, "the job is not open")
		return
	}
	if err := cmp.Or(r.Validate(), r.ValidateFor(o.job)); err != nil {
		c.reply(to, bus.Refused, err.Error())
		return
	}
	// A sum of the job waits for the coordinator's decision already.
	if o.awaitsDecision {
		if len(o.repeats) >= maxWaiting {
			c.reply(to, bus.Refused, fmt.Sprintf("%d repeats wait already", maxWaiting))
			return
		}
		o.repeats = append(o.repeats, to)
		return
	}
	o.awaitsDecision = true
	var once sync.Once
	c.sums.Put(&bus.ReceivedSum{
		Result: r,
		Accept: func() { once.Do(func() { c.settle(o, to, bus.Accepted, "") }) },
		Reject: func(reason string) { once.Do(func() { c.settle(o, to, bus.Refused, reason) }) },
	})
}

// settle sends the trainer of a sum, by to, the decision about the sum: its status, and the reason of a refusal. The
// trainers whose repeats wait get the same answer, but hear that a sum which was accepted is a repeat. The job o is
// closed if its sum is accepted, and else stays open for another one.
func (c *Coordinator) settle(o *openJob, to answer, status bus.Status, reason string) {
	c.mu.Lock()
	repeats := o.repeats
	statusOfRepeats := status
	o.awaitsDecision = false
	o.repeats = nil
	if status == bus.Accepted {
		statusOfRepeats = bus.Repeated
		delete(c.jobs, o.job.Job)
	}
	c.mu.Unlock()
	c.reply(to, status, reason)
	for _, toRepeat := range repeats {
		c.reply(toRepeat, statusOfRepeats, reason)
	}
}

// reply sends a trainer the decision about its sum, by to. A sum that is not accepted has no part in the model and
// adds one to ignored.
func (c *Coordinator) reply(to answer, s bus.Status, reason string) {
	if s != bus.Accepted {
		c.ignored.Add(1)
	}
	c.conn.send("answer to sum", func() { to(s, reason) })
}
