package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
)

// streamCheckInterval is how often the streams are checked.
const streamCheckInterval = 2 * time.Second

// These bound the requests that are open at the work queue.
const (
	// maxWaiting is how many trainers may wait for a job.
	maxWaiting = 1 << 12
	// pendingJobs is how many jobs and chunks may be sent that the stream has not confirmed.
	pendingJobs = 1 << 12
)

// openStreams makes the run's streams: that of jobs, which is a work queue with a consumer for the run's kernel
// class, and that of the models' chunks. It empties them last: by then everything has arrived that a dead coordinator
// of the run had sent. A stream without a leader, from an earlier run, can be neither changed nor emptied, so it is
// deleted. It is made again with one copy, which needs no election of a leader; raiseCopies adds the others later.
func (c *Coordinator) openStreams(ctx context.Context) error {
	copies := c.config.Replicas
	err := c.doAsHolder(ctx, "make the streams of run "+c.run, 0, func(ctx context.Context) error {
		deleted, err := c.deleteLeaderless(ctx)
		if deleted {
			copies = 1
			c.streamsChanged = time.Now()
		}
		if err != nil {
			return err
		}
		attempt, cancel := c.conn.Attempt(ctx, natsconn.RequestTimeout)
		defer cancel()
		return c.makeStreams(attempt, copies)
	})
	if err != nil {
		return err
	}
	for _, name := range c.streams() {
		err := c.doAsHolder(ctx, "empty stream "+name, 0, func(ctx context.Context) error {
			return c.purgeStream(ctx, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteLeaderless deletes those of the run's streams that have no leader, or whose consumer has none, and returns
// whether there was one. It does not wait for an election: nothing that the streams hold is needed any more.
func (c *Coordinator) deleteLeaderless(ctx context.Context) (deleted bool, err error) {
	const interrupted = false
	checks := c.probeStreams(ctx, interrupted)
	if !c.leaderless.inCluster() {
		return false, nil
	}
	failures := make([]error, len(checks))
	var deleting sync.WaitGroup
	for i, check := range checks {
		if check.err == nil || !isLeaderless(check.err) {
			continue
		}
		deleted = true
		// The stream itself is named as the one without a leader, also where only its consumer has none.
		overdueName := check.stream
		deleting.Go(func() { failures[i] = c.leaderless.deleteStream(ctx, check.stream, overdueName) })
	}
	deleting.Wait()
	return deleted, errors.Join(failures...)
}

// doAsHolder calls f, which asks the server for something that only the holder of the lease may do. It calls f only
// while the lease is held, and tries again as [natsconn.Conn.Do] says, also while the lease has to be renewed. action
// names the request in errors and notices, as in "take a model". attempt bounds one attempt; 0 means that f bounds
// itself.
func (c *Coordinator) doAsHolder(
	ctx context.Context,
	action string,
	attempt time.Duration,
	f func(context.Context) error,
) error {
	return c.conn.Do(ctx, action, attempt, func(ctx context.Context) error {
		if err := c.lease.checkHeld(); err != nil {
			return err
		}
		return f(ctx)
	})
}

// streams returns the names of the run's streams: the jobs', and the models' if models are
// published.
func (c *Coordinator) streams() []string {
	if c.config.PublishModels {
		return []string{subject.JobsStream(c.run), subject.ModelsStream(c.run)}
	}
	return []string{subject.JobsStream(c.run)}
}

// makeStreams makes the streams and the consumer that do not exist, with the given number of copies, and
// gives existing ones that number. What existing streams hold stays as it is.
func (c *Coordinator) makeStreams(ctx context.Context, copies int) error {
	for _, name := range c.streams() {
		if err := c.makeStream(ctx, name, copies); err != nil {
			return err
		}
	}
	return nil
}

// makeStream makes one of the run's streams with this number of copies, or fewer if the cluster has too few servers. If
// the stream exists, it gets that number and keeps its messages. The stream of jobs also gets its consumer.
func (c *Coordinator) makeStream(ctx context.Context, name string, copies int) error {
	err := withCopies(copies, func(copies int) error {
		config := c.streamConfig(name)
		config.Replicas = copies
		_, err := c.js.CreateOrUpdateStream(ctx, config)
		return err
	})
	if err != nil {
		return fmt.Errorf("bus: make stream %s: %w", name, err)
	}
	// A run without a kernel class trains nothing, so it has no jobs.
	hasConsumer := name == subject.JobsStream(c.run) && c.config.Kernel != ""
	if !hasConsumer {
		return nil
	}
	_, err = c.js.CreateOrUpdateConsumer(ctx, name, jetstream.ConsumerConfig{
		Durable:       c.config.Kernel,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.config.AckWait,
		MaxDeliver:    c.config.MaxDeliver,
		FilterSubject: subject.Jobs(c.run, c.config.Kernel),
		// There is no limit, because each trainer takes one job at a time.
		MaxAckPending: -1,
		MaxWaiting:    maxWaiting,
		MemoryStorage: true,
	})
	if err != nil {
		return fmt.Errorf("bus: make consumer %s of stream %s: %w", c.config.Kernel, name, err)
	}
	return nil
}

// streamConfig returns the configuration of one of the run's streams, without the number of copies.
// Jobs leave their stream when they are acknowledged. The stream of models holds one message for
// each chunk, which hosts and devices get directly, without a consumer.
func (c *Coordinator) streamConfig(name string) jetstream.StreamConfig {
	config := jetstream.StreamConfig{Name: name, Storage: jetstream.MemoryStorage}
	if name == subject.JobsStream(c.run) {
		config.Subjects = []string{subject.AnyJobs(c.run)}
		config.Retention = jetstream.WorkQueuePolicy
	} else {
		config.Subjects = []string{subject.AnyModel(c.run)}
		config.MaxMsgsPerSubject = 1
		config.AllowDirect = true
	}
	return config
}

// removeStreams ends the sharing of models within this process, and removes the run's streams and its
// lease from the server. Streams of a server that is down are gone with it, as they live in memory. On
// a server that is away for longer they stay; they are emptied when a run of this name is opened again.
func (c *Coordinator) removeStreams(ctx context.Context) error {
	c.js.CleanupPublisher()
	for d := range c.available() {
		c.conn.store.models.Delete(modelKey{c.run, d})
	}
	for _, name := range c.streams() {
		// The streams may be another coordinator's by now.
		if c.lease.checkHeld() != nil {
			return nil
		}
		err := c.conn.atClose(
			ctx,
			"remove stream "+name,
			func(ctx context.Context) error { return c.js.DeleteStream(ctx, name) },
		)
		if err != nil {
			return err
		}
	}
	return c.lease.release(ctx)
}

// atClose calls f, a request by which a run that is closed leaves the server, and tries again as
// [natsconn.Conn.Do] says. action names the request in errors. It returns nil also if f finds no
// stream, if the connection is lost, or if ctx has ended: the lease then ends by itself, and the
// next run of this name empties the streams.
func (c *Conn) atClose(ctx context.Context, action string, f func(context.Context) error) error {
	err := c.Do(ctx, action, natsconn.RequestTimeout, func(ctx context.Context) error {
		err := f(ctx)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	})
	if ctx.Err() != nil || c.Err() != nil {
		return nil
	}
	return err
}

// purgeStream empties the stream with this name, or only the part of it that options select, in one attempt of at
// most natsconn.RequestTimeout. An empty stream is no error.
func (c *Coordinator) purgeStream(ctx context.Context, name string, options ...jetstream.StreamPurgeOpt) error {
	ctx, cancel := c.conn.Attempt(ctx, natsconn.RequestTimeout)
	defer cancel()
	s, err := c.js.Stream(ctx, name)
	if err == nil {
		err = s.Purge(ctx, options...)
	}
	return err
}

// SendJob puts a job into the work queue without waiting for the queue's confirmation; TakeSum
// returns later failures. A job that the queue holds already is not sent again. Jobs have no
// Nats-Msg-Id header: a job that is sent again on purpose must not be dropped as a duplicate.
func (c *Coordinator) SendJob(ctx context.Context, j *bus.Job) error {
	if err := j.Validate(); err != nil {
		return err
	}
	if j.Kernel != c.config.Kernel {
		return bus.Fault("job", "kernel", j.Kernel, fmt.Sprintf("the run's, %q", c.config.Kernel))
	}
	isQueued := c.sums.openOrFind(j)
	if isQueued {
		return nil
	}
	if err := c.lease.checkHeld(); err != nil {
		// Without the lease nothing is sent. watchStreams, which is asked for a check, sends the open jobs when the
		// lease is renewed.
		c.requestCheck(err)
		return nil
	}
	return c.queueJob(j)
}

// queueJob puts a job into the queue, whether or not the queue holds it already. With two copies in
// the queue, two hosts may do the job, and the first sum counts.
func (c *Coordinator) queueJob(j *bus.Job) error {
	b, err := c.encodeJob(j)
	if err != nil {
		return err
	}
	if limit := c.conn.NATS().MaxPayload(); int64(len(b)) > limit {
		return fmt.Errorf("bus: job %d has %d bytes, the server takes %d: make more jobs of it", j.Job, len(b), limit)
	}
	if c.hosts != nil {
		c.hosts.jobs.NoteQueued(j)
	}
	f, err := c.js.PublishAsync(subject.Jobs(c.run, j.Kernel), b)
	if err == nil {
		c.sums.noteSent(j.Job, f)
		return nil
	}
	err = fmt.Errorf("bus: send job %d: %w", j.Job, err)
	// The job is sent again with the other open ones.
	if c.conn.Transient(err) {
		c.requestCheck(err)
		return nil
	}
	return err
}

// encodeJob encodes a job with the coordinator's present fencing token. It changes a copy, because the driver of the
// run keeps the job and may use it at the same time.
func (c *Coordinator) encodeJob(j *bus.Job) ([]byte, error) {
	fenced := proto.CloneOf(j)
	fenced.Fence = c.lease.fence.token.Load()
	return bus.MarshalSealed(fenced)
}

// queueUnconfirmed puts those open jobs into the queue that the queue has refused or lost. It sends
// them one by one, and waits until the queue has confirmed each.
func (c *Coordinator) queueUnconfirmed(ctx context.Context) error {
	for _, job := range c.sums.listUnqueued() {
		b, err := c.encodeJob(job)
		if err != nil {
			return err
		}
		attempt, cancel := c.conn.Attempt(ctx, natsconn.RequestTimeout)
		ack, err := c.js.Publish(attempt, subject.Jobs(c.run, job.Kernel), b)
		cancel()
		if err != nil {
			return fmt.Errorf("bus: send job %d: %w", job.Job, err)
		}
		c.sums.noteQueued(job.Job, ack.Sequence)
	}
	return nil
}

// backUpEvery is how often backUpJobs looks for slow jobs. It also does when a sum is accepted or a
// host leaves.
const backUpEvery = 50 * time.Millisecond

// backUpJobs looks after the jobs of hosts in other processes until ctx ends. It queues jobs again
// whose only hosts are gone, queues slow jobs a second time for idle workers, and removes messages
// of finished jobs from the queue.
func (c *Coordinator) backUpJobs(ctx context.Context) {
	tick := time.NewTicker(backUpEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.hosts.jobs.Wake:
		}
		// The queue may be another coordinator's by now.
		if c.lease.checkHeld() != nil {
			continue
		}
		lost, slow, done := c.hosts.jobs.Due()
		for _, job := range lost {
			// The old messages are removed, so that deliveries to hosts that died
			// do not count towards MaxDeliver.
			done = append(done, c.sums.queueNumbers(job)...)
		}
		for _, job := range slices.Concat(lost, slow) {
			message := c.sums.job(job)
			// The job's sum has arrived meanwhile.
			if message == nil {
				continue
			}
			if err := c.queueJob(message); err != nil {
				c.failedUnlessTakenOver(ctx, err)
			}
		}
		if len(done) > 0 {
			c.unqueue(ctx, done)
		}
	}
}

// unqueue removes messages from the queue, by their numbers: their jobs are done, or are in the queue
// a second time. Where it fails, a job is done twice, to the same sum.
func (c *Coordinator) unqueue(ctx context.Context, numbers []uint64) {
	ctx, cancel := c.conn.Attempt(ctx, natsconn.RequestTimeout)
	defer cancel()
	s, err := c.js.Stream(ctx, subject.JobsStream(c.run))
	if err != nil {
		return
	}
	for _, n := range numbers {
		// The server reports the removal of a message, which is then known to be on purpose.
		c.hosts.jobs.NoteRemoval(n)
		_ = s.DeleteMsg(ctx, n)
		if ctx.Err() != nil {
			return
		}
	}
}

// requestCheck asks watchStreams to check the streams, since messages may have been lost for the
// reason cause. It never blocks: a request that waits already stands for all.
func (c *Coordinator) requestCheck(cause error) {
	select {
	case c.checkRequests <- cause:
	default:
	}
}

// watchStreams checks the run's streams until ctx ends: when that is requested, and periodically.
// Streams that are gone are made again; then TakePlans and TakeSum report that messages were lost.
func (c *Coordinator) watchStreams(ctx context.Context) {
	tick := time.NewTicker(streamCheckInterval)
	defer tick.Stop()
	for {
		var cause error
		select {
		case <-ctx.Done():
			return
		case cause = <-c.checkRequests:
		case <-tick.C:
		}
		restored, err := c.checkStreams(ctx, cause)
		if ctx.Err() != nil {
			return
		}
		c.actOnCheck(ctx, cause, restored, err)
	}
}

// checkStreams looks at the streams and makes them again if any of them is gone or incomplete; restored says that
// this was necessary. cause is why the check was requested, nil for a periodic check. It tries for as long as Conn.Do
// does, that is for as long as a lost connection may stay away. If the cause is a lack of memory on the server, it
// also waits until the queue has taken all open jobs.
func (c *Coordinator) checkStreams(ctx context.Context, cause error) (restored bool, err error) {
	interrupted := errors.Is(cause, bus.ErrInterrupted)
	scarce := natsconn.NoMemory(cause)
	action := "show the streams of run " + c.run
	if scarce {
		action = "take the jobs of run " + c.run
	}
	err = c.conn.Do(ctx, action, 0, func(ctx context.Context) error {
		// If an earlier attempt was cut short, it is not known how much it has made again, so the chunks are counted.
		restoredNow, err := c.restoreStreams(ctx, interrupted || restored)
		restored = restored || restoredNow
		if err == nil && !restored && scarce {
			err = c.queueUnconfirmed(ctx)
		}
		return err
	})
	return restored, err
}

// actOnCheck acts on the result of a check of the streams. cause is why the check was made, nil for a
// periodic one; restored says that the streams were made again, and err why the check failed.
// Transient causes and restored streams mean that messages may be lost, so the driver sends open
// tasks and jobs again; everything else ends the run.
func (c *Coordinator) actOnCheck(ctx context.Context, cause error, restored bool, err error) {
	// The queue has refused jobs for lack of memory; the check has waited until it took them.
	lackedMemory := natsconn.NoMemory(cause)
	switch {
	case err != nil && lackedMemory:
		c.failedUnlessTakenOver(ctx, err)
	case err != nil && cause == nil && c.conn.Transient(err):
		// The connection's own handlers report its end.
	case err != nil:
		c.failedUnlessTakenOver(ctx, errors.Join(err, cause))
	case restored:
		c.signalLoss(fmt.Errorf(
			"bus: what run %s has on the server was gone and has been made again: %w",
			c.run,
			bus.ErrInterrupted,
		))
	case errors.Is(cause, bus.ErrInterrupted):
		c.signalLoss(cause)
	// The queue has taken all jobs by now, so nothing is lost.
	case lackedMemory:
	case cause != nil && c.conn.Transient(cause):
		c.signalLoss(fmt.Errorf("%w: %w", cause, bus.ErrInterrupted))
	case cause != nil:
		c.failedUnlessTakenOver(ctx, natsconn.WithHint(cause))
	}
}

// failedUnlessTakenOver ends the run with err, unless another coordinator has the lease: then the run ends
// with that as its error, since err may only be a consequence. The other coordinator empties the queue, for
// example.
func (c *Coordinator) failedUnlessTakenOver(ctx context.Context, err error) {
	attempt, cancel := c.conn.Attempt(ctx, natsconn.RequestTimeout)
	defer cancel()
	var held *heldError
	if errors.As(c.lease.askHolder(attempt), &held) {
		err = c.lease.takenOver(held)
	}
	c.failed(err)
}

// restoreStreams makes the streams, the consumer and the models' chunks again if any of them is gone, or if a stream
// has had no leader for longer than a cluster needs to elect one. restored is true if it made anything again, also
// where that failed half-way. interrupted says that the connection was lost: only then are the chunks counted, since
// the servers of a cluster may have come back with an empty stream. The streams are looked at also while the lease is
// not held, so that their silence is noticed as early as that of the lease; nothing is changed without the lease.
func (c *Coordinator) restoreStreams(ctx context.Context, interrupted bool) (restored bool, err error) {
	checks := c.probeStreams(ctx, interrupted)
	if err := c.lease.checkHeld(); err != nil {
		return false, err
	}
	intact := true
	for _, check := range checks {
		if check.err != nil && check.overdueName == "" {
			return false, check.err
		}
		intact = intact && check.intact
	}
	// What the streams hold is complete, so nothing must be sent again.
	if intact {
		return false, c.raiseCopies(ctx, checks)
	}
	c.streamsChanged = time.Now()
	// The new work queue counts its messages from 1, and has none of the open jobs.
	c.sums.forgetSent()
	for _, check := range checks {
		if check.intact {
			continue
		}
		if err := c.remake(ctx, check); err != nil {
			return true, err
		}
	}
	// The connection's server may not reach the new streams. A probe fails sooner than the publishing of a model.
	for _, check := range c.probeStreams(ctx, interrupted) {
		if check.err != nil {
			return true, check.err
		}
	}
	for d, params := range c.available() {
		if err := c.publishModel(ctx, d, params); err != nil {
			return true, err
		}
	}
	return true, nil
}

// remake makes the stream of a check again that has found it not intact. If the stream, or its consumer, has
// had no leader for too long (overdueName is not empty), the stream is deleted first. The new stream has a
// single copy, which one server can hold alone; raiseCopies adds the others later.
func (c *Coordinator) remake(ctx context.Context, check streamCheck) error {
	if check.overdueName != "" {
		if err := c.leaderless.deleteStream(ctx, check.stream, check.overdueName); err != nil {
			return err
		}
	}
	// The server that holds the new stream answers. It does so at once, if this connection's server reaches it at all.
	attempt, cancel := c.conn.Attempt(ctx, probeTimeout)
	defer cancel()
	const copies = 1
	return c.makeStream(attempt, check.stream, copies)
}

// raiseCopies gives the streams as many copies as the configuration says, if they have fewer because they were made
// again, and raiseAfter has passed since they were last changed. If the cluster cannot do that yet, it returns nil,
// and a call after another raiseAfter tries again.
func (c *Coordinator) raiseCopies(ctx context.Context, checks []streamCheck) error {
	complete := !slices.ContainsFunc(checks, func(s streamCheck) bool { return s.copies < c.config.Replicas })
	if complete || time.Since(c.streamsChanged) < raiseAfter {
		return nil
	}
	c.streamsChanged = time.Now()
	attempt, cancel := c.conn.Attempt(ctx, natsconn.RequestTimeout)
	defer cancel()
	err := c.makeStreams(attempt, c.config.Replicas)
	// The streams work as they are.
	if err != nil && c.conn.Transient(err) {
		return nil
	}
	return err
}

// streamCheck is the result of a look at one of the run's streams.
type streamCheck struct {
	stream string
	// intact says that the stream exists, has its consumer, and holds what it should.
	intact bool
	// copies is how many servers are to hold the stream; 0 for a stream that does not answer.
	copies int
	// overdueName is the name of the stream or the consumer that has been without a leader for so long that the
	// stream is to be deleted and made again. It is empty if neither has.
	overdueName string
	// err is why the state of the stream is not known; nil if it is known.
	err error
}

// probeStreams looks at all streams at once: each may take probeTimeout to answer. interrupted says that
// chunks of models may be missing.
func (c *Coordinator) probeStreams(ctx context.Context, interrupted bool) []streamCheck {
	names := c.streams()
	checks := make([]streamCheck, len(names))
	var looking sync.WaitGroup
	for i, name := range names {
		looking.Go(func() { checks[i] = c.probeStream(ctx, name, interrupted) })
	}
	looking.Wait()
	return checks
}

// probeStream looks whether a stream exists and holds what it should: that of jobs all open jobs, and that of
// models all chunks. Chunks are counted only if interrupted says that some may be missing. A stream that does not
// exist, or lacks something, is not intact, which is no error.
func (c *Coordinator) probeStream(ctx context.Context, name string, interrupted bool) streamCheck {
	check := streamCheck{stream: name}
	started := time.Now()
	// The number is taken before the stream is asked: jobs that are sent meanwhile are not missed.
	_, lastNumber := c.sums.countQueued(0)
	attempt, cancel := c.conn.Attempt(ctx, probeTimeout)
	defer cancel()
	s, err := c.js.Stream(attempt, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return check
	}
	if err != nil {
		return c.withFailure(check, name, started, fmt.Errorf("bus: look at stream %s: %w", name, err))
	}
	// Servers that hold copies answer also while they have no leader.
	if !hasLeader(s.CachedInfo().Cluster) {
		return c.withFailure(check, name, started, fmt.Errorf("bus: look at stream %s: %w", name, errNoLeader))
	}
	c.leaderless.answered(name)
	state := s.CachedInfo().State
	check.copies = s.CachedInfo().Config.Replicas
	if name != subject.JobsStream(c.run) {
		chunksMissing := interrupted && state.Msgs < c.chunksAvailable()
		check.intact = !chunksMissing
		return check
	}
	// Jobs stay in the queue until their sums have arrived. A stream that holds fewer messages than there are
	// queued jobs, or has never had the last of them, was emptied, such as by the restart of all servers.
	queuedJobs, _ := c.sums.countQueued(state.LastSeq)
	wasEmptied := state.LastSeq < lastNumber || state.Msgs < queuedJobs
	if wasEmptied {
		return check
	}
	// A run without a kernel class needs no consumer.
	if c.config.Kernel == "" {
		check.intact = true
		return check
	}
	return c.probeConsumer(ctx, check, s)
}

// probeConsumer completes the check of the stream of jobs s, which is intact if it has its consumer, that of the run's
// kernel class. Without the consumer the check says that the stream is not intact, which is no error. If the state of
// the consumer cannot be told, the check has an error.
func (c *Coordinator) probeConsumer(ctx context.Context, check streamCheck, s jetstream.Stream) streamCheck {
	attempt, cancel := c.conn.Attempt(ctx, probeTimeout)
	defer cancel()
	// This name tells the consumer from its stream in the record of those without a leader.
	name := check.stream + " > " + c.config.Kernel
	started := time.Now()
	consumer, err := s.Consumer(attempt, c.config.Kernel)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return check
	}
	if err == nil && !hasLeader(consumer.CachedInfo().Cluster) {
		err = errNoLeader
	}
	if err != nil {
		return c.withFailure(check, name, started, fmt.Errorf("bus: look at consumer %s: %w", c.config.Kernel, err))
	}
	c.leaderless.answered(name)
	check.intact = true
	return check
}

// withFailure returns the check of a stream with the failure of a request to name, which is the stream or its
// consumer; the request was sent at the time started. If name has been without a leader for so long that the stream
// is to be deleted, it is also the check's overdueName.
func (c *Coordinator) withFailure(check streamCheck, name string, started time.Time, failure error) streamCheck {
	check.err = failure
	if c.leaderless.isOverdue(name, started, failure) {
		check.overdueName = name
	}
	return check
}

// advisories returns the subject on which the server publishes advisories of one kind on a run's
// jobs. MAX_DELIVERIES reports a job that was delivered for the last time and not acknowledged;
// MSG_TERMINATED reports a job that the coordinator removed or that a host terminated.
func advisories(kind, run string) string {
	return "$JS.EVENT.ADVISORY.CONSUMER." + kind + "." + subject.JobsStream(run) + ".*"
}

// damagedReason is the reason with which a host terminates a job whose message arrived damaged.
const damagedReason = "damaged"

// advisory has those fields of the server's advisories that are used here.
type advisory struct {
	// Sequence is the number of the message in the stream.
	Sequence uint64 `json:"stream_seq"`
	// Reason is why the message was terminated.
	Reason string `json:"reason"`
}

// onExhausted handles the advisory MAX_DELIVERIES. It ends the run because of a job that was given
// out MaxDeliver times without being finished: the next trainer would most likely fail, too.
func (c *Coordinator) onExhausted(m *nats.Msg) {
	var a advisory
	if err := json.Unmarshal(m.Data, &a); err != nil {
		c.failed(fmt.Errorf("bus: the server's advisory of a job that nobody finished: %w", err))
		return
	}
	var j *bus.Job
	c.sums.withQueueNumber(a.Sequence, func(o *openJob) { j = o.job })
	// The job's sum has arrived meanwhile.
	if j == nil {
		return
	}
	// In a stream that was made again, another coordinator's job may have the number of this one.
	c.failedUnlessTakenOver(
		context.Background(),
		fmt.Errorf("bus: run %s: job %d (%s, round %d, kernel %s) was given out %d times and no trainer finished it",
			c.run, j.Job, j.Kind.Name(), j.Round, j.Kernel, c.config.MaxDeliver),
	)
}

// onTerminated handles the advisory MSG_TERMINATED, of a job that was removed from the queue without an
// acknowledgement. A job that was damaged on its way is sent again, a few times, and one that a host refused
// for its fencing token, too; one that cannot be read for another reason ends the run. A message that this
// coordinator removed itself is ignored. Where it calls signalLoss, all jobs that are out of the queue are
// sent again.
func (c *Coordinator) onTerminated(m *nats.Msg) {
	advisory, reason := readAdvisory(m.Data)
	if c.hosts != nil && c.hosts.jobs.WasRemoved(advisory.Sequence) {
		return
	}
	// The job was sent before this coordinator took its present token, or by another coordinator.
	if reason == fencedReason {
		c.sums.noteUnqueued(advisory.Sequence)
		c.signalLoss(fmt.Errorf(
			"bus: run %s: a host knows a coordinator with a higher token: %w",
			c.run,
			bus.ErrInterrupted,
		))
		return
	}
	if reason != damagedReason {
		c.failedUnlessTakenOver(
			context.Background(),
			fmt.Errorf("bus: run %s: a trainer cannot read a job: %s", c.run, reason),
		)
		return
	}
	if job, times := c.sums.unqueueDamaged(advisory.Sequence); times >= natsconn.MaxDamaged {
		c.failedUnlessTakenOver(
			context.Background(),
			fmt.Errorf("bus: run %s: job %d arrived damaged at trainers %d times: look at the memory and the "+
				"network of the machines", c.run, job, times),
		)
		return
	}
	c.signalLoss(fmt.Errorf("bus: run %s: a job was damaged on its way to a trainer: %w", c.run, bus.ErrInterrupted))
}

// readAdvisory reads an advisory by which the server says that a host has terminated a message of the queue, so that
// it will not be delivered again. a is the zero value if data cannot be read. reason is that of the host, or says that
// there is none.
func readAdvisory(data []byte) (a advisory, reason string) {
	if err := json.Unmarshal(data, &a); err != nil || a.Reason == "" {
		return a, "it gave no reason"
	}
	return a, a.Reason
}
