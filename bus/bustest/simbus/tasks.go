package simbus

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
)

// SendTask sends a copy of a task.
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
	t.Placement = c.first
	sent := proto.CloneOf(t)
	c.conn.send("task", func() { c.server.dispatch(c, client, sent) })
	return nil
}

// answer sends the plan of a task, unless the host has ended.
func (h *Host) answer(client int, t *bus.Task) {
	h.planning.Lock()
	defer h.planning.Unlock()
	if h.life.Err() != nil {
		return
	}
	if h.config.Stamp != 0 && t.Stamp != h.config.Stamp {
		h.end(fmt.Errorf("bus: run %s: %w", h.server.run, bus.ErrStale))
		return
	}
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

// takePlan leaves out a plan of another coordinator's task.
func (c *Coordinator) takePlan(p bus.ClientPlan) {
	if p.Plan.Placement == c.first {
		c.plans.Put(p)
	} else {
		c.ignored.Add(1)
	}
}
