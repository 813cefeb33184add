package gateway

import (
	"time"

	"fedpace/bus"
)

// A device's place in a run belongs to one process, which puts its random number into every
// message. While that process answers, another one that joins with the device's credentials
// is refused: the credentials were copied, or a service runs twice. When the process is gone,
// the next one gets the place.

// yieldAfter is the default of Config.Yield. A device answers a call at once, even while it
// computes, but its answer may have to wait behind a chunk of its update.
const yieldAfter = 3 * time.Second

// silentBeats is for how many intervals of heartbeats a device that takes part may be silent before it is called.
const silentBeats = 3

// isCallDue reports whether the gateway is to call the device at the time now, upon which it joins. It is if the
// device does not take part, or takes part and has been silent for silentBeats heartbeats: its process may be gone,
// and a new one does not know the run before it is called. Calls of a silent device have pauses as long, since it
// answers each of them, and its link may be slow. A silent process without a number is not called: its join could not
// be told from that of a new process, so its open task would be sent again and begin anew. The caller holds the lock.
func (p *peer) isCallDue(now time.Time) bool {
	// A device on trial shows by its silence that it has the answer to its join (see startTrial).
	onTrial := p.trialTimer != nil
	if p.banned || onTrial {
		return false
	}
	if !p.joined {
		return true
	}
	pause := silentBeats * p.welcome.HeartbeatEvery()
	isSilent := now.Sub(p.lastHeard) >= pause && now.Sub(p.lastCalled) >= pause
	if !isSilent || p.process == 0 {
		return false
	}
	p.lastCalled = now
	return true
}

// inUse is the answer to a process that is refused because another one has the device's place.
const inUse = "another process takes part as this device: stop one of them, or, if you know of no other, renew the " +
	"credentials (fedpace enroll --renew), for somebody has a copy"

// rival is a process that requests a device's place which another process has.
type rival struct {
	// join is the join of the rival's process.
	join *bus.Join
	// request is the rival's latest request to join, which will be answered.
	request *bus.RawMessage
	// takeover gives the place to the rival, after Config.Yield, unless the process that has the place answers
	// before.
	takeover *time.Timer
}

// claimPlace is called for a message of a process, and reports whether the process has the device's place. The
// first process of which a message arrives gets the place. A message of the process with the place shows that it
// is alive, so a rival that waits for the place is refused.
func (p *peer) claimPlace(process uint64) bool {
	if !p.placeTaken {
		p.placeTaken = true
		p.process = process
	}
	if process != p.process {
		return false
	}
	if r := p.rival; r != nil {
		p.dismiss()
		p.refuseTwin(r.request)
	}
	return true
}

// contendForPlace decides about the request of a second process for a device's place in the run, which belongs to one
// process at a time: the device's credentials were copied, or its program was started again. It calls the process
// that has the place. If that does not answer within Config.Yield, the place passes to the process that sent the
// join, and request is answered. A third process is refused. p.mu is held.
func (p *peer) contendForPlace(join *bus.Join, request *bus.RawMessage) {
	switch waiting := p.rival; {
	case waiting == nil:
	// The same rival repeats its request.
	case waiting.join.Process == join.Process:
		waiting.request = request
		return
	// A third process wants the place while two already contend for it.
	default:
		p.refuseTwin(request)
		return
	}
	r := &rival{join: join, request: request}
	r.takeover = time.AfterFunc(p.gateway.config.Yield, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		// The owner was silent for Config.Yield and the rival has not been dismissed.
		if p.rival == r {
			p.leave()
			p.placeTaken = true
			p.process = join.Process
			p.admit(join, r.request)
		}
	})
	p.rival = r
	// An empty task is a call, which the owner answers. An owner that does not hear a lost call does not answer
	// it and loses its place, but may join again.
	_ = p.gateway.publish(p, &bus.Task{})
}

// dismiss stops a rival process from getting the device's place, if one waits for it. It does not answer the rival's
// request.
func (p *peer) dismiss() {
	if p.rival != nil {
		p.rival.takeover.Stop()
		p.rival = nil
	}
}

// refuseTwin refuses message m of a process that does not have the device's place. The answer, and a
// notice for people at the first time, says what to do about it.
func (p *peer) refuseTwin(m *bus.RawMessage) {
	p.countRefused(ReasonTwin, "a second process with its credentials is refused: stop it, or, if you know of none, "+
		"renew them (fedpace enroll --renew "+p.id+")")
	p.answer(m, bus.Refused, inUse, nil)
}
