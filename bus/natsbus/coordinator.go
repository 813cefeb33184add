package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/mailbox"
	"fedpace/bus/internal/subject"
	"fedpace/internal/names"
)

// Coordinator is a [bus.Coordinator].
type Coordinator struct {
	run    string
	config bus.CoordinatorConfig
	conn   *Conn
	js     jetstream.JetStream
	lease  *lease

	sending sync.Mutex // guards the buffers of SendTask
	subject subject.Clients
	buffer  []byte

	memory []bus.Plan // for the next plans; of the subscription's goroutine
	plans  *mailbox.Mailbox[bus.ClientPlan]
	late   *time.Timer // runs while plans are waited for

	sums  *sumCollector
	hosts *hostRegistry // nil: nobody asks

	looking chan error // why the streams are to be looked at; one at a time is enough

	deleting sync.Mutex
	unwanted []bus.Digest // whose chunks are still to be deleted

	ignored atomic.Int64
	subs    []*nats.Subscription
	unwatch func()
	stop    context.CancelFunc
	watched sync.WaitGroup
	closing sync.Once
}

// leastPayload is the smallest max_payload of a server with which a run can do.
const leastPayload = 16 << 10

// OpenCoordinator takes the run's lease, makes the run's streams, emptying those that an earlier attempt
// left, and subscribes to plans and sums. Its context bounds the opening alone.
func (c *Conn) OpenCoordinator(ctx context.Context, run string, config bus.CoordinatorConfig) (bus.Coordinator, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if config.Kernel != "" {
		if err := names.CheckToken("kernel", config.Kernel); err != nil {
			return nil, err
		}
	}
	if limit := c.nats.MaxPayload(); limit < leastPayload {
		return nil, fmt.Errorf("bus: the server at %s takes messages of %d bytes, a run needs %d: raise its max_payload", c.at(), limit, leastPayload)
	}
	config.Lease = cmp.Or(config.Lease, leaseFor)
	config.Replicas = cmp.Or(config.Replicas, 1)
	config.AckWait = cmp.Or(config.AckWait, 30*time.Second)
	config.PlanPatience = cmp.Or(config.PlanPatience, 10*time.Second)
	o := &Coordinator{
		run: run, config: config, conn: c, sums: newSumCollector(c.config.Store),
		subject: subject.ClientsOf(run), plans: mailbox.New[bus.ClientPlan](PendingMessages),
		looking: make(chan error, 1), unwatch: func() {}, stop: func() {},
	}
	o.late = time.AfterFunc(time.Hour, func() {
		o.plans.Signal(fmt.Errorf("bus: run %s: no plan for %v, although one is waited for: %w", run, config.PlanPatience, bus.ErrInterrupted))
	})
	o.late.Stop()
	var err error
	o.js, err = jetstream.New(c.nats,
		jetstream.WithDefaultTimeout(RequestTimeout), jetstream.WithPublishAsyncMaxPending(pendingJobs),
		jetstream.WithPublishAsyncTimeout(RequestTimeout),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			o.look(fmt.Errorf("bus: a job on %s was not taken: %w", m.Subject, err))
		}))
	if err != nil {
		return nil, fmt.Errorf("bus: JetStream: %w", err)
	}
	if config.Info != nil {
		if o.hosts, err = newHostRegistry(c, run, &config); err != nil {
			return nil, err
		}
	}
	if o.lease, err = c.takeLease(ctx, o.js, run, &o.config); err != nil {
		return nil, err
	}
	if err := o.open(ctx); err != nil {
		return nil, errors.Join(err, o.Close(context.WithoutCancel(ctx)))
	}
	return o, nil
}

func (c *Coordinator) open(ctx context.Context) error {
	watching, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.watched.Go(func() { c.lease.keep(watching, c.failed, c.look) })
	if err := c.openStreams(ctx); err != nil {
		return err
	}
	handlers := map[string]nats.MsgHandler{
		subject.AnyClient(c.run, subject.Plan): c.onPlan,
		subject.Sums(c.run):                    c.sums.onSum,
		advisories("MAX_DELIVERIES", c.run):    c.onExhausted,
		advisories("MSG_TERMINATED", c.run):    c.onTerminated,
	}
	if c.hosts != nil {
		handlers[subject.Info(c.run)] = c.onInfo
	}
	for subject, handler := range handlers {
		s, err := c.conn.subscribe(subject, "", handler)
		if err != nil {
			return err
		}
		c.subs = append(c.subs, s)
	}
	c.unwatch = c.conn.Watch(c.failed, c.look)
	c.watched.Go(func() { c.watchStreams(watching) })
	if c.hosts != nil {
		c.watched.Go(func() { c.hosts.announce(watching) })
	}
	return c.conn.Settled(ctx)
}

// Close also removes the run's streams and models.
func (c *Coordinator) Close(ctx context.Context) (err error) {
	c.closing.Do(func() {
		c.unwatch()
		c.stop()
		c.watched.Wait()
		for _, s := range c.subs {
			_ = s.Unsubscribe() // fails only on a closed connection, which has none
		}
		c.failed(fmt.Errorf("bus: run %s: the coordinator is closed", c.run))
		if c.hosts != nil && c.lease.check() == nil {
			err = c.hosts.sayOver(ctx)
		}
		err = errors.Join(err, c.removeStreams(ctx))
	})
	return err
}

// failed ends the run with an error.
func (c *Coordinator) failed(err error) {
	c.plans.Fail(err)
	c.sums.mailbox.Fail(err)
}

// lost tells the driver that messages may be lost, once the streams are there.
func (c *Coordinator) lost(err error) {
	c.plans.Signal(err)
	c.sums.mailbox.Signal(err)
}

func (c *Coordinator) Pending() int {
	n := c.plans.Pending() + c.sums.mailbox.Pending()
	for _, s := range c.subs {
		if messages, _, err := s.Pending(); err == nil { // fails where it has ended: nothing waits
			n += messages
		}
	}
	return n
}

func (c *Coordinator) Dropped() (n int64) {
	for _, s := range c.subs {
		if dropped, err := s.Dropped(); err == nil {
			n += int64(dropped)
		}
	}
	return n
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
		t.Stamp = c.hosts.Info.Stamp
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
// error wraps [bus.ErrInterrupted]: a task that no host gets leaves no trace on the
// bus.
func (c *Coordinator) TakePlans(ctx context.Context, buf []bus.ClientPlan) ([]bus.ClientPlan, error) {
	c.late.Reset(c.config.PlanPatience)
	defer c.late.Stop()
	return c.plans.Take(ctx, buf)
}
