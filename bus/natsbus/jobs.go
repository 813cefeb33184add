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
	"fedpace/internal/names"
)

// jobConsumer is the queue of one kernel class's jobs.
type jobConsumer struct {
	jetstream.Consumer
	wait time.Duration // its AckWait
}

// delivery is a job that this host holds. Marks of progress keep it from being
// given to another until Done, Release or Postpone.
type delivery struct {
	job  *bus.Job
	conn *Conn
	msg  jetstream.Msg
	stop chan struct{}
	once sync.Once
	mark sync.WaitGroup
}

// Job is what is to be done.
func (d *delivery) Job() *bus.Job { return d.job }

// NextJob waits for a job. It outlives a coordinator or a stream that goes and
// comes back; it returns the context's error or what broke the connection.
func (h *Host) NextJob(ctx context.Context, kernel string) (bus.Delivery, error) {
	if err := names.CheckToken("kernel", kernel); err != nil {
		return nil, err
	}
	ctx, cancel := Until(ctx, h.life)
	defer cancel()
	var d *delivery
	err := h.conn.Retry(ctx, Retry{Attempt: pullPatience, Passes: passesForJobs}, func(ctx context.Context) (err error) {
		if d, err = h.nextJob(ctx, kernel); err != nil && !attemptOver(err) && !errors.Is(err, jetstream.ErrNoMessages) {
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

// passesForJobs waits for a stream or a consumer that is not there yet, too.
func passesForJobs(err error) bool {
	return !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrPermissionViolation)
}

// nextJob makes one attempt.
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
	if err := bus.Unmarshal(m.Data(), j); err != nil {
		// No repetition makes it readable: the coordinator learns at once.
		h.ignored.Add(1)
		return nil, errors.Join(err, m.TermWithReason(bus.ValidText(err.Error())))
	}
	d := &delivery{job: j, conn: h.conn, msg: m, stop: make(chan struct{})}
	d.mark.Go(func() { d.keep(h.life, consumer.wait/3) })
	return d, nil
}

// consumer looks the consumer up unless that has been done.
func (h *Host) consumer(ctx context.Context, kernel string) (*jobConsumer, error) {
	if known, ok := h.consumers.Load(kernel); ok {
		return known.(*jobConsumer), nil
	}
	found, err := h.conn.js.Consumer(ctx, subject.JobsStream(h.run), kernel)
	if err != nil {
		return nil, err
	}
	c := &jobConsumer{found, found.CachedInfo().Config.AckWait}
	h.consumers.Store(kernel, c)
	return c, nil
}

// keep marks progress until the delivery or its host is over.
func (d *delivery) keep(host context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-host.Done():
			return
		case <-tick.C:
			_ = d.msg.InProgress() // lost marks end in a second delivery, which is harmless
		}
	}
}

func (d *delivery) end() {
	d.once.Do(func() { close(d.stop) })
	d.mark.Wait()
}

// Done removes the job from the queue and waits until that is confirmed. It is
// called after SendSum has returned nil. A job that the queue no longer holds
// (it was sent again meanwhile, or its stream is gone) is no error.
func (d *delivery) Done(ctx context.Context) error {
	d.end()
	attempt, cancel := d.conn.attempt(ctx, RequestTimeout)
	defer cancel()
	err := d.msg.DoubleAck(attempt)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case attemptOver(err), retriable(err): // nobody answers for a job that is not queued
		return nil
	}
	return fmt.Errorf("bus: acknowledge job %d: %w", d.job.Job, err)
}

// Release gives the job back, for another to do at once.
func (d *delivery) Release() error {
	d.end()
	if err := d.msg.Nak(); err != nil && !retriable(err) {
		return fmt.Errorf("bus: give back job %d: %w", d.job.Job, err)
	}
	return nil
}

// Postpone gives the job back, for another to do a little later.
func (d *delivery) Postpone() error {
	d.end()
	if err := d.msg.NakWithDelay(postponement); err != nil && !retriable(err) {
		return fmt.Errorf("bus: give back job %d: %w", d.job.Job, err)
	}
	return nil
}
