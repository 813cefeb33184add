package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
	"fedpace/internal/names"
)

// These are the times for taking jobs and giving them back.
const (
	// pullPatience is how long one request waits for a job. A queue that was made again does not know requests to
	// its predecessor, so a host may wait this long in vain.
	pullPatience = 5 * time.Second
	// postponement is how long a job waits that cannot be done yet.
	postponement = time.Second
)

// errFenced is the failure to take a job of a coordinator that has lost the run to another.
const errFenced = natsconn.TransientError("the job has a lower fencing token than an earlier message")

// delivery is a job that this host has taken. Until Done or Release it sends the server marks of
// progress. Without them the server would give the job to another host after AckWait.
type delivery struct {
	job  *bus.Job
	host *Host
	msg  jetstream.Msg
	// stop ends the marks of progress.
	stop context.CancelFunc
	// mark is the goroutine that sends the marks of progress.
	mark sync.WaitGroup
}

// Job returns the job that was delivered.
func (d *delivery) Job() *bus.Job { return d.job }

// NextJob waits for a job of a kernel class, also while the coordinator or the stream is away. An
// error is that of the context, or says that the connection is closed, that the server does not
// permit the call, or that kernel is no token of a subject.
func (h *Host) NextJob(ctx context.Context, kernel string) (bus.Delivery, error) {
	if err := names.CheckToken("kernel", kernel); err != nil {
		return nil, err
	}
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	// Every other failure is transient, also a stream or a consumer that does not exist yet.
	transient := func(err error) bool {
		return !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrPermissionViolation)
	}
	retry := natsconn.Retry{Attempt: pullPatience, Transient: transient}
	var d *delivery
	err := h.conn.Retry(ctx, retry, func(ctx context.Context) (err error) {
		d, err = h.nextJob(ctx, kernel)
		consumerAnswered := err == nil || ctx.Err() != nil || errors.Is(err, jetstream.ErrNoMessages)
		// The stream may have been made again, with another consumer of that name.
		if !consumerAnswered {
			h.consumers.Delete(kernel)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("bus: next job: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// nextJob waits for one job until ctx ends and begins its marks of progress. A job that cannot be
// used is terminated with a reason, which reaches the coordinator by an advisory of the server. The
// coordinator then sends a job again that was damaged on its way or had too low a fencing token, and
// ends the run for any other reason, since no repetition would make the job readable.
func (h *Host) nextJob(ctx context.Context, kernel string) (*delivery, error) {
	consumer, err := h.consumer(ctx, kernel)
	if err != nil {
		return nil, err
	}
	m, err := consumer.Next(jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	j := new(bus.Job)
	if err := bus.UnmarshalSealed(m.Data(), j); err != nil {
		reason := bus.ValidText(err.Error())
		// The coordinator sends a damaged job again.
		if errors.Is(err, bus.ErrDamaged) {
			reason = damagedReason
		}
		return nil, errors.Join(err, m.TermWithReason(reason))
	}
	// The coordinator that has the run sends the job again, with its own token.
	if !h.highestFence.admits(j.Fence) {
		return nil, errors.Join(errFenced, m.TermWithReason(fencedReason))
	}
	marking, stop := context.WithCancel(h.life)
	d := &delivery{
		job:  j,
		host: h,
		msg:  m,
		stop: stop,
	}
	const taken = true
	h.noteJob(j, taken)
	d.mark.Go(func() {
		for range bus.Ticks(marking, consumer.CachedInfo().Config.AckWait/3) {
			// Marks that are lost end in a second delivery of the job, which is harmless.
			_ = m.InProgress()
		}
	})
	return d, nil
}

// consumer returns the server's consumer of the jobs of a kernel class. It is looked up once and
// then remembered.
func (h *Host) consumer(ctx context.Context, kernel string) (jetstream.Consumer, error) {
	if cached, ok := h.consumers.Load(kernel); ok {
		return cached.(jetstream.Consumer), nil
	}
	c, err := h.js.Consumer(ctx, subject.JobsStream(h.run), kernel)
	if err == nil {
		h.consumers.Store(kernel, c)
	}
	return c, err
}

// end ends the marks of progress and notes that the host does not have the job any more.
func (d *delivery) end() {
	d.stop()
	d.mark.Wait()
	const taken = false
	d.host.noteJob(d.job, taken)
}

// Done removes the job from the queue and waits until that is confirmed. It is called after SendSum
// has returned nil. It is no error if the queue does not hold the job any more, because it was sent
// again meanwhile or because its stream is gone.
func (d *delivery) Done(ctx context.Context) error {
	d.end()
	attempt, cancel := d.host.conn.Attempt(ctx, natsconn.RequestTimeout)
	defer cancel()
	err := d.msg.DoubleAck(attempt)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	// The server does not answer for a job that is not queued any more.
	case d.host.conn.Transient(err):
		return nil
	}
	return fmt.Errorf("bus: acknowledge job %d: %w", d.job.Job, err)
}

// Release gives the job back to the queue, for another host to do. With later, it is given out only
// after a delay, because it cannot be done yet.
func (d *delivery) Release(later bool) error {
	d.end()
	nak := d.msg.Nak
	if later {
		nak = func() error { return d.msg.NakWithDelay(postponement) }
	}
	if err := nak(); err != nil && !d.host.conn.Transient(err) {
		return fmt.Errorf("bus: give back job %d: %w", d.job.Job, err)
	}
	return nil
}
