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
	// since is when that echo was sent, or was asked for on the device's end.
	since time.Time
	// newest is the number of the newest echo, and newestSent is when it was sent.
	newest     uint64
	newestSent time.Time
	// misses counts the heartbeats that have arrived since without it, and missed is when the last one that counts did.
	misses int
	missed time.Time
	// slowest is the longest time that echoes have lately been under way.
	slowest time.Duration
	// proved is when the newest echo was sent that was pending and has returned, itself or with a newer one. What
	// was sent on the path then has arrived.
	proved time.Time
}

// send notes that the echo with this number is sent. Numbers rise. If no echo is under way, it becomes the pending
// one, whose misses are counted from 0; otherwise the older one stays pending.
func (p *echoPath) send(number uint64, now time.Time) {
	p.newest = number
	p.newestSent = now
	if p.pending == 0 {
		p.pending = number
		p.since = now
		p.misses = 0
		p.missed = now
	}
}

// returned notes that the newest echo that has arrived is that with this number. delay is by how much the news of it
// may be later than its arrival. If the pending echo is not among those that have arrived, returned does nothing.
func (p *echoPath) returned(number uint64, delay time.Duration, now time.Time) {
	if p.pending == 0 || number < p.pending {
		return
	}
	sent := p.since
	if number == p.newest {
		sent = p.newestSent
	}
	// Another echo says nothing of how long the pending one took, which may be lost.
	if number == p.pending || number == p.newest {
		took := max(0, now.Sub(sent)-delay)
		p.slowest = max(took, p.slowest/2)
	}
	p.proved = p.since
	p.pending = 0
}

// miss notes that a heartbeat has arrived without the pending echo.
func (p *echoPath) miss(now time.Time) {
	if p.pending != 0 && now.Sub(p.missed) >= missGap {
		p.misses++
		p.missed = now
	}
}

// isOverdue reports whether the pending echo is under way for longer than limit, and than echoes take.
func (p *echoPath) isOverdue(limit time.Duration, now time.Time) bool {
	return p.pending != 0 && now.Sub(p.since) >= max(limit, 2*p.slowest)
}

// forget forgets the echo that is under way, and which have returned.
func (p *echoPath) forget() {
	p.pending = 0
	p.proved = time.Time{}
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

// hearing is what a device knows of the echoes that it has asked for.
type hearing struct {
	echoes
	// asked is the number of the last echo that was asked for.
	asked uint64
	// taskEcho is the newest number that has arrived on the task subject, and answerEcho the newest whose request was
	// answered.
	taskEcho, answerEcho uint64
	// probes counts the requests that are under way.
	probes int
}

// askEcho has heartbeat h ask for an echo, and report those that have arrived. If earlier ones have not come, it makes
// the connection anew. The caller holds the lock.
func (d *Device) askEcho(h *bus.Heartbeat) {
	now := time.Now()
	hears := &d.hearing
	hears.asked++
	h.Echo = hears.asked
	h.TaskEcho = hears.taskEcho
	h.AnswerEcho = hears.answerEcho
	// Messages of the update and their answers may fill the link for long.
	if d.cancelWork != nil {
		hears.forget()
		return
	}
	reason := ""
	switch {
	case hears.tasks.isOverdue(deafTime, now):
		reason = "nothing arrives on the subject of this device's tasks"
	case hears.answers.isOverdue(deafTime, now):
		reason = "no answers to this device's requests arrive"
	}
	if reason != "" {
		hears.forget()
		// The connection comes back on another goroutine, which takes the lock.
		go d.conn.MoveOn(reason)
	}
	hears.tasks.send(h.Echo, now)
	if d.welcome.AnswersHeartbeats && hears.probes < maxProbes {
		hears.answers.send(h.Echo, now)
	}
}

// hearTask notes that a message has arrived on the task subject: the echo with this number or, with 0, another one,
// which shows as much. If the echo was missed, the run learns at once that it has come. The caller holds the lock.
func (d *Device) hearTask(number uint64) {
	hears := &d.hearing
	wasMissed := hears.tasks.isOverdue(echoTime/2, time.Now())
	if number == 0 {
		hears.tasks.pending = 0
		return
	}
	hears.taskEcho = max(hears.taskEcho, number)
	hears.tasks.returned(number, 0, time.Now())
	if wasMissed {
		d.nextHeartbeat.Reset(0)
	}
}

// hearAnswer notes that the request for the echo with this number was answered. The caller holds the lock.
func (d *Device) hearAnswer(number uint64) {
	hears := &d.hearing
	wasMissed := hears.answers.isOverdue(echoTime/2, time.Now())
	hears.answerEcho = max(hears.answerEcho, number)
	hears.answers.returned(number, 0, time.Now())
	if wasMissed {
		d.nextHeartbeat.Reset(0)
	}
}

// probe sends heartbeat h to a run as a request, and notes when that is answered. It returns true if it does so. It
// returns false, and sends nothing, if too many requests are under way. The caller holds the lock.
func (d *Device) probe(run string, h *bus.Heartbeat) bool {
	d.setFence(run, h)
	heartbeat, err := bus.Marshal(nil, h)
	if err != nil || d.hearing.probes >= maxProbes || d.life.Err() != nil {
		return false
	}
	number := h.Echo
	d.hearing.probes++
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
		hears := &d.hearing
		hears.probes--
		switch {
		case d.run != run:
		case err == nil:
			d.hearAnswer(number)
		// The coordinator is away, and another connection would not help.
		case errors.Is(err, bus.ErrNoListener):
			hears.forget()
		}
	})
	return true
}

// The gateway's end.

// answerEcho sends the number that heartbeat h asks for back by both paths. m is the message with the heartbeat.
func (p *peer) answerEcho(h *bus.Heartbeat, m *bus.RawMessage) {
	if h.Echo == 0 {
		return
	}
	now := time.Now()
	// The device's process has started again.
	if h.Echo <= p.echoes.tasks.pending || h.Echo <= p.echoes.answers.pending {
		p.echoes.forget()
	}
	// A device that misses the echo asks again.
	_ = p.gateway.publish(p, &bus.Task{Echo: h.Echo})
	p.echoes.tasks.send(h.Echo, now)
	if m.Reply != "" {
		p.answer(m, bus.Accepted, "", nil)
		p.echoes.answers.send(h.Echo, now)
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
	p.echoes.tasks.returned(h.TaskEcho, delay, now)
	p.echoes.answers.returned(h.AnswerEcho, delay, now)
	if p.unreached {
		if !p.echoes.tasks.proved.IsZero() && !p.echoes.answers.proved.IsZero() {
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
		path.miss(now)
		limit := max(echoTime, 2*p.linkTime())
		if path.misses >= maxMisses && path.isOverdue(limit, now) {
			p.dropUnreached(path.reason)
			return
		}
	}
}
