package memory

import (
	"fmt"
	"sync"

	"fedpace/bus"
)

// batchSize is how many tasks travel together. A host works at a full batch while
// the coordinator fills the next; what is left when the coordinator waits for plans
// is answered on its goroutine, which has nothing else to do.
const batchSize = 256

// batch is tasks on their way to a host.
type batch struct {
	coordinator *Coordinator
	count       int
	tasks       [batchSize]order
}

// order is a task with its client. The digest is the memory of the task's.
type order struct {
	client int
	task   bus.Task
	digest bus.Digest
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (o *order) set(client int, t *bus.Task) {
	o.client = client
	o.task = bus.Task{
		Task:         t.Task,
		Round:        t.Round,
		LocalSteps:   t.LocalSteps,
		LearningRate: t.LearningRate,
		StepsDone:    t.StepsDone,
		ModelBits:    t.ModelBits,
		UpdateBits:   t.UpdateBits,
		StartNs:      t.StartNs,
		Joules:       t.Joules,
		Device:       t.Device,
		Presence:     t.Presence,
		Stamp:        t.Stamp,
		Over:         t.Over,
		Placement:    t.Placement,
		Version:      t.Version,
		ModelDigest:  append(o.digest[:0], t.ModelDigest...),
	}
	o.task.Digest = append(o.task.Digest, t.Digest...)
	o.task.FrozenDigest = append(o.task.FrozenDigest, t.FrozenDigest...)
	o.task.KeptDigest = append(o.task.KeptDigest, t.KeptDigest...)
}

// SendTask adds a task to the batch that leaves when it is full or plans are waited
// for.
func (c *Coordinator) SendTask(client int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if client < 0 || client > bus.MaxClients {
		return fmt.Errorf("bus: client %d, want 0 to %d", client, bus.MaxClients)
	}
	c.sending.Lock()
	if c.batch == nil {
		c.batch = batches.Get().(*batch)
		c.batch.coordinator, c.batch.count = c, 0
	}
	b := c.batch
	b.tasks[b.count].set(client, t)
	b.count++
	full := b.count == batchSize
	c.sending.Unlock()
	if full {
		c.flush()
	}
	return nil
}

// flush sends the tasks that have not left. Without a host they are lost.
func (c *Coordinator) flush() {
	c.sending.Lock()
	b := c.batch
	c.batch = nil
	c.sending.Unlock()
	if b == nil {
		return
	}
	if h := c.run.host(); h != nil {
		h.take(b)
	}
}

// take takes tasks for this host's clients.
func (h *Host) take(b *batch) {
	if b.count < batchSize {
		h.answer(b)
		return
	}
	select {
	case h.batches <- b:
	case <-h.life.Done():
	}
}

// serve answers full batches until the host ends.
func (h *Host) serve() {
	for {
		select {
		case b := <-h.batches:
			h.answer(b)
		case <-h.life.Done():
			return
		}
	}
}

// answer returns the plans of a batch, unless the host has ended.
func (h *Host) answer(b *batch) {
	h.planning.Lock()
	defer h.planning.Unlock()
	if h.life.Err() != nil {
		return
	}
	memory := make([]bus.Plan, b.count)
	h.plans = h.plans[:0]
	for i := range memory {
		o := &b.tasks[i]
		p := &memory[i]
		p.Task = o.task.Task
		p.Placement = o.task.Placement
		err := h.plan(o.client, &o.task, p)
		if err == nil {
			err = p.Validate()
		}
		if err != nil {
			h.end(fmt.Errorf("bus: plan of client %d for task %d: %w", o.client, o.task.Task, err))
			return
		}
		h.plans = append(h.plans, bus.ClientPlan{Client: o.client, Plan: p})
	}
	b.coordinator.plans.PutAll(h.plans)
	batches.Put(b)
}
