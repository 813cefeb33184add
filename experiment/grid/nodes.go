package grid

import (
	"context"
	"fmt"

	"fedpace/actors/fleet"
	"fedpace/actors/flower"
	"fedpace/coordinator/round"
	"fedpace/simclock"
)

// serveNext lets a process serve the next message of a client, if the client is not busy and has
// one. A message whose reply is in the journal needs no process.
func (p *player) serveNext(client int) error {
	n := &p.nodes[client]
	for !n.busy && len(n.waiting) > 0 {
		m := n.waiting[0]
		n.waiting = n.waiting[1:]
		n.served++
		m.ordinal = n.served
		reply, err := p.journal.reply(m, n.state)
		if err != nil {
			return err
		}
		if reply == nil {
			n.busy = true
			p.serving++
			p.pool.Submit(p.task(m), func(r flower.Result) { p.results <- r })
			return nil
		}
		p.result.Replayed++
		if err := p.place(m, reply); err != nil {
			return err
		}
	}
	return nil
}

// task is a message with what its node brings to it.
func (p *player) task(m *message) *flower.Task {
	return &flower.Task{
		Message:   *m.sent,
		Number:    m.number,
		ID:        fmt.Sprintf("m%08d", m.number),
		Partition: m.client,
		Ordinal:   m.ordinal,
		State:     p.nodes[m.client].state,
	}
}

// settle waits until the processes have served everything that was pushed.
func (p *player) settle(ctx context.Context) error {
	for p.serving > 0 {
		var r flower.Result
		select {
		case r = <-p.results:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.serving--
		if r.Err != nil {
			return r.Err
		}
		m := p.messages[r.Task.Number]
		p.nodes[m.client].busy = false
		// Only of some messages the processor time is measured.
		if r.Reply.Seconds > 0 {
			p.result.Seconds += r.Reply.Seconds
			p.result.Steps += int64(r.Reply.Steps)
		}
		if err := p.journal.keep(m, p.nodes[m.client].state, r.Reply); err != nil {
			return err
		}
		if err := p.place(m, r.Reply); err != nil {
			return err
		}
		if err := p.serveNext(m.client); err != nil {
			return err
		}
	}
	return nil
}

// place puts what becomes of a message on the clock, once it was served: it follows from when the
// node is free, from the laws of its device, and from the local steps and the sizes alone.
func (p *player) place(m *message, reply *flower.Reply) error {
	m.reply = reply
	m.sent.Content = nil // it was served, and may be large
	n := &p.nodes[m.client]
	m.begins = p.present(m.client, max(m.pushed, n.free))
	m.fate = expired
	m.ends = m.expires
	if m.begins < m.expires && m.begins < round.MaxTime {
		if err := p.plan(m, n); err != nil {
			return err
		}
	}
	if m.ends >= round.MaxTime {
		// It never ends: the server may wait for it in vain.
		return nil
	}
	p.clock.Schedule(simclock.Event{
		At:   max(m.ends, p.clock.Now()),
		Seq:  m.number,
		Task: m.number,
		Kind: uint32(m.fate),
	})
	return nil
}

// plan finds how long the node takes for a message, and its fate. The message begins before it
// expires.
func (p *player) plan(m *message, n *node) (err error) {
	size := m.reply.Size
	if m.isError() {
		size = errorBytes
	}
	bits := fleet.Bits{Down: 8 * m.downBytes, Up: 8 * size}
	m.plan, err = p.Fleet.Plan(p.Fleet.Client(m.client), m.number, m.reply.Steps, bits, int64(m.begins))
	if err != nil {
		return fmt.Errorf("message %d to node %d: %w", m.number, m.sent.Node, err)
	}
	if m.plan.Dropout != fleet.NoPhase {
		// The node has left: it sends no reply, and keeps the state that it had before.
		n.free = m.begins + round.Time(m.plan.After)
		reported := n.free + p.Heartbeat
		if p.Heartbeat > 0 && reported < m.expires {
			m.fate = unavailable
			m.ends = reported
		}
		return nil
	}
	n.free = m.begins + round.Time(m.plan.Total())
	n.state = m.reply.State
	if n.free <= m.expires {
		m.fate = replied
		m.ends = n.free
	}
	return nil
}

// dropsOut reports whether the node leaves while it serves the message.
func (m *message) dropsOut() bool { return m.plan.Dropout != fleet.NoPhase }

// present is the first time from t on at which a client is available.
func (p *player) present(client int, t round.Time) round.Time {
	for t < round.MaxTime && !p.Fleet.Available(client, int64(t)) {
		t = round.Time(p.Fleet.NextChange(client, int64(t)))
	}
	return t
}
