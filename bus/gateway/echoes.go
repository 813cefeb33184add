package gateway

import (
	"errors"
	"time"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
)

// A device that has no task sends nothing but heartbeats, which may pass while nothing reaches it: a server on the way
// has lost the subscription to its tasks, or that to its answers. So each heartbeat is a request with a number, which
// the gateway sends back twice, in a message on the device's task subject and in the answer to the request. The next
// heartbeats report the newest numbers that have arrived by these two paths. The gateway learns from them, within ten
// seconds, that a device is not reached, and later that it is reached again. The device learns that its connection must
// be made anew.

const (
	// echoTime is how long an echo may be under way on a link that is not known to be slow.
	echoTime = 5 * time.Second
	// deafTime is how long a device waits for an echo before it makes its connection anew. By then the run continues
	// without the device, if the run is there.
	deafTime = 8 * time.Second
	// maxMisses is how many heartbeats must arrive without the echo before the device is not reached. A coordinator
	// that stood still finds many old heartbeats at once, which count as one.
	maxMisses = 3
	// missGap is the shortest time between two heartbeats that both count.
	missGap = time.Second
	// maxProbes is how many requests for an echo a device may have under way, and probeTime how long one waits.
	maxProbes = 16
	probeTime = 32 * time.Second
)

// echoPath is one of the two paths from a run to a device. Both ends have one: on the gateway's, an echo returns with
// the heartbeat that reports its arrival.
type echoPath struct {
	// pending is the number of the oldest echo that is under way, 0 if none is.
	pending uint64
	// pendingSent is when that echo was sent, or was asked for on the device's end.
	pendingSent time.Time
	// newest is the number of the newest echo, and newestSent is when it was sent.
	newest     uint64
	newestSent time.Time
	// misses counts the heartbeats that have arrived since pendingSent without the pending echo, and lastMiss is when
	// the last one that counts did.
	misses   int
	lastMiss time.Time
	// slowestTrip is the longest time that echoes have lately been under way.
	slowestTrip time.Duration
	// workedAt is when the newest echo was sent that was pending and has returned, itself or with a newer one. At
	// that moment the path worked: what was sent on it has arrived. It is the zero time if no echo has returned.
	workedAt time.Time
}

// noteSent notes that the echo with this number is sent. Numbers rise. If no echo is under way, it becomes the
// pending one, whose misses are counted from 0; otherwise the older one stays pending.
func (p *echoPath) noteSent(number uint64, now time.Time) {
	p.newest = number
	p.newestSent = now
	if p.pending == 0 {
		p.pending = number
		p.pendingSent = now
		p.misses = 0
		p.lastMiss = now
	}
}

// noteArrived takes the news that the echo with this number has arrived, and none with a higher number. The pending
// echo, the oldest that was under way, has then arrived or is lost, and none is pending any more. If number is lower
// than that of the pending echo, nothing changes. delay is by how much the news may be later than the arrival: an
// interval of heartbeats at the gateway, which hears of it from the next heartbeat, and 0 at the device.
func (p *echoPath) noteArrived(number uint64, delay time.Duration, now time.Time) {
	if p.pending == 0 || number < p.pending {
		return
	}
	sent := p.pendingSent
	if number == p.newest {
		sent = p.newestSent
	}
	// Only of the pending and of the newest echo is it known when they were sent, and so how long they took.
	if number == p.pending || number == p.newest {
		took := max(0, now.Sub(sent)-delay)
		p.slowestTrip = max(took, p.slowestTrip/2)
	}
	p.workedAt = p.pendingSent
	p.pending = 0
}

// countMiss is called when a heartbeat arrives that does not report the pending echo. It counts a miss, unless none
// is pending or the last miss was less than missGap ago: heartbeats that waited together count as one.
func (p *echoPath) countMiss(now time.Time) {
	if p.pending != 0 && now.Sub(p.lastMiss) >= missGap {
		p.misses++
		p.lastMiss = now
	}
}

// isOverdue reports whether the pending echo is under way for longer than limit, and than echoes take.
func (p *echoPath) isOverdue(limit time.Duration, now time.Time) bool {
	return p.pending != 0 && now.Sub(p.pendingSent) >= max(limit, 2*p.slowestTrip)
}

// forget forgets the echo that is under way, and which have returned.
func (p *echoPath) forget() {
	p.pending = 0
	p.workedAt = time.Time{}
}

// echoes are the two paths from a run to a device.
type echoes struct {
	// tasks is the path of the device's task subject, and answers that of the answers to its requests.
	tasks, answers echoPath
}

// forget forgets what is under way on both paths.
func (e *echoes) forget() {
	e.tasks.forget()
	e.answers.forget()
}

// The device's end.

// heardEchoes is what a device knows of the echoes that it has asked for.
type heardEchoes struct {
	echoes
	// lastAsked is the number of the last echo that was asked for, 0 before the first.
	lastAsked uint64
	// newestTaskEcho is the highest number that has arrived on the task subject, and newestAnswerEcho the highest
	// whose request was answered. Both are 0 at first.
	newestTaskEcho, newestAnswerEcho uint64
	// probesUnderWay counts the heartbeats that were sent as requests and have no answer yet.
	probesUnderWay int
}

// askEcho has heartbeat h, which is sent next, ask the gateway for an echo by each of the two paths, and report to it
// the newest echo that has arrived by each. If an idle device has waited longer than deafTime for an echo, askEcho
// also makes the connection anew. The caller holds the lock.
func (d *Device) askEcho(h *bus.Heartbeat) {
	now := time.Now()
	heard := &d.heard
	heard.lastAsked++
	h.Echo = heard.lastAsked
	h.TaskEcho = heard.newestTaskEcho
	h.AnswerEcho = heard.newestAnswerEcho
	// A device at work does not wait for echoes: messages of the update and their answers may fill the link for long.
	working := d.cancelWork != nil
	if working {
		heard.forget()
		return
	}
	reason := ""
	switch {
	case heard.tasks.isOverdue(deafTime, now):
		reason = "nothing arrives on the subject of this device's tasks"
	case heard.answers.isOverdue(deafTime, now):
		reason = "no answers to this device's requests arrive"
	}
	if reason != "" {
		heard.forget()
		// The connection comes back on another goroutine, which takes the lock.
		go d.conn.MoveOn(reason)
	}
	heard.tasks.noteSent(h.Echo, now)
	// The echo by the other path is the answer to the heartbeat, which probe then sends as a request.
	if d.welcome.AnswersHeartbeats && heard.probesUnderWay < maxProbes {
		heard.answers.noteSent(h.Echo, now)
	}
}

// hearTask notes that a message of the run has arrived on the task subject. number is that of the echo that the
// message is, or 0 for any other message, which shows as well that the path works. If the pending echo was late, by
// more than half of the time that the gateway allows, the next heartbeat is sent at once to report it. The caller
// holds the lock.
func (d *Device) hearTask(number uint64) {
	heard := &d.heard
	wasLate := heard.tasks.isOverdue(echoTime/2, time.Now())
	if number == 0 {
		heard.tasks.pending = 0
		return
	}
	heard.newestTaskEcho = max(heard.newestTaskEcho, number)
	heard.tasks.noteArrived(number, 0, time.Now())
	if wasLate {
		d.nextHeartbeat.Reset(0)
	}
}

// hearAnswer notes that the heartbeat which asked for the echo with this number was answered. If the pending echo was
// late, as in hearTask, the next heartbeat is sent at once to report it. The caller holds the lock.
func (d *Device) hearAnswer(number uint64) {
	heard := &d.heard
	wasLate := heard.answers.isOverdue(echoTime/2, time.Now())
	heard.newestAnswerEcho = max(heard.newestAnswerEcho, number)
	heard.answers.noteArrived(number, 0, time.Now())
	if wasLate {
		d.nextHeartbeat.Reset(0)
	}
}

// probe sends heartbeat h to a run as a request, on a goroutine that notes the answer. It returns false, and sends
// nothing, if maxProbes requests are under way, the device has ended, or h cannot be encoded. The caller holds the
// lock.
func (d *Device) probe(run string, h *bus.Heartbeat) bool {
	d.setFence(run, h)
	heartbeat, err := bus.Marshal(nil, h)
	if err != nil || d.heard.probesUnderWay >= maxProbes || d.life.Err() != nil {
		return false
	}
	number := h.Echo
	d.heard.probesUnderWay++
	d.probing.Go(func() {
		err := d.conn.Ask(d.life, &bus.Request{
			Subject: subject.Device(run, d.config.ID, subject.Heartbeat),
			Data:    heartbeat,
			Timeout: probeTime,
			Probe:   true,
			Retry:   func(error) bool { return false },
			Decode:  func(answer []byte) error { return bus.Unmarshal(answer, new(bus.DeviceReply)) },
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		heard := &d.heard
		heard.probesUnderWay--
		switch {
		// The device has left that run meanwhile.
		case d.run != run:
		case err == nil:
			d.hearAnswer(number)
		// The coordinator is away, and another connection would not help.
		case errors.Is(err, bus.ErrNoListener):
			heard.forget()
		}
	})
	return true
}

// The gateway's end.

// answerEcho sends back the number h.Echo for which heartbeat h asks, 0 for none: in a message on the device's task
// subject and, if the heartbeat is a request, as the answer to it. m is the message with the heartbeat.
func (p *peer) answerEcho(h *bus.Heartbeat, m *bus.RawMessage) {
	if h.Echo == 0 {
		return
	}
	now := time.Now()
	// A process counts its echoes upwards. So a number that does not rise is that of another process of the device,
	// whose program was started again.
	if h.Echo <= p.echoes.tasks.pending || h.Echo <= p.echoes.answers.pending {
		p.echoes.forget()
	}
	// If this message is lost, the device asks for another echo with its next heartbeat.
	_ = p.gateway.publish(p, &bus.Task{Echo: h.Echo})
	p.echoes.tasks.noteSent(h.Echo, now)
	isRequest := m.Reply != ""
	if isRequest {
		p.answer(m, bus.Accepted, "", nil)
		p.echoes.answers.noteSent(h.Echo, now)
	}
}

// takeEchoes takes from heartbeat h which echoes have reached the device. An idle device counts as unreached when
// maxMisses heartbeats have come without an echo that is overdue. An unreached device is reached again once an echo has
// come to it by each of the two paths.
func (p *peer) takeEchoes(h *bus.Heartbeat) {
	if !p.join.GetReportsEchoes() {
		return
	}
	now := time.Now()
	// The device reports an echo with its next heartbeat.
	delay := p.welcome.HeartbeatEvery()
	p.echoes.tasks.noteArrived(h.TaskEcho, delay, now)
	p.echoes.answers.noteArrived(h.AnswerEcho, delay, now)
	if p.unreached {
		bothHaveWorked := !p.echoes.tasks.workedAt.IsZero() && !p.echoes.answers.workedAt.IsZero()
		if bothHaveWorked {
			p.endTrial()
		}
		return
	}
	// A device at work may have a link that is full with its update or its model.
	if h.Task != noTask || !p.joined {
		return
	}
	for _, path := range []struct {
		*echoPath
		reason string
	}{
		{&p.echoes.answers, noAnswerEchoes},
		{&p.echoes.tasks, noTaskEchoes},
	} {
		// This heartbeat is a miss if the pending echo is not among those that it reports.
		path.countMiss(now)
		limit := max(echoTime, 2*p.linkTime())
		if path.misses >= maxMisses && path.isOverdue(limit, now) {
			p.dropUnreached(path.reason)
			return
		}
	}
}
