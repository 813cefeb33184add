package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
	"fedpace/internal/names"
	"fedpace/internal/vector"
)

// hostQueue is the queue group in which the hosts of a run share the tasks that
// are for any of them.
const hostQueue = "hosts"

// Host is a [bus.Host].
type Host struct {
	run    string
	config bus.HostConfig
	conn   *Conn
	models modelCache

	life    context.Context // ends when the host can no longer work; its cause says why
	end     context.CancelCauseFunc
	serving sync.WaitGroup // ends with life

	answering sync.Mutex // guards what follows, memory that is used again for each task
	subjects  subject.Clients
	plan      func(client int, t *bus.Task, p *bus.Plan) error
	task      bus.Task
	answer    bus.Plan
	planned   int    // plans in the buffer
	subject   string // of the first of them
	buffer    []byte

	holding sync.Mutex
	held    []uint64 // numbers of the jobs that it has taken and not ended

	js        jetstream.JetStream
	consumers sync.Map    // jetstream.Consumer by kernel class; missing: to be found (again)
	copies    atomic.Bool // the coordinator is in another process
}

// OpenHost joins a run. The coordinator need not be there yet.
func (c *Conn) OpenHost(ctx context.Context, run string, config bus.HostConfig) (bus.Host, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if config.Name == "" {
		config.Name = nats.NewInbox()[len(nats.InboxPrefix):]
	}
	if err := names.CheckToken("host", config.Name); err != nil {
		return nil, err
	}
	h := &Host{run: run, config: config, conn: c, models: modelCache{limit: cacheBytes}}
	var err error
	if h.js, err = jetstream.New(c.NATS(), jetstream.WithDefaultTimeout(natsconn.RequestTimeout)); err != nil {
		return nil, fmt.Errorf("bus: JetStream: %w", err)
	}
	h.life, h.end = context.WithCancelCause(c.Life())
	return h, ctx.Err()
}

// Close ends the service. Deliveries that are held should be released first.
func (h *Host) Close() error {
	h.end(fmt.Errorf("bus: run %s: host %s is closed", h.run, h.config.Name))
	h.serving.Wait()
	return nil
}

func (h *Host) Err() error            { return context.Cause(h.life) }
func (h *Host) Done() <-chan struct{} { return h.life.Done() }

// ServeTasks subscribes to the tasks that are for this host, and as one of a queue
// group to those that are for any.
func (h *Host) ServeTasks(ctx context.Context, fn func(client int, t *bus.Task, p *bus.Plan) error) error {
	h.subjects, h.plan = subject.ClientsOf(h.run), fn
	for _, x := range []struct{ verb, queue string }{{subject.Task, hostQueue}, {subject.TaskFor(h.config.Name), ""}} {
		sub, err := h.conn.Listen(subject.AnyClient(h.run, x.verb), x.queue, func(m *nats.Msg) { h.onTask(m, x.verb) })
		if err != nil {
			return err
		}
		h.serving.Go(func() {
			<-h.life.Done()
			_ = sub.Unsubscribe() // fails only on a closed connection, which has none
		})
	}
	if err := h.conn.Settled(ctx); err != nil {
		return err
	}
	h.serving.Go(func() { h.conn.repeat(h.life, heartbeatEvery, subject.Info(h.run), h.presence) })
	return nil
}

// presence is what the host says of itself.
func (h *Host) presence(last bool) bus.Message {
	h.holding.Lock()
	defer h.holding.Unlock()
	return &bus.InfoRequest{
		Host: h.config.Name, Workers: uint32(h.config.Workers), Leaves: last, Local: h.config.Local, Jobs: slices.Clone(h.held),
	}
}

// holds notes that the host has taken a job, and tells the coordinator, or that it
// has ended one.
func (h *Host) holds(job uint64, taken bool) {
	h.holding.Lock()
	if taken {
		h.held = append(h.held, job)
	} else if i := slices.Index(h.held, job); i >= 0 {
		h.held = slices.Delete(h.held, i, i+1)
	}
	h.holding.Unlock()
	if taken {
		h.conn.say(subject.Info(h.run), h.presence(false))
	}
}

// onTask runs on the tasks' subscriptions. Tasks that have come meanwhile are answered
// together: each message costs more than a plan.
func (h *Host) onTask(m *nats.Msg, verb string) {
	h.answering.Lock()
	defer h.answering.Unlock()
	if client, ok := h.subjects.Client(m.Subject, verb); ok && !natsconn.Relayed(m) { // else a device's
		if err := h.answerTo(m, client, verb); err != nil {
			h.end(err)
			return
		}
	}
	queued, _, err := m.Sub.Pending() // this one, too
	if h.planned == 0 || h.planned <= bus.MaxOthers && queued > 1 && err == nil {
		return
	}
	h.planned = 0
	if err := h.conn.Publish(h.subject, h.buffer); err != nil && !h.conn.Passes(err) { // one that is away: the coordinator asks again
		h.end(fmt.Errorf("bus: plans on %s: %w", h.subject, err))
	}
}

// answerTo adds a client's plan to the next message.
func (h *Host) answerTo(m *nats.Msg, client int, verb string) (err error) {
	if bus.Unmarshal(m.Data, &h.task) != nil {
		return nil
	}
	if h.config.Stamp != 0 && h.task.Stamp != h.config.Stamp {
		return fmt.Errorf("bus: run %s: %w", h.run, bus.ErrStale)
	}
	h.answer.Reset()
	h.answer.Task, h.answer.Placement = h.task.Task, h.task.Placement
	if err = h.plan(client, &h.task, &h.answer); err == nil {
		err = h.answer.Validate()
	}
	if h.planned == 0 {
		h.subject, h.buffer = subject.PlanOf(m.Subject, verb), h.buffer[:0]
	} else {
		h.answer.Client = uint64(client)
	}
	if err == nil {
		h.buffer, err = bus.AppendPlan(h.buffer, &h.answer)
	}
	if err != nil {
		return fmt.Errorf("bus: plan of client %d for task %d: %w", client, h.task.Task, err)
	}
	h.planned++
	return nil
}

// SendSum lends the tensors to a coordinator in this process, and sends them in
// chunks to another.
func (h *Host) SendSum(ctx context.Context, r *bus.Result) error {
	w := proto.CloneOf(r.Sum)
	w.Trainer, w.Chunks, w.Params = h.config.Name, 1, uint32(len(r.Values))
	if f := w.Failure; f != nil {
		f.Kind, f.Text = bus.Text(f.Kind), bus.Text(f.Text)
	}
	if w.Params > 0 && !h.copies.Load() { // lent: the coordinator reads the values where they are
		store := h.conn.store
		w.Handle = &bus.Handle{Store: store.id[:], Number: store.last.Add(1)}
		store.sums.Store(w.Handle.Number, r)
		defer store.sums.Delete(w.Handle.Number)
	}
	if w.Params == 0 || w.Handle != nil {
		if _, err := h.sumRequest(ctx, w); !errors.Is(err, errElsewhere) {
			return err
		}
		h.copies.Store(true)
		w.Handle = nil
	}
	return h.copySum(ctx, w, r)
}

// copySum sends the values, then the control variates, in chunks, one after the
// other.
func (h *Host) copySum(ctx context.Context, w *bus.Sum, r *bus.Result) error {
	limit := h.conn.NATS().MaxPayload()
	size := min(bus.ChunkBytes, int(limit)-proto.Size(w)-1024) / 8
	if size < 1 {
		return fmt.Errorf("bus: sum of job %d: %d bytes of losses do not fit a message of %d: the job has too many clients", w.Job, proto.Size(w), limit)
	}
	values := slices.Collect(slices.Chunk(r.Values, size))
	variates := slices.Collect(slices.Chunk(slices.Concat(r.Variates...), 2*size))
	chunks := len(values) + len(variates)
	w.Chunks = uint32(chunks)
	for i := range chunks {
		w.Chunk = uint32(i)
		if i < len(values) {
			w.Values = vector.Bytes(values[i])
		} else {
			w.Values, w.Variates = nil, vector.Bytes(variates[i-len(values)])
		}
		if i == 1 {
			w.Clients = nil
		}
		done, err := h.sumRequest(ctx, w)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("bus: sum of job %d: the coordinator misses chunks after all %d were sent", w.Job, chunks)
}

// sumPatience is how long one message of a sum waits for its answer until it is sent
// again.
const sumPatience = 10 * time.Second

// sumRequest sends one message of a sum until it is answered. One of which either way
// arrives damaged is sent again; then the sum is refused, and the job done again.
func (h *Host) sumRequest(ctx context.Context, w *bus.Sum) (done bool, err error) {
	b, err := bus.MarshalSealed(w)
	if err != nil {
		return false, err
	}
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	var r bus.SumReply
	damaged := 0
	passes := func(err error) bool {
		return h.conn.Passes(err) || errors.Is(err, bus.ErrDamaged) && damaged < natsconn.MaxDamaged
	}
	err = h.conn.Retry(ctx, natsconn.Retry{Attempt: sumPatience, Passes: passes}, func(ctx context.Context) error {
		reply, err := h.conn.NATS().RequestWithContext(ctx, subject.Sums(h.run), b)
		if err != nil {
			return err
		}
		err = bus.UnmarshalSealed(reply.Data, &r)
		if err == nil && r.Status == bus.SendAgain {
			err = bus.ErrDamaged
		}
		if err != nil {
			damaged++
		}
		return err
	})
	if errors.Is(err, bus.ErrDamaged) {
		return false, fmt.Errorf("bus: sum of job %d: %w: %d times: %w", w.Job, bus.ErrRefused, damaged, err)
	}
	if err != nil {
		return false, cmp.Or(h.Err(), fmt.Errorf("bus: sum of job %d: %w", w.Job, err))
	}
	switch r.Status {
	case bus.Continue:
		return false, nil
	case bus.Accepted, bus.Repeated:
		return true, nil
	case bus.SendValues:
		return false, errElsewhere
	}
	return false, fmt.Errorf("bus: sum of job %d: %w: %s", w.Job, bus.ErrRefused, r.Reason)
}

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
	err := h.conn.Retry(ctx, natsconn.Retry{Attempt: pullPatience, Passes: passes}, func(ctx context.Context) (err error) {
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
	d := &delivery{job: j, host: h, msg: m, stop: stop}
	h.holds(j.Job, true)
	d.mark.Go(func() {
		for range bus.Ticks(marking, consumer.CachedInfo().Config.AckWait/3) {
			_ = m.InProgress() // lost marks end in a second delivery, which is harmless
		}
	})
	return d, nil
}

// consumer looks the consumer up unless that has been done.
func (h *Host) consumer(ctx context.Context, kernel string) (jetstream.Consumer, error) {
	if known, ok := h.consumers.Load(kernel); ok {
		return known.(jetstream.Consumer), nil
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
	d.host.holds(d.job.Job, false)
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
	case d.host.conn.Passes(err): // nobody answers for a job that is not queued
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
	if err := nak(); err != nil && !d.host.conn.Passes(err) {
		return fmt.Errorf("bus: give back job %d: %w", d.job.Job, err)
	}
	return nil
}
