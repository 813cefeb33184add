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

// Coordinator is the coordinator's end of a run over NATS: a [bus.Coordinator].
type Coordinator struct {
	// run is the name of the run.
	run string
	// config is what OpenCoordinator was given, with its defaults filled in.
	config bus.CoordinatorConfig
	conn   *Conn
	js     jetstream.JetStream
	// lease is the right to drive the run, which this coordinator renews.
	lease *lease

	// life ends when the coordinator is closed or has failed; its cause says why.
	life context.Context
	end  context.CancelCauseFunc

	// sending guards the three fields that SendTask uses.
	sending sync.Mutex
	// subject makes the subjects of the clients' tasks.
	subject subject.Clients
	// unsent are the messages with tasks that are not sent yet, one for each host.
	unsent []taskMessage
	// batchBegun says that tasks have been sent since TakePlans was called last.
	batchBegun bool

	// plans holds the plans that TakePlans has not returned yet.
	plans *mailbox.Mailbox[bus.ClientPlan]
	// arrivedPlans are the plans of one message. Only the subscription to plans uses the field.
	arrivedPlans []bus.ClientPlan
	// wait is the state of the present wait for plans.
	wait planWait

	// sums receives the sums of jobs, and knows the open jobs.
	sums *sumCollector
	// hosts registers the hosts that are present; nil if the run admits only hosts in this process.
	hosts *hostRegistry
	// calls are the messages of an app that hosts serve.
	calls callTable
	// leaderless watches the run's streams.
	leaderless *leaderlessWatch
	// streamsChanged is when the streams were last made again or given more copies, or when that was last tried; zero
	// before. Only openStreams and watchStreams use it.
	streamsChanged time.Time

	// checkRequests receives why the streams are to be checked. It holds one request, which is
	// enough.
	checkRequests chan error

	// deleting guards unwanted.
	deleting sync.Mutex
	// unwanted are models that are still to be deleted on the server.
	unwanted []bus.Digest

	// ignored counts plans that did not count.
	ignored atomic.Int64
	// subs are the subscriptions to plans, sums and advisories.
	subs    []*nats.Subscription
	unwatch func()
	// stop ends the goroutines that watched waits for.
	stop    context.CancelFunc
	watched sync.WaitGroup
	closing sync.Once
}

// minPayload is the smallest max_payload of a server, in bytes, with which a run works.
const minPayload = 16 << 10

// fieldBytes bounds the fields of a message beside the part of a large content that it carries, in bytes.
const fieldBytes = 1024

// partBytes returns how many bytes of a large content fit into one message, beside the message's other fields. If the
// server's limit has become too low, the server refuses the parts, which is an error.
func (c *Conn) partBytes() int {
	limit := max(int(c.NATS().MaxPayload()), minPayload)
	return min(bus.ChunkBytes, limit-fieldBytes)
}

// checkPayload returns an error that says what to do if tasks and jobs would not fit the server's messages.
func (c *Conn) checkPayload() error {
	limit := c.NATS().MaxPayload()
	if limit >= minPayload {
		return nil
	}
	return fmt.Errorf("bus: the server at %s takes messages of %d bytes, a run needs %d: raise its max_payload",
		c.Address(), limit, minPayload)
}

// OpenCoordinator acquires the run's lease, makes the run's streams, empties those that an earlier
// attempt left, and subscribes to plans and sums. ctx bounds the opening alone.
func (c *Conn) OpenCoordinator(ctx context.Context, run string, config bus.CoordinatorConfig) (bus.Coordinator, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if config.Kernel != "" {
		if err := names.CheckToken("kernel", config.Kernel); err != nil {
			return nil, err
		}
	}
	if err := c.checkPayload(); err != nil {
		return nil, err
	}
	if config.Replicas == 0 {
		config.Replicas = c.defaultCopies()
	}
	coordinator, err := c.newCoordinator(run, withDefaults(config))
	if err != nil {
		return nil, err
	}
	// Nothing of the run may be changed on the server before the lease is held.
	coordinator.lease, err = c.acquireLease(ctx, coordinator.js, coordinator.leaderless, run, &coordinator.config)
	if err != nil {
		return nil, err
	}
	coordinator.sums.hearFence = coordinator.lease.fence.hear
	if err := coordinator.open(ctx); err != nil {
		return nil, errors.Join(err, coordinator.Close(context.WithoutCancel(ctx)))
	}
	coordinator.leaderless.cluster.noteOpened()
	return coordinator, nil
}

// withDefaults returns config with the defaults in place of zero values: how long a lease lasts,
// how long a trainer may be silent about a job, how long no plan may arrive, and how often a job is
// given out.
func withDefaults(config bus.CoordinatorConfig) bus.CoordinatorConfig {
	config.Lease = cmp.Or(config.Lease, defaultLease)

	config.AckWait = cmp.Or(config.AckWait, 30*time.Second)
	config.PlanPatience = cmp.Or(config.PlanPatience, 10*time.Second)
	config.MaxDeliver = cmp.Or(config.MaxDeliver, 5)
	return config
}

// newCoordinator makes a coordinator of run without lease, streams and subscriptions, which
// Conn.OpenCoordinator adds. config has its defaults filled in.
func (c *Conn) newCoordinator(run string, config bus.CoordinatorConfig) (*Coordinator, error) {
	coordinator := &Coordinator{
		run:           run,
		config:        config,
		conn:          c,
		sums:          newSumCollector(c.store),
		subject:       subject.ClientSubjects(run),
		plans:         mailbox.New[bus.ClientPlan](natsconn.PendingMessages),
		checkRequests: make(chan error, 1),
		calls:         callTable{last: bus.FirstNumber(), open: map[uint64]*openCall{}},
		unwatch:       func() {},
		stop:          func() {},
	}
	coordinator.life, coordinator.end = context.WithCancelCause(context.Background())
	// The hour never passes, because the timer is stopped at once.
	coordinator.wait.timer = time.AfterFunc(time.Hour, coordinator.onNoPlan)
	// TakePlans starts the timer.
	coordinator.wait.timer.Stop()
	var err error
	coordinator.js, err = jetstream.New(c.NATS(),
		jetstream.WithDefaultTimeout(natsconn.RequestTimeout),
		jetstream.WithPublishAsyncMaxPending(pendingJobs),
		jetstream.WithPublishAsyncTimeout(natsconn.RequestTimeout),
		// A job that the queue did not take is found by a check of the streams.
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			coordinator.requestCheck(fmt.Errorf("bus: a job on %s was not taken: %w", m.Subject, err))
		}))
	if err != nil {
		return nil, fmt.Errorf("bus: JetStream: %w", err)
	}
	coordinator.leaderless = newLeaderlessWatch(c, coordinator.js)
	// A run without Info admits no hosts of other processes.
	if config.Info != nil {
		coordinator.hosts, err = newHostRegistry(c, run, &coordinator.config)
		if err != nil {
			return nil, err
		}
	}
	return coordinator, nil
}

// open starts the work of a coordinator that holds the lease: it renews the lease, makes the
// streams, subscribes, and watches the streams and, where hosts are in other processes, their jobs.
// It returns when the server has taken the subscriptions.
func (c *Coordinator) open(ctx context.Context) error {
	watching, stop := context.WithCancel(context.Background())
	c.stop = stop
	// The lease must be renewed while the streams are made, which may take long.
	c.watched.Go(func() { c.lease.renewUntil(watching, c.failed, c.requestCheck) })
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
		handlers[subject.AnyClient(c.run, subject.Fetch)] = c.onFetch
		handlers[subject.AnyClient(c.run, subject.Reply)] = c.onReply
	}
	for subject, handler := range handlers {
		s, err := c.conn.Listen(subject, "", handler)
		if err != nil {
			return err
		}
		c.subs = append(c.subs, s)
	}
	c.unwatch = c.conn.Watch(c.failed, func(interrupted error) {
		// The server may have been started again with another limit.
		if err := c.conn.checkPayload(); err != nil {
			c.failed(err)
			return
		}
		c.requestCheck(interrupted)
	})
	c.watched.Go(func() { c.watchStreams(watching) })
	if c.hosts != nil {
		c.watched.Go(func() { c.hosts.announce(watching) })
		c.watched.Go(func() { c.backUpJobs(watching) })
	}
	return c.conn.Settled(ctx)
}

// Close ends the run: it announces the end to the hosts, and removes the streams, the models and the
// lease from the server. TakePlans and TakeSum fail from then on. A second Close does nothing.
func (c *Coordinator) Close(ctx context.Context) (err error) {
	c.closing.Do(func() {
		c.unwatch()
		c.stop()
		c.watched.Wait()
		for _, s := range c.subs {
			// Unsubscribing fails only on a closed connection, which has no subscriptions.
			_ = s.Unsubscribe()
		}
		c.failed(fmt.Errorf("bus: run %s: the coordinator is closed", c.run))
		// Without the lease the run may be another coordinator's by now, which still needs the hosts.
		if c.hosts != nil && c.lease.checkHeld() == nil {
			err = c.hosts.announceEnd(ctx)
		}
		err = errors.Join(err, c.removeStreams(ctx))
	})
	return err
}

// failed ends the run with an error, which TakePlans and TakeSum return from now on. Only the first
// error counts.
func (c *Coordinator) failed(err error) {
	c.plans.Fail(err)
	c.sums.mailbox.Fail(err)
	c.end(err)
}

// Fence returns the fencing token of the coordinator's lease.
func (c *Coordinator) Fence() uint64 { return c.lease.fence.token.Load() }

// Life returns a context that ends when the run cannot be driven any more; its cause is the reason.
func (c *Coordinator) Life() context.Context { return c.life }

// signalLoss has TakePlans and TakeSum each return err once, which means that messages may be lost
// and have to be sent again. It is called when the streams are in order again, so that repeats
// arrive.
func (c *Coordinator) signalLoss(err error) {
	// The tasks that hosts have not answered may be lost, so none of them counts as slow.
	if c.hosts != nil {
		c.hosts.placement.Reset()
	}
	c.plans.Signal(err)
	c.sums.mailbox.Signal(err)
}

// Pending returns the number of messages that have arrived and were not taken, in the mailboxes and
// in the subscriptions.
func (c *Coordinator) Pending() int {
	n := c.plans.Pending() + c.sums.mailbox.Pending()
	for _, s := range c.subs {
		// Pending fails for a subscription that has ended, in which nothing waits.
		if messages, _, err := s.Pending(); err == nil {
			n += messages
		}
	}
	return n
}

// Ignored returns the number of messages that did not count: plans on subjects that are no
// simulated client's, misdirected messages, and sums that were refused or repeated.
func (c *Coordinator) Ignored() int64 { return c.ignored.Load() + c.sums.ignored.Load() }

// onInfo answers hosts that ask for the run's configuration, and takes their heartbeats, which are
// the same messages. When the first host joins during a wait for plans, the tasks that were sent
// before have reached no host, so TakePlans returns an error after which they are sent again. A
// further host that joins, or changes its workers, restarts the timer of the wait.
func (c *Coordinator) onInfo(m *nats.Msg) {
	joined, isFirst, seenFence := c.hosts.onRequest(m)
	c.lease.fence.hear(seenFence)
	waitingForPlans := c.plans.Waiting() > 0
	if joined == "" || !waitingForPlans {
		return
	}
	if isFirst {
		c.plans.Signal(fmt.Errorf("bus: run %s: host %s has joined: %w", c.run, joined, bus.ErrInterrupted))
		return
	}
	c.wait.timer.Reset(stallAfter)
}

// Hosts returns the number of hosts in other processes, and of their workers. Both are 0 where the
// run admits no such hosts.
func (c *Coordinator) Hosts() (hosts, workers int) {
	if c.hosts == nil {
		return 0, 0
	}
	return c.hosts.present()
}
