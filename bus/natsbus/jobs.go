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

const (
	pullPatience = 20 * time.Second // one pull for a job
	postponement = time.Second      // a job that cannot be done yet
)

// delivery is a job that this host holds. Marks of progress keep it from being
// given to another until Done or Release.
type delivery struct {
	job  *bus.Job
	host *Host
	msg  jetstream.Msg
	stop context.CancelFunc // ends the marks
	mark sync.WaitGroup
}

func (d *delivery) Job() *bus.Job { return d.job }

// NextJob waits for a job. It outlives a coordinator or a stream that goes and
// comes back; it returns the context's error or what broke the connection.
func (h *Host) NextJob(ctx context.Context, kernel string) (bus.Delivery, error) {
	if err := names.CheckToken("kernel", kernel); err != nil {
		return nil, err
	}
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	passes := func(err error) bool { // also of a stream or a consumer that is not there yet
		return !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrPermissionViolation)
	}
	var d *delivery
	err := h.conn.Retry(ctx, natsconn.Retry{Attempt: pullPatience, Transient: passes}, func(ctx context.Context) (err error) {
		if d, err = h.nextJob(ctx, kernel); err != nil && ctx.Err() == nil && !errors.Is(err, jetstream.ErrNoMessages) {
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
		// No repetition makes it readable: the coordinator learns at once. It sends
		// one that was damaged again.
		reason := bus.ValidText(err.Error())
		if errors.Is(err, bus.ErrDamaged) {
			reason = damagedReason
		}
		return nil, errors.Join(err, m.TermWithReason(reason))
	}
	marking, stop := context.WithCancel(h.life)
	d := &delivery{
		job:  j,
		host: h,
		msg:  m,
		stop: stop,
	}
	h.noteJob(j.Job, true)
	d.mark.Go(func() {
		for range bus.Ticks(marking, consumer.CachedInfo().Config.AckWait/3) {
			_ = m.InProgress() // lost marks end in a second delivery, which is harmless
		}
	})
	return d, nil
}

// consumer looks the consumer up unless that has been done.
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

// end ends the marks of progress, and the host's hold.
func (d *delivery) end() {
	d.stop()
	d.mark.Wait()
	d.host.noteJob(d.job.Job, false)
}

// Done removes the job from the queue and waits until that is confirmed. It is
// called after SendSum has returned nil. A job that the queue no longer holds
// (it was sent again meanwhile, or its stream is gone) is no error.
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
	case d.host.conn.Transient(err): // nobody answers for a job that is not queued
		return nil
	}
	return fmt.Errorf("bus: acknowledge job %d: %w", d.job.Job, err)
}

// Release gives the job back, for another to do at once or after a delay.
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
