package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/mailbox"
	"fedpace/bus/internal/subject"
	"fedpace/internal/names"
)

// withDefaults checks a configuration and fills in what is not set.
func withDefaults(c *bus.CoordinatorConfig) error {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.AckWait == 0 {
		c.AckWait = 30 * time.Second
	}
	if c.MaxDeliver == 0 {
		c.MaxDeliver = 5
	}
	if c.PlanPatience == 0 {
		c.PlanPatience = 10 * time.Second
	}
	switch {
	case c.PlanPatience < 0:
		return fmt.Errorf("bus: a patience of %v with plans", c.PlanPatience)
	case c.Replicas < 1 || c.Replicas > 5:
		return fmt.Errorf("bus: %d replicas of a stream, want 1 to 5", c.Replicas)
	case c.AckWait < 0:
		return fmt.Errorf("bus: an ack wait of %v", c.AckWait)
	case c.MaxDeliver < 1:
		return fmt.Errorf("bus: at most %d deliveries of a job, want at least 1", c.MaxDeliver)
	}
	if c.Kernel != "" {
		return names.CheckToken("kernel", c.Kernel)
	}
	return nil
}

// Coordinator is a [bus.Coordinator].
type Coordinator struct {
	run    string
	config bus.CoordinatorConfig
	conn   *Conn
	store  *Store // the connection's, or one of its own

	sending sync.Mutex // guards the buffers of SendTask
	subject subject.Clients
	buffer  []byte

	memory []bus.Plan // for the next plans; of the subscription's goroutine
	plans  *mailbox.Mailbox[bus.ClientPlan]

	queue *workQueue
	sums  *sumCollector
	hosts *hostRegistry // nil: nobody asks

	ignored atomic.Int64
	subs    []*nats.Subscription
	unwatch func()
	stop    context.CancelFunc
	watched sync.WaitGroup
	closing sync.Once
}

// OpenCoordinator makes the run's streams, emptying what an earlier life of the
// run left in them, and subscribes to plans and sums. Its context bounds the
// opening alone.
func OpenCoordinator(ctx context.Context, conn *Conn, run string, config bus.CoordinatorConfig) (*Coordinator, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if err := withDefaults(&config); err != nil {
		return nil, err
	}
	c := &Coordinator{
		run: run, config: config, conn: conn, store: conn.store,
		subject: subject.ClientsOf(run), plans: mailbox.New[bus.ClientPlan](PendingMessages),
	}
	if c.store == nil {
		c.store = NewStore()
	}
	if config.Info != nil {
		var err error
		if c.hosts, err = newHostRegistry(conn, run, &config); err != nil {
			return nil, err
		}
	}
	c.sums = newSumCollector(conn.store)
	c.queue = newWorkQueue(conn, run, config, c.store)
	c.queue.wanted = c.sums.open
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Coordinator) open(ctx context.Context) error {
	if err := c.ensureSingle(ctx); err != nil {
		return err
	}
	if err := c.queue.open(ctx); err != nil {
		return err
	}
	for subject, handler := range map[string]nats.MsgHandler{
		subject.AnyClient(c.run, subject.Plan): c.onPlan,
		subject.Sums(c.run):                    c.sums.onSum,
		c.queue.exhaustedSubject():             c.onExhausted,
		c.queue.terminatedSubject():            c.onTerminated,
	} {
		s, err := c.conn.subscribe(subject, "", handler)
		if err != nil {
			return err
		}
		c.subs = append(c.subs, s)
	}
	if c.hosts != nil {
		s, err := c.conn.subscribe(subject.Info(c.run), "", c.onInfo)
		if err != nil {
			return err
		}
		c.subs = append(c.subs, s)
	}
	c.unwatch = c.conn.Watch(c.failed, c.interrupted)
	watching, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.watched.Go(func() { c.queue.watch(watching, c) })
	c.watched.Go(func() { c.watchPlans(watching) })
	if c.hosts != nil {
		c.watched.Go(func() { c.hosts.announce(watching) })
	}
	return c.conn.Settled(ctx)
}

// ensureSingle makes sure that no other coordinator drives a run of this name on
// the server: the two would empty each other's streams. One that has just died may
// still be subscribed, and does not answer.
func (c *Coordinator) ensureSingle(ctx context.Context) error {
	err := c.conn.Retry(ctx, Retry{For: openPatience, Attempt: time.Second, Passes: attemptOver}, func(ctx context.Context) error {
		_, err := c.conn.nats.RequestWithContext(ctx, subject.Sums(c.run), nil)
		return err
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil
	case err == nil:
		return fmt.Errorf("bus: run %s has a coordinator on this server already: let it end, or choose another name", c.run)
	}
	return fmt.Errorf("bus: is run %s free: %w", c.run, err)
}

// Close also removes the run's streams and models.
func (c *Coordinator) Close(ctx context.Context) (err error) {
	c.closing.Do(func() { err = c.close(ctx) })
	return err
}

func (c *Coordinator) close(ctx context.Context) error {
	if c.unwatch != nil {
		c.unwatch()
	}
	if c.stop != nil {
		c.stop()
		c.watched.Wait()
	}
	for _, s := range c.subs {
		_ = s.Unsubscribe() // fails only on a closed connection, which has none
	}
	c.subs = nil
	closed := fmt.Errorf("bus: run %s: the coordinator is closed", c.run)
	c.plans.Fail(closed)
	c.sums.mailbox.Fail(closed)
	return c.queue.close(ctx)
}

// failed and interrupted are the connection's and the work queue's news.
func (c *Coordinator) failed(err error) {
	c.plans.Fail(err)
	c.sums.mailbox.Fail(err)
}

func (c *Coordinator) interrupted(err error) { c.queue.look(err) }

// lost tells the driver that messages may be lost, once the streams are there.
func (c *Coordinator) lost(err error) {
	c.plans.Signal(err)
	c.sums.mailbox.Signal(err)
}

// watchPlans tells the driver when it waits for plans in vain. Nothing else
// would: a task that no host gets leaves no trace on the bus.
func (c *Coordinator) watchPlans(ctx context.Context) {
	tick := time.NewTicker(c.config.PlanPatience)
	defer tick.Stop()
	last := int64(-1) // takes done when a wait was last seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch takes := c.plans.Takes(); {
		case c.plans.Waiting() == 0:
			last = -1
		case takes != last:
			last = takes
		default:
			c.plans.Signal(fmt.Errorf("bus: run %s: no plan for %v, although one is waited for: %w", c.run, c.config.PlanPatience, bus.ErrInterrupted))
			last = -1
		}
	}
}

// Ignored counts messages that were not taken: from ids that are no simulated
// client, and sums that were refused or repeated.
func (c *Coordinator) Ignored() int64 { return c.ignored.Load() + c.sums.ignored.Load() }

// onInfo runs on the subscription of those who ask for the configuration.
func (c *Coordinator) onInfo(m *nats.Msg) {
	if joined := c.hosts.onRequest(m); joined != "" && c.plans.Waiting() > 0 {
		c.plans.Signal(fmt.Errorf("bus: run %s: host %s has joined: %w", c.run, joined, bus.ErrInterrupted))
	}
}

// Hosts counts those that have been heard of in the last seconds.
func (c *Coordinator) Hosts() (hosts, workers int) {
	if c.hosts == nil {
		return 0, 0
	}
	return c.hosts.present()
}

// SendTask publishes a task; the message leaves with those that follow it closely.
func (c *Coordinator) SendTask(client int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if client < 0 || client > bus.MaxClients {
		return fmt.Errorf("bus: client %d, want 0 to %d", client, bus.MaxClients)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.hosts != nil {
		t.Stamp = c.hosts.info.Stamp
	}
	var err error
	if c.buffer, err = bus.Marshal(c.buffer[:0], t); err != nil {
		return err
	}
	// Over a connection that is away it is sent again when that is back.
	if err := c.conn.nats.Publish(c.subject.Of(client, subject.Task), c.buffer); err != nil && !retriable(err) {
		return fmt.Errorf("bus: task %d to client %d: %w", t.Task, client, err)
	}
	return nil
}

// Flush waits for nothing: tasks leave by themselves, in one write for those that
// follow each other closely (measured: one for a cohort of ten).
func (c *Coordinator) Flush() error { return c.plans.Failure() }

// onPlan runs on the plans' subscription.
func (c *Coordinator) onPlan(m *nats.Msg) {
	client, ok := c.subject.Client(m.Subject, subject.Plan)
	if !ok || Relayed(m) {
		c.ignored.Add(1)
		return
	}
	if len(c.memory) == 0 {
		c.memory = make([]bus.Plan, 128) // one allocation for many plans
	}
	plan := &c.memory[0]
	c.memory = c.memory[1:]
	if err := bus.Unmarshal(m.Data, plan); err != nil {
		// Plans come from hosts, never from devices: a bad one is a broken host,
		// and the clock would stand for ever without it.
		c.failed(fmt.Errorf("%w (from simulated client %d)", err, client))
		return
	}
	c.plans.Put(bus.ClientPlan{Client: client, Plan: plan})
}

// TakePlans fails with the cause: a slow consumer's drop, a lost connection, a plan
// that is not valid. When no plan comes for CoordinatorConfig.PlanPatience, its
// error wraps [bus.ErrInterrupted].
func (c *Coordinator) TakePlans(ctx context.Context, buf []bus.ClientPlan) ([]bus.ClientPlan, error) {
	return c.plans.Take(ctx, buf)
}

// PutModel shares the slice with the hosts of this process; others and devices get
// the model in chunks (CoordinatorConfig.PublishModels).
func (c *Coordinator) PutModel(ctx context.Context, digest bus.Digest, params []float32) error {
	if digest.IsZero() || len(params) == 0 || len(params) > bus.MaxParams {
		return fmt.Errorf("bus: model %s of %d parameters, want 1 to %d", digest, len(params), bus.MaxParams)
	}
	return c.queue.putModel(ctx, digest, params)
}

// PutModelsAgain publishes all available models once more.
func (c *Coordinator) PutModelsAgain(ctx context.Context) error {
	return c.queue.republishAll(ctx)
}

// DeleteModel forgets a model here and on the server.
func (c *Coordinator) DeleteModel(ctx context.Context, digest bus.Digest) error {
	return c.queue.deleteModel(ctx, digest)
}

// SendJob does not wait for the queue's acknowledgement: what goes wrong comes out
// of TakeSum.
func (c *Coordinator) SendJob(ctx context.Context, kernel string, j *bus.Job) error {
	j.Kernel = kernel
	if err := j.Validate(); err != nil {
		return err
	}
	c.sums.expect(j)
	return c.queue.send(ctx, j)
}

// TakeSum waits for the next sum.
func (c *Coordinator) TakeSum(ctx context.Context) (*bus.ReceivedSum, error) {
	return c.sums.take(ctx)
}

// onExhausted learns that a job was handed out for the last time.
func (c *Coordinator) onExhausted(m *nats.Msg) {
	j, err := c.queue.exhausted(m.Data)
	switch {
	case err != nil:
		c.failed(err)
	case j != nil && c.sums.open(j.Job):
		c.failed(fmt.Errorf("bus: run %s: job %d (%s, round %d, kernel %s) was given out %d times and no trainer finished it",
			c.run, j.Job, j.Kind.Name(), j.Round, j.Kernel, c.config.MaxDeliver))
	}
}

// onTerminated learns that a trainer could not read a job.
func (c *Coordinator) onTerminated(m *nats.Msg) {
	c.failed(fmt.Errorf("bus: run %s: a trainer cannot read a job: %s", c.run, terminationReason(m.Data)))
}
