package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Jobs is a host's view of the work queue of one kernel class. NextJob may be
// called by several workers at once.
type Jobs struct {
	host   *Host
	kernel string

	mu       sync.Mutex
	consumer jetstream.Consumer // nil: to be found (again)
	wait     time.Duration      // the consumer's AckWait
}

// Delivery is a job that this host holds. Marks of progress keep it from being
// given to another until Done or Release, one of which must be called.
type Delivery struct {
	Job *Job

	conn *Conn
	msg  jetstream.Msg
	stop chan struct{}
	once sync.Once
	mark sync.WaitGroup
}

// Jobs gives access to the jobs of a kernel class. They need not exist yet.
func (h *Host) Jobs(ctx context.Context, kernel string) (*Jobs, error) {
	if err := CheckToken("kernel", kernel); err != nil {
		return nil, err
	}
	return &Jobs{host: h, kernel: kernel}, ctx.Err()
}

// NextJob waits for a job. It outlives a coordinator or a stream that goes and
// comes back; it returns the context's error or what broke the connection.
func (q *Jobs) NextJob(ctx context.Context) (*Delivery, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(q.host.life, func() { cancel(q.host.Err()) })
	defer stop()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		d, err := q.next(ctx)
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
		q.mu.Lock()
		q.consumer = nil
		q.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// next makes one attempt.
func (q *Jobs) next(ctx context.Context) (*Delivery, error) {
	ctx, cancel := q.host.conn.attempt(ctx, pullPatience)
	defer cancel()
	consumer, wait, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	m, err := consumer.Next(jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	j := new(Job)
	if err := Unmarshal(m.Data(), j); err != nil {
		// No repetition makes it readable: the coordinator learns at once.
		q.host.ignored.Add(1)
		return nil, errors.Join(err, m.TermWithReason(ValidText(err.Error())))
	}
	d := &Delivery{Job: j, conn: q.host.conn, msg: m, stop: make(chan struct{})}
	d.mark.Go(func() { d.keep(q.host.life, wait/3) })
	return d, nil
}

// find looks the consumer up unless that has been done.
func (q *Jobs) find(ctx context.Context) (jetstream.Consumer, time.Duration, error) {
	q.mu.Lock()
	consumer, wait := q.consumer, q.wait
	q.mu.Unlock()
	if consumer != nil {
		return consumer, wait, nil
	}
	consumer, err := q.host.conn.js.Consumer(ctx, jobsStream(q.host.run), q.kernel)
	if err != nil {
		return nil, 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.consumer, q.wait = consumer, consumer.CachedInfo().Config.AckWait
	return q.consumer, q.wait, nil
}

// keep marks progress until the delivery or its host is over.
func (d *Delivery) keep(host context.Context, every time.Duration) {
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

func (d *Delivery) end() {
	d.once.Do(func() { close(d.stop) })
	d.mark.Wait()
}

// Done removes the job from the queue and waits until that is confirmed. It is
// called after SendSum has returned nil. A job that the queue no longer holds
// (it was sent again meanwhile, or its stream is gone) is no error.
func (d *Delivery) Done(ctx context.Context) error {
	d.end()
	attempt, cancel := d.conn.attempt(ctx, requestTimeout)
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
	return fmt.Errorf("bus: acknowledge job %d: %w", d.Job.Job, err)
}

// Release gives the job back, for another to do at once.
func (d *Delivery) Release() error {
	d.end()
	if err := d.msg.Nak(); err != nil && !retriable(err) {
		return fmt.Errorf("bus: give back job %d: %w", d.Job.Job, err)
	}
	return nil
}

// Postpone gives the job back, for another to do a little later.
func (d *Delivery) Postpone() error {
	d.end()
	if err := d.msg.NakWithDelay(postponement); err != nil && !retriable(err) {
		return fmt.Errorf("bus: give back job %d: %w", d.Job.Job, err)
	}
	return nil
}
