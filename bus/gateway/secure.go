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
func (p *peer) onSecure(m *bus.RawMessage) {
	if !p.spendBudget(len(m.Data)) {
		return
	}
	part := new(bus.SecureMessage)
	if err := bus.Unmarshal(m.Data, part); err != nil {
		p.countRefused(ReasonMalformed, err.Error())
		p.answer(m, bus.Refused, err.Error(), nil)
		return
	}
	// Only the process that has the device's place may act for it.
	if p.placeTaken && part.Process != p.process {
		p.refuseTwin(m)
		return
	}
	if p.coordinatorOutranked(part.Fence) {
		return
	}
	// The place is free or this process has it already, so the claim succeeds.
	p.claimPlace(part.Process)
	isOpen := p.gateway.config.Secure && p.task == part.Task && bytes.Equal(part.TaskDigest, p.digest)
	// The sum was recovered without this message, and the next round has begun.
	if !isOpen && part.Stage == bus.StageRecovery {
		p.answer(m, bus.Accepted, "", nil)
		return
	}
	// The run has moved on, or another coordinator gave out the task.
	if !isOpen {
		const text = "bus: secure message: its task is not open"
		p.countRefused(ReasonStale, text)
		p.answer(m, bus.Refused, text, nil)
		return
	}
	p.lastHeard = time.Now()
	p.reportedTask = part.Task
	p.taskArrived = true
	if part.Stage == bus.StageTrained {
		p.noteDownload(part.DownloadNs)
		// The samples weigh the update, so the credentials limit them.
		if p.maxSamples > 0 {
			part.Samples = min(part.Samples, p.maxSamples)
		}
	}
	p.gateway.events.Put(Event{
		Device:  p.index,
		Kind:    Secure,
		Message: part,
		Reply:   func(r *bus.DeviceReply) { p.gateway.reply(m, r) },
		Arrived: p.lastHeard,
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
