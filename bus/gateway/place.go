package gateway

import (
	"time"

	"fedpace/bus"
)

// A device's place in a run belongs to one process, whose random number is in all that it
// sends. While that process answers, another that joins with the device's credentials is
// refused; when it is gone, the next one gets the place.

// yieldAfter is Config.Yield by default. A device answers at once, also one at work, but
// its answer may have to wait behind a chunk of its update.
const yieldAfter = 3 * time.Second

// inUse is what a process is told whose device has its place already.
const inUse = "another process takes part as this device: stop one of them, or, if you know of no other, renew the credentials (fedpace enroll --renew), for somebody has a copy"

// rival is a process that has joined while another has the place.
type rival struct {
	join    *bus.Join
	request *bus.RawMessage // its latest
	yield   *time.Timer     // gives it the place
}

// speaks reports whether a message is of the process that has the place, which is the
// first to be heard of. If a rival waits, the message decides against it.
func (x *peer) speaks(process uint64) bool {
	if !x.taken {
		x.taken = true
		x.process = process
	}
	if process != x.process {
		return false
	}
	if r := x.rival; r != nil {
		x.dismiss()
		x.refuseTwin(r.request)
	}
	return true
}

// contend calls the process that has the place, and gives the place to the one that has
// joined if there is no answer.
func (x *peer) contend(j *bus.Join, request *bus.RawMessage) {
	switch r := x.rival; {
	case r == nil:
	case r.join.Process == j.Process: // it asks again
		r.request = request
		return
	default: // a third
		x.refuseTwin(request)
		return
	}
	r := &rival{join: j, request: request}
	r.yield = time.AfterFunc(x.gateway.config.Yield, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.rival == r {
			x.leave()
			x.taken = true
			x.process = j.Process
			x.admit(j, r.request)
		}
	})
	x.rival = r
	_ = x.gateway.publish(x, &bus.Task{}) // if it is lost, so is the place: its owner may join again
}

// dismiss ends the wait of a rival, if there is one.
func (x *peer) dismiss() {
	if x.rival != nil {
		x.rival.yield.Stop()
		x.rival = nil
	}
}

// refuseTwin answers a message of a process that does not have the place.
func (x *peer) refuseTwin(m *bus.RawMessage) {
	x.ignore(ReasonTwin, "a second process with its credentials is refused: stop it, or, if you know of none, renew them (fedpace enroll --renew "+x.id+")")
	x.answer(m, bus.Refused, inUse, nil)
}
