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
	jobs    []uint64 // numbers of the jobs that it has taken and not ended

	js        jetstream.JetStream
	consumers sync.Map    // jetstream.Consumer by kernel class; missing: to be found (again)
	copies    atomic.Bool // the coordinator is in another process
}

// OpenHost joins a run. The coordinator need not be there yet.
func (c *Conn) OpenHost(ctx context.Context, run string, config bus.HostConfig) (bus.Host, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	config.Name = cmp.Or(config.Name, nats.NewInbox()[len(nats.InboxPrefix):])
	if err := names.CheckToken("host", config.Name); err != nil {
		return nil, err
	}
	h := &Host{
		run:    run,
		config: config,
		conn:   c,
		models: modelCache{limit: cacheBytes, lag: replicaLag},
	}
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
	h.subjects = subject.ClientSubjects(h.run)
	h.plan = fn
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
	h.serving.Go(func() { h.conn.publishEvery(h.life, heartbeatEvery, subject.Info(h.run), h.presence) })
	return nil
}

// presence is what the host says of itself.
func (h *Host) presence(last bool) bus.Message {
	h.holding.Lock()
	defer h.holding.Unlock()
	return &bus.InfoRequest{
		Host:    h.config.Name,
		Workers: uint32(h.config.Workers),
		Leaves:  last,
		Local:   h.config.Local,
		Jobs:    slices.Clone(h.jobs),
	}
}

// noteJob notes that the host has taken a job, and tells the coordinator, or that it
// has ended one.
func (h *Host) noteJob(job uint64, taken bool) {
	h.holding.Lock()
	if taken {
		h.jobs = append(h.jobs, job)
	} else if i := slices.Index(h.jobs, job); i >= 0 {
		h.jobs = slices.Delete(h.jobs, i, i+1)
	}
	h.holding.Unlock()
	if taken {
		h.conn.publish(subject.Info(h.run), h.presence(false))
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
	if h.planned == 0 ||
		h.planned <= bus.MaxOthers && queued > 1 && err == nil {
		return
	}
	h.planned = 0
	// one that is away: the coordinator asks again
	if err := h.conn.Publish(h.subject, h.buffer); err != nil && !h.conn.Transient(err) {
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
	h.answer.Task = h.task.Task
	h.answer.Placement = h.task.Placement
	if err = h.plan(client, &h.task, &h.answer); err == nil {
		err = h.answer.Validate()
	}
	if h.planned == 0 {
		h.subject = subject.PlanSubject(m.Subject, verb)
		h.buffer = h.buffer[:0]
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
	w.Trainer = h.config.Name
	w.Chunks = 1
	w.Params = uint32(len(r.Values))
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
		return fmt.Errorf(
			"bus: sum of job %d: %d bytes of losses do not fit a message of %d: the job has too many clients",
			w.Job,
			proto.Size(w),
			limit,
		)
	}
	values := slices.Collect(slices.Chunk(r.Values, size))
	states := slices.Collect(slices.Chunk(slices.Concat(r.ClientStates...), 2*size))
	chunks := len(values) + len(states)
	w.Chunks = uint32(chunks)
	for i := range chunks {
		w.Chunk = uint32(i)
		if i < len(values) {
			w.Values = vector.Bytes(values[i])
		} else {
			w.Values, w.Variates = nil, vector.Bytes(states[i-len(values)])
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
		return h.conn.Transient(err) || errors.Is(err, bus.ErrDamaged) && damaged < natsconn.MaxDamaged
	}
	err = h.conn.Retry(ctx, natsconn.Retry{Attempt: sumPatience, Transient: passes}, func(ctx context.Context) error {
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
