package grid

import (
	"context"
	"fmt"

	"fedpace/actors/fleet"
	"fedpace/actors/flower"
	"fedpace/coordinator/round"
	"fedpace/simclock"
)

// serveNext hands the next waiting message of a client, given by its index, to a process. It does
// nothing if the client is busy or has no message waiting: a client serves one message at a time,
// in the order of their pushes. Messages whose replies are in the journal need no process; they are
// placed on the clock at once, and the one behind them is next.
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
		// The journal has no reply, so a process serves the message; awaitServed takes its result.
		if reply == nil {
			n.busy = true
			p.serving++
			p.pool.Submit(p.task(m), func(r flower.Result) { p.results <- r })
			return nil
		}
		p.result.Replayed++
		if err := p.scheduleEnd(m, reply, sumOfReply(reply)); err != nil {
			return err
		}
	}
	return nil
}

// task returns message m as the pool of processes takes it: with the partition of its node and the
// state that the app keeps there before the message.
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

// awaitServed waits until the processes have served every message that was pushed, including those that
// wait behind another of the same client. Then it is known how each of them ends (its fate), and its end is on the
// clock, so the clock may move on. It returns the first error of a process, or that of ctx.
func (p *player) awaitServed(ctx context.Context) error {
	for p.serving > 0 {
		// Results come in the order in which processes finish, which must not matter for the clock.
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
		// The reply is recorded, the end of its message is put on the clock, and the client takes its next message.
		m := p.messages[r.Task.Number]
		p.nodes[m.client].busy = false
		// Only of some messages the processor time is measured.
		if r.Reply.Seconds > 0 {
			p.result.Seconds += r.Reply.Seconds
			p.result.Steps += int64(r.Reply.Steps)
			if len(p.result.Measured) < maxMeasured {
				p.result.Measured = append(p.result.Measured, Measured{r.Reply.Steps, r.Reply.Seconds})
			}
		}
		replySum := sumOfReply(r.Reply)
		if err := p.journal.recordReply(m, p.nodes[m.client].state, r.Reply, replySum); err != nil {
			return err
		}
		if err := p.scheduleEnd(m, r.Reply, replySum); err != nil {
			return err
		}
		if err := p.serveNext(m.client); err != nil {
			return err
		}
	}
	return nil
}

// scheduleEnd decides when and how message m ends, now that a process or the journal has given its reply, whose sum is
// replySum, and schedules that end on the virtual clock. It depends on when the node is free, on the laws of its
// device, on the local steps and on the sizes alone, never on how long the process took.
func (p *player) scheduleEnd(m *message, reply *flower.Reply, replySum uint64) error {
	m.reply = reply
	if err := p.checkRepeated(m, replySum); err != nil {
		return err
	}
	// Its content was served, is needed no more, and may be large.
	m.sent.Content = nil
	n := &p.nodes[m.client]
	// The node takes it once it is free and available, one message after the other.
	m.begins = p.availableFrom(m.client, max(m.pushed, n.free))
	// Unless planMessage finds better, the message expires: its node takes it up too late, or never.
	m.fate = expired
	m.ends = m.expires
	// A message that its node takes up in time has a plan; any other simply expires.
	if m.isTakenInTime() {
		if err := p.planMessage(m, n); err != nil {
			return err
		}
	}
	// An error takes the place of a reply that never arrives.
	if m.fate == expired || m.fate == unavailable {
		m.reply.Drop()
	}
	if m.ends >= round.MaxTime {
		// It never ends: the server may wait for it in vain.
		return nil
	}
	// The clock takes no event before its own time.
	p.clock.Schedule(simclock.Event{
		At:   max(m.ends, p.clock.Now()),
		Seq:  m.number,
		Task: m.number,
		Kind: uint32(m.fate),
	})
	return nil
}

// planMessage draws how long node n takes to download message m, to compute and to upload the reply, by
// the laws of its device, and sets the time from which on the node is free. It is called with the fate expired and the
// end m.expires, and changes both if the reply arrives or a dropout is reported before. m.begins must lie before
// m.expires. For a reply that comes too late both stay, although the node was busy with it and keeps the new state.
func (p *player) planMessage(m *message, n *node) (err error) {
	// An error carries no content, whatever its text: it takes a fixed size on the link.
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
		// The grid notices the dropout by missing heartbeats, unless the message expires before.
		if p.Heartbeat > 0 && reported < m.expires {
			m.fate = unavailable
			m.ends = reported
		}
		return nil
	}
	n.free = m.begins + round.Time(m.plan.Total())
	n.state = m.reply.State
	// The reply counts only if the upload is over within the message's time to live.
	if n.free <= m.expires {
		m.fate = replied
		m.ends = n.free
	}
	return nil
}

// isTakenInTime reports whether the node takes the message up before its time to live is over. It is known once
// scheduleEnd has found when the node could take it.
func (m *message) isTakenInTime() bool { return m.begins < m.expires && m.begins < round.MaxTime }

// dropsOut reports whether the node leaves while it serves the message, so that it never replies.
// It is known once scheduleEnd has decided how the message ends.
func (m *message) dropsOut() bool { return m.plan.Dropout != fleet.NoPhase }

// availableFrom returns the first virtual time from t on at which the client with this index is
// available, by the availability law of its device. It returns round.MaxTime or more if the client
// never comes back.
func (p *player) availableFrom(client int, t round.Time) round.Time {
	for t < round.MaxTime && !p.Fleet.Available(client, int64(t)) {
		t = round.Time(p.Fleet.NextChange(client, int64(t)))
	}
	return t
}
