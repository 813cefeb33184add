package natsbus

import (
	"cmp"
	"context"
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

// SendTask publishes a task for a simulated client without waiting. The message may leave together
// with those that follow. Where hosts are in other processes, the task is placed on one of them.
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
		return c.publishTask(client, t, placement.Target{})
	}
	t.Stamp = c.hosts.Info.Stamp
	t.Fence = c.lease.fence.token.Load()
	// The first task after a wait for plans may begin a new batch, in which the hosts' times are
	// compared.
	if !c.batchBegun {
		c.batchBegun = true
		c.hosts.placement.BeginBatch()
	}
	return c.publishTask(client, t, c.hosts.placement.Place())
}

// publishTask sends a task to the target host, on the subject of that host's tasks, or to any host where the target
// has no verb. The plan will repeat the target's token. Over a connection that is away the task is lost without an
// error; it is sent again when the connection is back.
func (c *Coordinator) publishTask(client int, t *bus.Task, target placement.Target) (err error) {
	t.Placement = target.Token
	c.taskBuffer, err = bus.Marshal(c.taskBuffer[:0], t)
	if err != nil {
		return err
	}
	err = c.conn.Publish(c.subject.Subject(client, cmp.Or(target.Verb, subject.Task)), c.taskBuffer)
	if err != nil && !c.conn.Transient(err) {
		return fmt.Errorf("bus: task %d to client %d: %w", t.Task, client, err)
	}
	return nil
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
