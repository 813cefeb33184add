package simbus

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
)

// SendTask sends a copy of the task t of a simulated client to the bus, which passes it to a host.
// It sets the run's stamp and this coordinator's placement in t.
func (c *Coordinator) SendTask(client int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if client < 0 || client > bus.MaxClients {
		return fmt.Errorf("bus: client %d, want 0 to %d", client, bus.MaxClients)
	}
	if c.config.Info != nil {
		t.Stamp = c.config.Info.Stamp
	}
	t.Placement = c.placement
	sent := proto.CloneOf(t)
	c.conn.send("task", func() { c.server.dispatch(c, client, sent) })
	return nil
}

// answer computes the plan of the task t of a client and sends it to the run's coordinator, unless
// the host has ended. A task of another configuration, or a plan that fails, ends the host.
func (h *Host) answer(client int, t *bus.Task) {
	h.planning.Lock()
	defer h.planning.Unlock()
	if h.life.Err() != nil {
		return
	}
	// A stamp of 0 stands for a host in the coordinator's process, which has its configuration.
	if h.config.Stamp != 0 && t.Stamp != h.config.Stamp {
		h.end(fmt.Errorf("bus: run %s: %w", h.server.run, bus.ErrStale))
		return
	}
	// By the placement the coordinator tells its own tasks from those of an earlier one with the same numbers.
	p := &bus.Plan{Task: t.Task, Placement: t.Placement}
	err := h.plan(client, t, p)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		h.end(fmt.Errorf("bus: plan of client %d for task %d: %w", client, t.Task, err))
		return
	}
	h.conn.send("plan", func() {
		if c := h.server.coordinator(); c != nil {
			c.conn.receive("plan", func() { c.takePlan(bus.ClientPlan{Client: client, Plan: p}) })
		}
	})
}

// takePlan takes a plan that has arrived, which repeats the placement of its task: a random number of the
// coordinator that issued the task. A plan for another coordinator of the run is counted as ignored.
func (c *Coordinator) takePlan(p bus.ClientPlan) {
	if p.Plan.Placement == c.placement {
		c.plans.Put(p)
	} else {
		c.ignored.Add(1)
	}
}
