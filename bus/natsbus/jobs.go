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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.life, func() { cancel(h.Err()) })
	defer stop()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		d, err := h.nextJob(ctx, kernel)
		if d != nil {
			return d, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if attemptOver(err) || errors.Is(err, jetstream.ErrNoMessages) {
			pause = 5 * time.Millisecond // the wait was over, nothing else
			continue
		}
		if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrPermissionViolation) {
			return nil, fmt.Errorf("bus: next job: %w", err)
		}
		h.consumers.Delete(kernel)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// nextJob makes one attempt.
func (h *Host) nextJob(ctx context.Context, kernel string) (*delivery, error) {
	ctx, cancel := h.conn.attempt(ctx, pullPatience)
	defer cancel()
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
