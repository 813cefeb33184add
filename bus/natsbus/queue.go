package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
)

// lookEvery is how often the streams are looked at while jobs are open.
const lookEvery = 2 * time.Second

const (
	maxDeliver  = 5       // trainers that may fail at a job before the run does
	maxWaiting  = 1 << 12 // trainers that wait for a job
	pendingJobs = 1 << 12 // jobs and chunks that the stream has not confirmed
)

// openStreams makes the run's streams: the jobs, as a work queue with the consumer
// of the run's kernel class, and the models' chunks.
func (c *Coordinator) openStreams(ctx context.Context) error {
	// A cluster that has just started, or lost a server, takes a while.
	err := c.conn.Retry(ctx, Retry{For: openPatience}, func(ctx context.Context) error {
		attempt, cancel := c.conn.attempt(ctx, RequestTimeout/3) // nobody answers before there is a leader
		defer cancel()
		if _, err := c.js.AccountInfo(attempt); err != nil {
			return fmt.Errorf("bus: JetStream: %w", err)
		}
		return c.makeStreams(ctx)
	})
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return errors.New("bus: the server has no JetStream, which runs need: start it with nats-server -js, and allow it for the account")
	}
	if err != nil {
		return err
	}
	for _, name := range c.streams() { // after all else: what a dead coordinator sent last has come by now
		s, err := c.stream(ctx, name)
		if err == nil {
			err = s.Purge(ctx)
		}
		if err != nil {
			return fmt.Errorf("bus: empty stream %s: %w", name, err)
		}
	}
	return nil
}

func (c *Coordinator) streams() []string {
	if c.config.PublishModels {
		return []string{subject.JobsStream(c.run), subject.ModelsStream(c.run)}
	}
	return []string{subject.JobsStream(c.run)}
}

// makeStreams leaves streams that are there, and what they hold, as they are.
func (c *Coordinator) makeStreams(ctx context.Context) error {
	ctx, cancel := c.conn.attempt(ctx, 2*RequestTimeout)
	defer cancel()
	for _, name := range c.streams() {
		config := jetstream.StreamConfig{Name: name, Storage: jetstream.MemoryStorage, Replicas: c.config.Replicas}
		if name == subject.JobsStream(c.run) {
			config.Subjects, config.Retention = []string{subject.AnyJobs(c.run)}, jetstream.WorkQueuePolicy
		} else {
			config.Subjects, config.MaxMsgsPerSubject, config.AllowDirect = []string{subject.AnyModel(c.run)}, 1, true
		}
		if _, err := c.js.CreateOrUpdateStream(ctx, config); err != nil {
			return fmt.Errorf("bus: make stream %s: %w", name, err)
		}
	}
	if c.config.Kernel == "" {
		return nil
	}
	_, err := c.js.CreateOrUpdateConsumer(ctx, subject.JobsStream(c.run), jetstream.ConsumerConfig{
		Durable:       c.config.Kernel,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.config.AckWait,
		MaxDeliver:    maxDeliver,
		FilterSubject: subject.Jobs(c.run, c.config.Kernel),
		MaxAckPending: -1, // trainers take one at a time each
		MaxWaiting:    maxWaiting,
		MemoryStorage: true,
	})
	if err != nil {
		return fmt.Errorf("bus: make consumer %s of stream %s: %w", c.config.Kernel, subject.JobsStream(c.run), err)
	}
	return nil
}

// removeStreams also ends the sharing of models. Streams of a server that is gone
// are gone, too.
func (c *Coordinator) removeStreams(ctx context.Context) error {
	c.js.CleanupPublisher()
	for d := range c.available() {
		c.conn.config.Store.models.Delete(modelKey{c.run, d})
	}
	if !c.conn.nats.IsConnected() {
		return nil
	}
	for _, name := range c.streams() {
		// On a server that is away for the moment they stay, and are emptied when a
		// run of the name is opened again.
		if err := c.js.DeleteStream(ctx, name); err != nil && !retriable(err) {
			return fmt.Errorf("bus: remove stream %s: %w", name, err)
		}
	}
	return nil
}

// stream looks at a stream; the question is not waited for longer than one
// connection lasts.
func (c *Coordinator) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := c.conn.attempt(ctx, RequestTimeout)
	defer cancel()
	return c.js.Stream(ctx, name)
}

// SendJob does not wait for the queue's acknowledgement: what goes wrong comes out
// of TakeSum. Jobs carry no Nats-Msg-Id: one that is sent again must not be taken
// for a repeat.
func (c *Coordinator) SendJob(ctx context.Context, j *bus.Job) error {
	if err := j.Validate(); err != nil {
		return err
	}
	if j.Kernel != c.config.Kernel {
		return bus.Fault("job", "kernel", j.Kernel, fmt.Sprintf("the run's, %q", c.config.Kernel))
	}
	if c.sums.expect(j) {
		return nil // the queue has it
	}
	b, err := bus.Marshal(nil, j)
	if err != nil {
		return err
	}
	if limit := c.conn.nats.MaxPayload(); int64(len(b)) > limit {
		return fmt.Errorf("bus: job %d has %d bytes, the server takes %d: make more jobs of it", j.Job, len(b), limit)
	}
	f, err := c.js.PublishAsync(subject.Jobs(c.run, j.Kernel), b)
	if err == nil {
		c.sums.sent(j.Job, f)
		return nil
	}
	err = fmt.Errorf("bus: send job %d: %w", j.Job, err)
	if retriable(err) { // it is sent again with the others that are open
		c.look(err)
		return nil
	}
	return err
}

// look has the streams looked at, since messages may have been lost.
func (c *Coordinator) look(cause error) {
	select {
	case c.looking <- cause:
	default:
	}
}

// watchStreams makes streams again when they are gone and tells of it, until ctx
// ends.
func (c *Coordinator) watchStreams(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var cause error
		select {
		case <-ctx.Done():
			return
		case cause = <-c.looking:
		case <-tick.C:
			if c.sums.opened() == 0 {
				continue
			}
		}
		interrupted, again := errors.Is(cause, bus.ErrInterrupted), false
		// The streams are tried for as long as a connection may take to come back.
		err := c.conn.Retry(ctx, Retry{For: reconnectFor}, func(ctx context.Context) error {
			found, err := c.restore(ctx, interrupted)
			again = again || found
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && cause == nil && retriable(err):
			// The connection's own handlers report its end.
		case err != nil:
			c.failed(errors.Join(err, cause))
		case again:
			c.lost(fmt.Errorf("bus: what run %s has on the server was gone and has been made again: %w", c.run, bus.ErrInterrupted))
		case interrupted:
			c.lost(cause)
		case cause != nil && retriable(cause):
			c.lost(fmt.Errorf("%w: %w", cause, bus.ErrInterrupted))
		case cause != nil:
			c.failed(cause)
		}
	}
}

// restore makes the streams, the consumer and the models' chunks again if any of
// them is gone. It counts the chunks after an interruption alone: the servers of a
// cluster may have come back with an empty stream.
func (c *Coordinator) restore(ctx context.Context, interrupted bool) (again bool, err error) {
	_, last := c.sums.queued(0)
	for _, name := range c.streams() {
		s, err := c.stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			again = true
			continue
		}
		if err != nil {
			return false, fmt.Errorf("bus: look at stream %s: %w", name, err)
		}
		state := s.CachedInfo().State
		if name != subject.JobsStream(c.run) {
			again = again || interrupted && state.Msgs < c.chunksAvailable()
			continue
		}
		// Jobs stay until their sums are in: a stream that holds fewer than are
		// still waited for has been emptied, by the restart of a whole cluster or
		// by somebody.
		waited, _ := c.sums.queued(state.LastSeq)
		again = again || state.LastSeq < last || state.Msgs < waited
		if again || c.config.Kernel == "" {
			continue
		}
		attempt, cancel := c.conn.attempt(ctx, RequestTimeout)
		_, err = s.Consumer(attempt, c.config.Kernel)
		cancel()
		if again = errors.Is(err, jetstream.ErrConsumerNotFound); err != nil && !again {
			return false, fmt.Errorf("bus: look at consumer %s: %w", c.config.Kernel, err)
		}
	}
	if !again {
		return false, nil
	}
	c.sums.forgetSent()
	if err := c.makeStreams(ctx); err != nil {
		return true, err
	}
	for d, params := range c.available() {
		if err := c.publishModel(ctx, d, params); err != nil {
			return true, err
		}
	}
	return true, nil
}

// advisories is where the server tells of a run's jobs: MAX_DELIVERIES of one that
// was handed out for the last time and not acknowledged, MSG_TERMINATED of one that
// a trainer cannot read.
func advisories(kind, run string) string {
	return "$JS.EVENT.ADVISORY.CONSUMER." + kind + "." + subject.JobsStream(run) + ".*"
}

// advisory has the parts of the server's advisories on jobs that are used here.
type advisory struct {
	Sequence uint64 `json:"stream_seq"`
	Reason   string `json:"reason"` // of a termination
}

func (c *Coordinator) onExhausted(m *nats.Msg) {
	var a advisory
	if err := json.Unmarshal(m.Data, &a); err != nil {
		c.failed(fmt.Errorf("bus: the server's advisory of a job that nobody finished: %w", err))
	} else if j := c.sums.bySequence(a.Sequence); j != nil {
		c.failed(fmt.Errorf("bus: run %s: job %d (%s, round %d, kernel %s) was given out %d times and no trainer finished it",
			c.run, j.Job, j.Kind.Name(), j.Round, j.Kernel, maxDeliver))
	}
}

func (c *Coordinator) onTerminated(m *nats.Msg) {
	c.failed(fmt.Errorf("bus: run %s: a trainer cannot read a job: %s", c.run, terminationReason(m.Data)))
}

func terminationReason(data []byte) string {
	var a advisory
	if err := json.Unmarshal(data, &a); err != nil || a.Reason == "" {
		return "it gave no reason"
	}
	return a.Reason
}
