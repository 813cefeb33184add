package gateway

import (
	"bytes"
	"strings"
	"time"

	"fedpace/bus"
)

// onSecure handles a message in a stage of secure aggregation: it becomes an event, which the run
// answers when the stage is over. Every message takes from the budget: there are five in a task, and
// repeats every few seconds while the device waits. The caller holds the lock.
func (x *peer) onSecure(m *bus.RawMessage) {
	if !x.spend(len(m.Data)) {
		return
	}
	p := new(bus.SecureMessage)
	if err := bus.Unmarshal(m.Data, p); err != nil {
		x.ignore(ReasonMalformed, err.Error())
		x.answer(m, bus.Refused, err.Error(), nil)
		return
	}
	// Only the process that has the device's place may act for it.
	if x.taken && p.Process != x.process {
		x.refuseTwin(m)
		return
	}
	if x.outranked(p.Fence) {
		return
	}
	x.speaks(p.Process)
	isOpen := x.gateway.config.Secure && x.task == p.Task && bytes.Equal(p.TaskDigest, x.digest)
	// The sum was recovered without this message, and the next round has begun.
	if !isOpen && p.Stage == bus.StageRecovery {
		x.answer(m, bus.Accepted, "", nil)
		return
	}
	// The run has moved on, or another coordinator gave out the task.
	if !isOpen {
		const text = "bus: secure message: its task is not open"
		x.ignore(ReasonStale, text)
		x.answer(m, bus.Refused, text, nil)
		return
	}
	x.heard = time.Now()
	x.reportedTask = p.Task
	x.confirmed = true
	x.gateway.events.Put(Event{
		Device:  x.index,
		Kind:    Secure,
		Message: p,
		Reply:   func(r *bus.DeviceReply) { x.gateway.reply(m, r) },
		Arrived: x.heard,
	})
}

// reply answers a device's request m with r, on the inbox that the device names. A reply subject that
// is no inbox gets no answer, or a device could have the coordinator send a message on any subject. A
// reason that is too long is cut.
func (g *Gateway) reply(m *bus.RawMessage, r *bus.DeviceReply) {
	toInbox := strings.HasPrefix(m.Reply, "_INBOX") || strings.HasPrefix(m.Reply, "_R_")
	if !toInbox {
		return
	}
	r.Reason = bus.ValidText(r.Reason[:min(len(r.Reason), bus.MaxText)])
	b, err := bus.Marshal(nil, r)
	if err == nil {
		// The answer may be lost, because a device without an answer asks again.
		_ = g.conn.Publish(m.Reply, b)
	}
}
