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

// SendTask publishes a task; the message leaves with those that follow it closely.
func (c *Coordinator) SendTask(client int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if client < 0 || client > bus.MaxClients {
		return fmt.Errorf("bus: client %d, want 0 to %d", client, bus.MaxClients)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.hosts == nil {
		return c.publishTask(client, t, placement.Target{})
	}
	t.Stamp = c.hosts.Info.Stamp
	if !c.begun {
		c.begun = true
		c.hosts.placement.Begin()
	}
	return c.publishTask(client, t, c.hosts.placement.Place())
}

// publishTask sends a task to a host, or to any where there is no target.
func (c *Coordinator) publishTask(client int, t *bus.Task, target placement.Target) (err error) {
	t.Placement = target.Token
	if c.buffer, err = bus.Marshal(c.buffer[:0], t); err != nil {
		return err
	}
	// Over a connection that is away it is sent again when that is back.
	if err := c.conn.Publish(c.subject.Subject(client, cmp.Or(target.Verb, subject.Task)), c.buffer); err != nil &&
		!c.conn.Transient(err) {
		return fmt.Errorf("bus: task %d to client %d: %w", t.Task, client, err)
	}
	return nil
}

// onPlan runs on the plans' subscription.
func (c *Coordinator) onPlan(m *nats.Msg) {
	client, ok := c.subject.Client(m.Subject, subject.Plan)
	if !ok || natsconn.Relayed(m) {
		c.ignored.Add(1)
		return
	}
	plan := new(bus.Plan)
	if err := bus.Unmarshal(m.Data, plan); err != nil {
		// Plans come from hosts, never from devices: a bad one is a broken host,
		// and the clock would stand for ever without it.
		c.failed(fmt.Errorf("%w (from simulated client %d)", err, client))
		return
	}
	c.arrived = append(c.arrived[:0], bus.ClientPlan{Client: client, Plan: plan})
	for _, nested := range plan.Others {
		c.arrived = append(c.arrived, bus.ClientPlan{Client: int(nested.Client), Plan: nested})
	}
	plan.Others = nil
	if c.hosts != nil {
		c.arrived = slices.DeleteFunc(c.arrived, func(p bus.ClientPlan) bool { // of another coordinator's task
			return !c.hosts.placement.Answered(p.Plan.Placement)
		})
	}
	c.plans.PutAll(c.arrived)
}

const (
	// stallAfter is how long no plan may come before hosts that have not answered
	// all of their tasks are passed over, if others have. It doubles until a plan
	// comes.
	stallAfter = 50 * time.Millisecond
	mostStalls = 16 // doublings
)

// planWait is a wait for plans.
type planWait struct {
	timer  *time.Timer  // runs while plans are waited for
	stalls atomic.Int32 // waits since the last plan that ended with hosts passed over
	step   atomic.Int64 // time.Duration for which the timer was set
	waited atomic.Int64 // time.Duration without a plan, up to the step
}

// TakePlans fails with the cause: a slow consumer's drop, a lost connection, a plan
// that is not valid. Its error wraps [bus.ErrInterrupted] when hosts are passed
// over, and when no plan comes for CoordinatorConfig.PlanPatience: a task that no
// host gets leaves no trace on the bus.
func (c *Coordinator) TakePlans(ctx context.Context, buf []bus.ClientPlan) ([]bus.ClientPlan, error) {
	step := c.config.PlanPatience
	if c.hosts != nil {
		c.sending.Lock()
		c.begun = false
		c.sending.Unlock()
		step = min(step, stallAfter<<c.wait.stalls.Load())
	}
	c.wait.waited.Store(0)
	c.wait.step.Store(int64(step))
	c.wait.timer.Reset(step)
	defer c.wait.timer.Stop()
	plans, err := c.plans.Take(ctx, buf)
	if err == nil {
		c.wait.stalls.Store(0)
	}
	return plans, err
}

// onNoPlan runs when plans have been waited for long enough to suspect a host, and
// at last when nothing has come for the run's patience.
func (c *Coordinator) onNoPlan() {
	if c.plans.Waiting() == 0 {
		return // one has just come
	}
	w := &c.wait
	step := time.Duration(w.step.Load())
	waited := time.Duration(w.waited.Add(int64(step)))
	if c.hosts != nil && c.hosts.placement.Stalled() {
		w.stalls.Store(min(w.stalls.Load()+1, mostStalls))
		c.plans.Signal(fmt.Errorf("bus: run %s: a host does not answer, others do: %w", c.run, bus.ErrInterrupted))
		return
	}
	if remaining := c.config.PlanPatience - waited; remaining > 0 {
		step = min(2*step, remaining)
		w.step.Store(int64(step))
		w.timer.Reset(step)
		return
	}
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
