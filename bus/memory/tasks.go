package memory

import (
	"fmt"
	"sync"

	"fedpace/bus"
)

// batchSize is how many tasks are handed to a host together. A host works at a full batch while the
// coordinator fills the next one. The last, incomplete batch is answered on the goroutine of the
// coordinator, which waits for the plans anyway.
const batchSize = 256

// batch is a number of tasks on their way to a host.
type batch struct {
	// coordinator is the coordinator that gets the plans.
	coordinator *Coordinator
	// count is how many of the orders are in use.
	count int
	tasks [batchSize]order
}

// order is a task and the simulated client that it is for. The digest is where the task's model digest
// is stored, so that a batch needs no further memory.
type order struct {
	client int
	task   bus.Task
	digest bus.Digest
}

// batches reuses the memory of batches.
var batches = sync.Pool{New: func() any { return new(batch) }}

// copyFrom copies the task t of a client into the order, so that the sender may use its message again at
// once. It reuses the memory of the order's digest.
func (o *order) copyFrom(client int, t *bus.Task) {
	o.client = client
	// The fields are set in place, because there are millions of tasks.
	to := &o.task
	to.Task = t.Task
	to.Round = t.Round
	to.LocalSteps = t.LocalSteps
	to.LearningRate = t.LearningRate
	to.StepsDone = t.StepsDone
	to.ModelBits = t.ModelBits
	to.UpdateBits = t.UpdateBits
	to.StartNs = t.StartNs
	to.Joules = t.Joules
	to.BatchPart = t.BatchPart
	to.Device = t.Device
	to.Presence = t.Presence
	to.Stamp = t.Stamp
	to.Fence = t.Fence
	to.Echo = t.Echo
	to.Over = t.Over
	to.Placement = t.Placement
	to.Client = t.Client
	to.Version = t.Version
	// Slices are copied, because their memory is the sender's.
	to.ModelDigest = append(o.digest[:0], t.ModelDigest...)
	to.Digest = append(to.Digest[:0], t.Digest...)
	to.FrozenDigest = append(to.FrozenDigest[:0], t.FrozenDigest...)
	to.KeptDigest = append(to.KeptDigest[:0], t.KeptDigest...)
}

// SendTask adds the task t of a simulated client to the batch, which leaves when it is full or when
// plans are waited for. The task is copied.
func (c *Coordinator) SendTask(client int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if client < 0 || client > bus.MaxClients {
		return fmt.Errorf("bus: client %d, want 0 to %d", client, bus.MaxClients)
	}
	c.sending.Lock()
	// Batches are reused, so that tasks cost no allocation.
	if c.batch == nil {
		c.batch = batches.Get().(*batch)
		c.batch.coordinator = c
		c.batch.count = 0
	}
	b := c.batch
	b.tasks[b.count].copyFrom(client, t)
	b.count++
	isFull := b.count == batchSize
	// A full batch is taken away under the lock, so that no other sender adds to it.
	if isFull {
		c.batch = nil
	}
	c.sending.Unlock()
	if isFull {
		c.handToHost(b)
	}
	return nil
}

// flush hands the batch to a host, however full it is.
func (c *Coordinator) flush() {
	c.sending.Lock()
	b := c.batch
	c.batch = nil
	c.sending.Unlock()
	if b != nil {
		c.handToHost(b)
	}
}

// handToHost gives a batch of tasks to a host. Without a host the tasks are lost, as they would be on a network.
func (c *Coordinator) handToHost(b *batch) {
	if h := c.run.nextHost(); h != nil {
		h.takeBatch(b)
	}
}

// takeBatch takes a batch of tasks. A full one is left to the host's own goroutine. An incomplete one is answered at
// once, on the goroutine of the caller: the coordinator, which waits for its plans anyway.
func (h *Host) takeBatch(b *batch) {
	if b.count < batchSize {
		h.answer(b)
		return
	}
	select {
	case h.batches <- b:
	case <-h.life.Done():
	}
}

// serve takes full batches from the channel and answers them, one after the other, until the host
// ends.
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

// answer computes the plans of a batch and gives them to the coordinator, unless the host has ended. An
// error of a plan ends the host.
func (h *Host) answer(b *batch) {
	h.planning.Lock()
	defer h.planning.Unlock()
	if h.life.Err() != nil {
		return
	}
	// The plans outlive the batch, so they have memory of their own, a slab: the coordinator gives it back when it
	// takes the next plans.
	slab := b.coordinator.plans.slab(b.count)
	h.plans = h.plans[:0]
	for i := range b.count {
		o := &b.tasks[i]
		p := &slab.plans[i]
		p.Task = o.task.Task
		p.Placement = o.task.Placement
		err := h.computePlan(o.client, &o.task, p)
		if err == nil {
			err = p.Validate()
		}
		if err != nil {
			h.end(fmt.Errorf("bus: plan of client %d for task %d: %w", o.client, o.task.Task, err))
			return
		}
		h.plans = append(h.plans, bus.ClientPlan{Client: o.client, Plan: p})
	}
	b.coordinator.plans.put(slab, h.plans)
	batches.Put(b)
}
