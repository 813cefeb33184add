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

// hostQueue is the NATS queue group of a run's hosts: of the tasks that are for any host, each goes to
// one member of the group.
const hostQueue = "hosts"

// Host is a host's end of a run over NATS: a [bus.Host].
type Host struct {
	run    string
	config bus.HostConfig
	conn   *Conn
	models modelCache

	// life ends when the host can no longer work; its cause says why.
	life context.Context
	end  context.CancelCauseFunc
	// serving are the goroutines of the host, which end with life.
	serving sync.WaitGroup

	// answering guards the fields below that answer tasks. Every task reuses their memory.
	answering sync.Mutex
	subjects  subject.Clients
	// computePlan computes the plan p of a task.
	computePlan func(client int, t *bus.Task, p *bus.Plan) error
	task        bus.Task
	// plan is the plan of the task that is being answered.
	plan bus.Plan
	// bufferedPlans is how many plans the buffer holds.
	bufferedPlans int
	// plansSubject is the subject of the first of them, on which all are sent.
	plansSubject string
	// plansMessage is the message with these plans.
	plansMessage []byte

	// highestFence is the highest fencing token of the messages so far.
	highestFence highest

	holding sync.Mutex
	// jobs are the numbers of the jobs that the host has taken and not ended.
	jobs []uint64
	// jobFences are the fencing tokens of these jobs, by job.
	jobFences map[uint64]uint64

	// calls are the calls that the host serves; its lock is held for a moment only.
	calls servedCalls

	js jetstream.JetStream
	// consumers holds a jetstream.Consumer for each kernel class that was looked up.
	consumers sync.Map
	// copiesSums says that the coordinator is in another process, so sums must be copied.
	copiesSums atomic.Bool
	// sumMemory has a *[]byte for each message of a sum under way, whose memory the next message uses again.
	sumMemory sync.Pool
}

// OpenHost joins a run, whose coordinator need not be there yet. A host without a name gets a
// random one. The host takes no task before ServeTasks is called.
func (c *Conn) OpenHost(ctx context.Context, run string, config bus.HostConfig) (bus.Host, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	// The random part of an inbox serves as a name that no other host has.
	config.Name = cmp.Or(config.Name, nats.NewInbox()[len(nats.InboxPrefix):])
	if err := names.CheckToken("host", config.Name); err != nil {
		return nil, err
	}
	h := &Host{
		run:       run,
		config:    config,
		conn:      c,
		models:    modelCache{limit: cacheLimit, retryFor: replicaLag},
		jobFences: map[uint64]uint64{},
		calls:     servedCalls{open: map[uint64]bool{}},
	}
	var err error
	h.js, err = jetstream.New(c.NATS(), jetstream.WithDefaultTimeout(natsconn.RequestTimeout))
	if err != nil {
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

// Err returns why the host can no longer work; it is nil while the host can.
func (h *Host) Err() error { return context.Cause(h.life) }

// Done returns a channel that is closed when the host can no longer work.
func (h *Host) Done() <-chan struct{} { return h.life.Done() }

// ServeTasks begins to answer the tasks that are for this host and, as one of a queue group, those
// that are for any host. fn computes the plan of a task; it is called for one task at a time. The
// host's heartbeats begin here, and everything ends with the host.
func (h *Host) ServeTasks(ctx context.Context, fn func(client int, t *bus.Task, p *bus.Plan) error) error {
	h.subjects = subject.ClientSubjects(h.run)
	h.computePlan = fn
	if err := h.subscribeTasks(subject.Task, hostQueue); err != nil {
		return err
	}
	if err := h.subscribeTasks(subject.TaskFor(h.config.Name), ""); err != nil {
		return err
	}
	if err := h.conn.Settled(ctx); err != nil {
		return err
	}
	h.serving.Go(func() { h.conn.publishEvery(h.life, heartbeatEvery, subject.Info(h.run), h.presence) })
	return nil
}

// subscribeTasks listens, until the host ends, to the tasks whose subjects end with verb. With a
// queue, each task goes to only one of the hosts in that group.
func (h *Host) subscribeTasks(verb, queue string) error {
	sub, err := h.conn.Listen(subject.AnyClient(h.run, verb), queue, func(m *nats.Msg) { h.onTask(m, verb) })
	if err != nil {
		return err
	}
	h.serving.Go(func() {
		<-h.life.Done()
		// Unsubscribe fails only on a closed connection, which has no subscriptions.
		_ = sub.Unsubscribe()
	})
	return nil
}

// presence returns the host's heartbeat: its workers and the jobs that it has. leaves says that it is the last one, by
// which the host leaves.
func (h *Host) presence(leaves bool) bus.Message {
	h.holding.Lock()
	defer h.holding.Unlock()
	return &bus.InfoRequest{
		Host:    h.config.Name,
		Workers: uint32(h.config.Workers),
		Leaves:  leaves,
		Local:   h.config.Local,
		Jobs:    slices.Clone(h.jobs),
		Fence:   h.highestFence.Load(),
	}
}

// noteJob notes that the host has taken a job, or is done with it if taken is false. A job that is taken is reported
// at once to the coordinator, which watches how long the host needs.
func (h *Host) noteJob(j *bus.Job, taken bool) {
	h.holding.Lock()
	// The order of the list does not matter; a job may end before others that were taken earlier.
	if taken {
		h.jobs = append(h.jobs, j.Job)
		h.jobFences[j.Job] = j.Fence
	} else if i := slices.Index(h.jobs, j.Job); i >= 0 {
		h.jobs = slices.Delete(h.jobs, i, i+1)
	}
	// The host may have got the job a second time, and still work on that copy.
	if !slices.Contains(h.jobs, j.Job) {
		delete(h.jobFences, j.Job)
	}
	h.holding.Unlock()
	if taken {
		const leaves = false
		h.conn.publish(subject.Info(h.run), h.presence(leaves))
	}
}

// onTask handles a message with tasks of one or several clients. The plans of tasks that have arrived together are sent
// together, since a message costs more than a plan: the buffer is sent when no further message waits, or when it is
// full.
func (h *Host) onTask(m *nats.Msg, verb string) {
	h.answering.Lock()
	defer h.answering.Unlock()
	// Messages of others on these subjects are ignored, but the plans so far may still have to be
	// sent.
	client, isSimulated := h.subjects.Client(m.Subject, verb)
	if isSimulated && !natsconn.IsMisdirected(m) {
		if err := h.answerTasks(m.Data, client); err != nil {
			h.end(err)
			return
		}
	}
	// The count includes the message that is being handled.
	queued, _, err := m.Sub.Pending()
	moreWait := err == nil && queued > 1
	if !moreWait {
		h.sendPlans()
	}
}

// answerTasks adds the plans of a message with tasks to the buffer, which it sends whenever that is full. client has
// the first of the tasks; the others name their clients. The host ends with any error.
func (h *Host) answerTasks(message []byte, client int) error {
	isFirst := true
	for encoded := range bus.SplitTasks(message) {
		// A message that is damaged, or that no coordinator has sent, is ignored from here on.
		if bus.Unmarshal(encoded, &h.task) != nil {
			return nil
		}
		if !isFirst {
			client = int(h.task.Client)
		}
		isFirst = false
		if err := h.addPlan(client); err != nil {
			return err
		}
		// A message holds one plan and up to MaxOthers others.
		if h.bufferedPlans >= 1+bus.MaxOthers {
			h.sendPlans()
		}
	}
	return nil
}

// sendPlans sends the plans in the buffer, if there are any.
func (h *Host) sendPlans() {
	if h.bufferedPlans == 0 {
		return
	}
	h.bufferedPlans = 0
	err := h.conn.Publish(h.plansSubject, h.plansMessage)
	// Over a connection that is away the plans are lost, and the coordinator sends the tasks again.
	if err != nil && !h.conn.Transient(err) {
		h.end(fmt.Errorf("bus: plans on %s: %w", h.plansSubject, err))
	}
}

// addPlan computes the plan of the client's task, h.task, and adds it to h.plansMessage, the message with the plans of
// tasks that have arrived together. It ignores a task with a lower fencing token than a message before: its sender has
// lost the run to another coordinator and may not know that. A task of another configuration than the host's is an
// error that wraps [bus.ErrStale].
func (h *Host) addPlan(client int) (err error) {
	if h.config.Stamp != 0 && h.task.Stamp != h.config.Stamp {
		return fmt.Errorf("bus: run %s: %w", h.run, bus.ErrStale)
	}
	h.plan.Reset()
	if !h.highestFence.admits(h.task.Fence) {
		return nil
	}
	h.plan.Task = h.task.Task
	h.plan.Fence = h.task.Fence
	h.plan.Placement = h.task.Placement
	// The host knows the task without what is for the bus alone.
	h.task.Client = 0
	err = h.computePlan(client, &h.task, &h.plan)
	if err == nil {
		err = h.plan.Validate()
	}
	// The message goes to the subject of the first plan's client. The other plans name their clients.
	if h.bufferedPlans == 0 {
		h.plansSubject = h.subjects.Subject(client, subject.Plan)
		h.plansMessage = h.plansMessage[:0]
	} else {
		h.plan.Client = uint64(client)
	}
	if err == nil {
		h.plansMessage, err = bus.AppendPlan(h.plansMessage, &h.plan)
	}
	if err != nil {
		return fmt.Errorf("bus: plan of client %d for task %d: %w", client, h.task.Task, err)
	}
	h.bufferedPlans++
	return nil
}

// SendSum sends the result of a job and returns when the coordinator has answered. It first puts the
// tensors into the store of this process and sends only their handle, which a coordinator in this
// process can use. One in another process answers that it does not know the handle: then, and from
// then on, the host sends the values in chunks.
func (h *Host) SendSum(ctx context.Context, r *bus.Result) error {
	message := proto.CloneOf(r.Sum)
	message.Trainer = h.config.Name
	message.Chunks = 1
	message.Params = uint32(len(r.Values))
	h.holding.Lock()
	message.Fence = h.jobFences[message.Job]
	h.holding.Unlock()
	if f := message.Failure; f != nil {
		f.Kind = bus.Text(f.Kind)
		f.Text = bus.Text(f.Text)
	}
	// A sum without values, such as a failure, is one message and needs no store.
	hasValues := message.Params > 0
	if hasValues && !h.copiesSums.Load() {
		store := h.conn.store
		message.Handle = &bus.Handle{Store: store.id[:], Number: store.last.Add(1)}
		store.sums.Store(message.Handle.Number, r)
		defer store.sums.Delete(message.Handle.Number)
	}
	// The handle is tried first; the coordinator's answer says whether it can use it.
	if !hasValues || message.Handle != nil {
		_, err := h.sumRequest(ctx, message)
		if !errors.Is(err, errElsewhere) {
			return err
		}
		h.copiesSums.Store(true)
		message.Handle = nil
	}
	return h.copySum(ctx, message, r)
}

// copySum sends the values, the client states and the buffers of r in chunks, one after the other, until the
// coordinator answers that it needs no more. message has the other fields of every message; only the first message has
// the clients with their losses.
func (h *Host) copySum(ctx context.Context, message *bus.Sum, r *bus.Result) error {
	if err := h.conn.checkPayload(); err != nil {
		return err
	}
	limit := h.conn.NATS().MaxPayload()
	// The first message has the clients beside its chunk. A value of the sum has 8 bytes; the elements of client states
	// and of buffers have 4, so twice as many fit into a chunk.
	valuesEach := min(sumChunkBytes, int(limit)-proto.Size(message)-fieldBytes) / 8
	elementsEach := 2 * valuesEach
	if valuesEach < 1 {
		return fmt.Errorf(
			"bus: sum of job %d: %d bytes of losses do not fit a message of %d: the job has too many clients",
			message.Job,
			proto.Size(message),
			limit,
		)
	}
	// The chunks of values come first, then those of the client states, then those of the buffers.
	values := slices.Collect(slices.Chunk(r.Values, valuesEach))
	states := slices.Collect(slices.Chunk(slices.Concat(r.ClientStates...), elementsEach))
	buffers := slices.Collect(slices.Chunk(slices.Concat(r.Buffers...), elementsEach))
	firstState := len(values)
	firstBuffer := firstState + len(states)
	chunks := firstBuffer + len(buffers)
	message.Chunks = uint32(chunks)
	for i := range chunks {
		message.Chunk = uint32(i)
		message.Values = nil
		message.Variates = nil
		message.Buffers = nil
		switch {
		case i < firstState:
			message.Values = vector.Bytes(values[i])
		case i < firstBuffer:
			message.Variates = vector.Bytes(states[i-firstState])
		default:
			message.Buffers = vector.Bytes(buffers[i-firstBuffer])
		}
		// The clients and their losses are in the first message alone.
		if i == 1 {
			message.Clients = nil
		}
		done, err := h.sumRequest(ctx, message)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("bus: sum of job %d: the coordinator misses chunks after all %d were sent", message.Job, chunks)
}

const (
	// sumChunkBytes is the largest part of a sum in one message, in bytes, where the server takes messages that
	// long: a message more costs both ends as much as the transfer of many values.
	sumChunkBytes = 8 * bus.ChunkBytes
	// sumPatience is how long a request to the coordinator of up to bus.ChunkBytes, such as a message of a sum, may
	// stay unanswered before it is sent again. A longer one has as much time for each such part.
	sumPatience = 5 * time.Second
)

// repeatRequest sends a message to the coordinator on a subject until there is an answer that decode can read. It
// gives up when ctx ends, or with [bus.ErrDamaged] when the message or its answer has arrived damaged
// natsconn.MaxDamaged times. damaged counts the answers that decode could not read.
func (h *Host) repeatRequest(
	ctx context.Context, subject string, message []byte, decode func(answer []byte) error,
) (damaged int, err error) {
	retry := natsconn.Retry{
		Attempt: sumPatience * time.Duration(1+len(message)/bus.ChunkBytes),
		Transient: func(err error) bool {
			return h.conn.Transient(err) || errors.Is(err, bus.ErrDamaged) && damaged < natsconn.MaxDamaged
		},
	}
	err = h.conn.Retry(ctx, retry, func(ctx context.Context) error {
		reply, err := h.conn.NATS().RequestWithContext(ctx, subject, message)
		if err != nil {
			return err
		}
		err = decode(reply.Data)
		if err != nil {
			damaged++
		}
		return err
	})
	return damaged, err
}

// sumRequest sends one message of a sum until it is answered. done is true if the coordinator needs
// no more of the sum. If the message or its answer arrives damaged, the message is sent again a few
// times; after that the sum counts as refused, and the job is done again. The error is errElsewhere
// if the coordinator cannot use the handle.
func (h *Host) sumRequest(ctx context.Context, message *bus.Sum) (done bool, err error) {
	// The encoding gets memory that an earlier message has used. The next one may use it again when this request
	// returns, since the connection copies what it sends.
	memory, isUsed := h.sumMemory.Get().(*[]byte)
	if !isUsed {
		memory = new([]byte)
	}
	b, err := bus.MarshalSealedIn(*memory, message)
	if err != nil {
		return false, err
	}
	*memory = b
	defer h.sumMemory.Put(memory)
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	var answer bus.SumReply
	damaged, err := h.repeatRequest(ctx, subject.Sums(h.run), b, func(reply []byte) error {
		err := bus.UnmarshalSealed(reply, &answer)
		// The message arrived damaged at the other end.
		if err == nil && answer.Status == bus.SendAgain {
			err = bus.ErrDamaged
		}
		return err
	})
	// The memory or the link of a machine is broken, so another host should do the job.
	if errors.Is(err, bus.ErrDamaged) {
		return false, fmt.Errorf("bus: sum of job %d: %w: %d times: %w", message.Job, bus.ErrRefused, damaged, err)
	}
	if err != nil {
		return false, cmp.Or(h.Err(), fmt.Errorf("bus: sum of job %d: %w", message.Job, err))
	}
	switch answer.Status {
	case bus.Continue:
		return false, nil
	case bus.Accepted, bus.Repeated:
		return true, nil
	// The coordinator is in another process and does not know the handle.
	case bus.SendValues:
		return false, errElsewhere
	}
	return false, fmt.Errorf("bus: sum of job %d: %w: %s", message.Job, bus.ErrRefused, answer.Reason)
}
