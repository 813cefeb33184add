package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/placement"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
)

// taskMessage is a message with tasks for one target that is not sent yet.
type taskMessage struct {
	target placement.Target
	// subject is that of the first task's client.
	subject string
	// encoded is the message, and count how many tasks it has.
	encoded []byte
	count   int
}

// maxTaskBytes bounds the bytes of a message with several tasks.
const maxTaskBytes = minPayload - fieldBytes

// SendTask adds a task for a simulated client to the message for its host, which leaves when it is full, and
// at the latest with the next TakePlans. Where hosts are in other processes, the task is placed on one of them.
func (c *Coordinator) SendTask(client int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if client < 0 || client > bus.MaxClients {
		return fmt.Errorf("bus: client %d, want 0 to %d", client, bus.MaxClients)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	// Without a registry all hosts are in this process, and any of them may take the task.
	if c.hosts == nil {
		return c.addTask(client, t, placement.Target{})
	}
	t.Stamp = c.hosts.Info.Stamp
	t.Fence = c.lease.fence.token.Load()
	// The first task after a wait for plans may begin a new batch, in which the hosts' times are
	// compared.
	if !c.batchBegun {
		c.batchBegun = true
		c.hosts.placement.BeginBatch()
	}
	return c.addTask(client, t, c.hosts.placement.Place())
}

// addTask adds a task to the message for the target host, on the subject of that host's tasks, or for any host
// where the target has no verb. The plan will repeat the target's token. The caller holds c.sending.
func (c *Coordinator) addTask(client int, t *bus.Task, target placement.Target) (err error) {
	t.Placement = target.Token
	t.Client = uint64(client)
	// nestedBytes is enough for the beginning of a nested field.
	const nestedBytes = 8
	m := c.taskMessageFor(target)
	isFull := m.count > bus.MaxOthers || len(m.encoded)+nestedBytes+t.SizeVT() > maxTaskBytes
	if isFull {
		if err := c.publishTasks(m); err != nil {
			return err
		}
	}
	// The subject names the client of the first task.
	if m.count == 0 {
		m.subject = c.subject.Subject(client, cmp.Or(target.Verb, subject.Task))
		t.Client = 0
	}
	m.encoded, err = bus.AppendTask(m.encoded, t)
	m.count++
	return err
}

// taskMessageFor returns the message for a target that is not sent yet, an empty one if there is none.
func (c *Coordinator) taskMessageFor(target placement.Target) *taskMessage {
	i := slices.IndexFunc(c.unsent, func(m taskMessage) bool { return m.target == target })
	if i < 0 {
		i = len(c.unsent)
		c.unsent = append(c.unsent, taskMessage{target: target})
	}
	return &c.unsent[i]
}

// publishTasks sends a message with tasks, and empties it. Over a connection that is away the tasks are lost
// without an error; they are sent again when the connection is back.
func (c *Coordinator) publishTasks(m *taskMessage) error {
	err := c.conn.Publish(m.subject, m.encoded)
	m.encoded = m.encoded[:0]
	m.count = 0
	if err != nil && !c.conn.Transient(err) {
		return fmt.Errorf("bus: tasks on %s: %w", m.subject, err)
	}
	return nil
}

// publishUnsent sends all messages with tasks that are not sent yet. Tokens of targets change, so messages are
// kept for those alone that have got tasks since the last call.
func (c *Coordinator) publishUnsent() (err error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.unsent = slices.DeleteFunc(c.unsent, func(m taskMessage) bool { return m.count == 0 })
	for i := range c.unsent {
		err = errors.Join(err, c.publishTasks(&c.unsent[i]))
	}
	return err
}

// onPlan handles a message with plans: that of the client in the subject, and in its field Others those of further
// clients. Plans come from hosts, never from devices, so an invalid one is the fault of a broken host: it ends the
// run, since the virtual clock would wait for that plan forever.
func (c *Coordinator) onPlan(m *nats.Msg) {
	client, ok := c.subject.Client(m.Subject, subject.Plan)
	if !ok || natsconn.IsMisdirected(m) {
		c.ignored.Add(1)
		return
	}
	plan := new(bus.Plan)
	if err := bus.Unmarshal(m.Data, plan); err != nil {
		c.failed(fmt.Errorf("%w (from simulated client %d)", err, client))
		return
	}
	c.arrivedPlans = append(c.arrivedPlans[:0], bus.ClientPlan{Client: client, Plan: plan})
	for _, nested := range plan.Others {
		c.arrivedPlans = append(c.arrivedPlans, bus.ClientPlan{Client: int(nested.Client), Plan: nested})
	}
	plan.Others = nil
	// A plan with a higher fencing token, or with a token of another coordinator's placement, answers a task of that
	// other coordinator.
	if c.hosts != nil {
		c.lease.fence.hear(plan.Fence)
		c.arrivedPlans = slices.DeleteFunc(c.arrivedPlans, func(p bus.ClientPlan) bool {
			return p.Plan.Fence > c.lease.fence.token.Load() || !c.hosts.placement.CountAnswer(p.Plan.Placement)
		})
	}
	c.plans.PutAll(c.arrivedPlans)
}

const (
	// stallAfter is how long no plan may arrive before hosts that have not answered all of their tasks are passed
	// over, if others have answered theirs. It doubles with each time that hosts were passed over since the last
	// plan.
	stallAfter = 50 * time.Millisecond
	// maxStalls is how often the time doubles at most.
	maxStalls = 16
)

// planWait is the state of a wait for plans. TakePlans begins it; the timer's function reads and
// changes it on another goroutine.
type planWait struct {
	// timer runs while plans are waited for. It calls onNoPlan.
	timer *time.Timer
	// timesPassedOver is how often hosts were passed over since the last plan, at most maxStalls.
	timesPassedOver atomic.Int32
	// timerDuration is the time.Duration that the timer was last set to.
	timerDuration atomic.Int64
	// waitedBefore is the time.Duration without a plan before the timer was last set.
	waitedBefore atomic.Int64
}

// TakePlans waits for plans and returns all that have arrived; buf becomes the buffer of a later
// result. It fails with the cause: a dropped message, a lost connection, or an invalid plan. Its
// error wraps [bus.ErrInterrupted] if hosts that hold the run up are passed over (see onNoPlan), and if no plan
// arrives for CoordinatorConfig.PlanPatience: a task that no host gets leaves no trace on the bus.
func (c *Coordinator) TakePlans(ctx context.Context, buf []bus.ClientPlan) ([]bus.ClientPlan, error) {
	if err := c.publishUnsent(); err != nil {
		return buf[:0], err
	}
	// If no plan arrives within step, the timer calls onNoPlan. Among hosts of other processes some may be late,
	// so the first look at them comes after stallAfter, doubled for each time that hosts were passed over since
	// the last plan.
	step := c.config.PlanPatience
	if c.hosts != nil {
		c.sending.Lock()
		c.batchBegun = false
		c.sending.Unlock()
		step = min(step, stallAfter<<c.wait.timesPassedOver.Load())
	}
	c.wait.waitedBefore.Store(0)
	c.wait.timerDuration.Store(int64(step))
	c.wait.timer.Reset(step)
	defer c.wait.timer.Stop()
	plans, err := c.plans.Take(ctx, buf)
	if err == nil {
		c.wait.timesPassedOver.Store(0)
	}
	return plans, err
}

// onNoPlan is called by the timer when no plan has arrived for as long as the timer was set to. If a host is late
// while others have answered, the late one is passed over: TakePlans returns an error, after which the open tasks are
// sent again, to those others. Otherwise the timer is set again, to twice the time, until PlanPatience is over in
// all: then TakePlans returns an error after which all open tasks are sent again.
func (c *Coordinator) onNoPlan() {
	// A plan has just arrived, so TakePlans does not wait any more.
	if c.plans.Waiting() == 0 {
		return
	}
	w := &c.wait
	step := time.Duration(w.timerDuration.Load())
	waited := time.Duration(w.waitedBefore.Add(int64(step)))
	if c.hosts != nil && c.hosts.placement.Stalled() {
		w.timesPassedOver.Store(min(w.timesPassedOver.Load()+1, maxStalls))
		c.plans.Signal(fmt.Errorf("bus: run %s: a host does not answer, others do: %w", c.run, bus.ErrInterrupted))
		return
	}
	// The hosts may just be slow, so the wait continues with a doubled step.
	if remaining := c.config.PlanPatience - waited; remaining > 0 {
		step = min(2*step, remaining)
		w.timerDuration.Store(int64(step))
		w.timer.Reset(step)
		return
	}
	// No host has answered, so none counts as slower than another.
	if c.hosts != nil {
		c.hosts.placement.Reset()
	}
	c.plans.Signal(fmt.Errorf(
		"bus: run %s: no plan for %v, although one is waited for: %w",
		c.run,
		c.config.PlanPatience,
		bus.ErrInterrupted,
	))
}
