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
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
	"fedpace/internal/mailbox"
	"fedpace/internal/names"
)

// Coordinator is a [bus.Coordinator].
type Coordinator struct {
	run    string
	config bus.CoordinatorConfig
	conn   *Conn
	js     jetstream.JetStream
	lease  *lease

	life context.Context // ends when the coordinator is closed or has failed
	end  context.CancelCauseFunc

	sending sync.Mutex // guards the buffers of SendTask
	subject subject.Clients
	buffer  []byte
	begun   bool // tasks have been sent since plans were waited for

	plans   *mailbox.Mailbox[bus.ClientPlan]
	arrived []bus.ClientPlan // those of one message
	wait    planWait

	sums  *sumCollector
	hosts *hostRegistry // nil: nobody asks

	checkRequests chan error // why the streams are to be looked at; one at a time is enough

	deleting sync.Mutex
	unwanted []bus.Digest // models to be deleted on the server

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
	if limit := c.NATS().MaxPayload(); limit < leastPayload {
		return nil, fmt.Errorf(
			"bus: the server at %s takes messages of %d bytes, a run needs %d: raise its max_payload",
			c.Address(),
			limit,
			leastPayload,
		)
	}
	config.Lease = cmp.Or(config.Lease, leaseFor)
	config.Replicas = cmp.Or(config.Replicas, 1)
	config.AckWait = cmp.Or(config.AckWait, 30*time.Second)
	config.PlanPatience = cmp.Or(config.PlanPatience, 10*time.Second)
	config.MaxDeliver = cmp.Or(config.MaxDeliver, 5)
	o := &Coordinator{
		run:           run,
		config:        config,
		conn:          c,
		sums:          newSumCollector(c.store),
		subject:       subject.ClientSubjects(run),
		plans:         mailbox.New[bus.ClientPlan](natsconn.PendingMessages),
		checkRequests: make(chan error, 1),
		unwatch:       func() {},
		stop:          func() {},
	}
	o.life, o.end = context.WithCancelCause(context.Background())
	o.wait.timer = time.AfterFunc(time.Hour, o.onNoPlan)
	o.wait.timer.Stop()
	var err error
	o.js, err = jetstream.New(c.NATS(),
		jetstream.WithDefaultTimeout(natsconn.RequestTimeout), jetstream.WithPublishAsyncMaxPending(pendingJobs),
		jetstream.WithPublishAsyncTimeout(natsconn.RequestTimeout),
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
	if o.lease, err = c.acquireLease(ctx, o.js, run, &o.config); err != nil {
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
	c.watched.Go(func() { c.lease.renewUntil(watching, c.failed, c.look) })
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
		s, err := c.conn.Listen(subject, "", handler)
		if err != nil {
			return err
		}
		c.subs = append(c.subs, s)
	}
	c.unwatch = c.conn.Watch(c.failed, c.look)
	c.watched.Go(func() { c.watchStreams(watching) })
	if c.hosts != nil {
		c.watched.Go(func() { c.hosts.announce(watching) })
		c.watched.Go(func() { c.backUpJobs(watching) })
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
			err = c.hosts.announceEnd(ctx)
		}
		err = errors.Join(err, c.removeStreams(ctx))
	})
	return err
}

// failed ends the run with an error.
func (c *Coordinator) failed(err error) {
	c.plans.Fail(err)
	c.sums.mailbox.Fail(err)
	c.end(err)
}

func (c *Coordinator) Life() context.Context { return c.life }

// signalLoss tells the driver that messages may be lost, once the streams are there.
func (c *Coordinator) signalLoss(err error) {
	if c.hosts != nil {
		c.hosts.placement.Reset()
	}
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

// Ignored counts messages that were not taken: from ids that are no simulated
// client, and sums that were refused or repeated.
func (c *Coordinator) Ignored() int64 { return c.ignored.Load() + c.sums.ignored.Load() }

// onInfo runs on the subscription of those who ask for the configuration. Tasks
// that were sent before any host was there are sent again to the first.
func (c *Coordinator) onInfo(m *nats.Msg) {
	joined, first := c.hosts.onRequest(m)
	if joined == "" || c.plans.Waiting() == 0 {
		return
	}
	if first {
		c.plans.Signal(fmt.Errorf("bus: run %s: host %s has joined: %w", c.run, joined, bus.ErrInterrupted))
		return
	}
	c.wait.timer.Reset(stallAfter)
}

func (c *Coordinator) Hosts() (hosts, workers int) {
	if c.hosts == nil {
		return 0, 0
	}
	return c.hosts.present()
}
