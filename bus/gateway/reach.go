package gateway

import (
	"time"

	"fedpace/bus"
)

// A device may be heard and not reached: a server on the way has lost the subscription to its tasks or to its
// answers, and passes what the device sends. Such a device repeats what was answered, or reports again and again that
// it has no task. It is not present, and the run goes on without it, until it has shown for a while that answers reach
// it.

// These are the times after which a device counts as one that is not reached. Tests shorten them.
var (
	// answerTime is how long an answer may be under way. A device that repeats its message later has not got the
	// answer.
	answerTime = 2 * time.Second
	// progressTime is how long a device that has repeated a message may take for its next one, if it was never slower
	// than half of that before. After that it gets its task again, which makes it send at once what it waits for.
	progressTime = 2 * time.Second
	// taskTime is how long a task may be under way.
	taskTime = 10 * time.Second
	// trialTime is how long a device that was not reached must leave an answered join alone until it takes part
	// again. A device without the answer repeats its join within 6 s.
	trialTime = 8 * time.Second
)

// taskSends is how often a task was sent to a device that it has not reached. A coordinator that stood still after the
// first time finds old messages of the device.
const taskSends = 3

// The reasons of a device that is heard and not reached, for people.
const (
	noAnswers = "it gets no answers: it repeats a message that was answered twice; look at the server that it connects " +
		"to and at its permissions, or start its program again"
	noTasks = "it gets no tasks: it is heard, and its task was sent three times; look at the server that it connects " +
		"to and at its permissions, or start its program again"
)

// answered is the last message of an update that was answered.
type answered struct {
	// task and chunk identify the message.
	task  uint64
	chunk uint32
	// at is when it was answered last.
	at time.Time
	// repeats counts the repeats that arrived answerTime and more after an answer.
	repeats int
	// probe sends the device its task again; nil if it is not to be sent.
	probe *time.Timer
}

// noteChunk notes a message of the open task's update that will be answered. If the device repeats it although it was
// answered twice, the device is not reached.
func (x *peer) noteChunk(p *bus.Update) {
	now := time.Now()
	last := &x.answered
	if last.task != p.Task || last.chunk != p.Chunk || last.at.IsZero() {
		if last.task == p.Task && last.repeats == 0 {
			x.pace = max(x.pace, now.Sub(last.at))
		}
		x.forgetAnswer()
		x.answered = answered{task: p.Task, chunk: p.Chunk, at: now}
		return
	}
	// The repeat was sent before the answer can have arrived.
	if now.Sub(last.at) < answerTime {
		return
	}
	last.at = now
	last.repeats++
	if last.repeats > 1 {
		x.lose(noAnswers)
		return
	}
	// On a slow link the device would start over the message that it sends.
	isSlow := x.pace == 0 || 2*x.pace > progressTime
	if isSlow {
		return
	}
	// One answer may be lost with a connection. The device is asked to repeat the message once more.
	task := x.task
	last.probe = time.AfterFunc(progressTime, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		waits := x.task == task && x.answered.task == task && x.answered.repeats > 0
		if waits && !x.decided {
			// If the task is lost, the device repeats its message later by itself.
			_ = x.gateway.conn.Publish(x.taskSubject(), x.message)
		}
	})
}

// forgetAnswer ends what noteChunk knows of a message.
func (x *peer) forgetAnswer() {
	if x.answered.probe != nil {
		x.answered.probe.Stop()
	}
	x.answered = answered{}
}

// checkTask treats the device as not reached if its open task has not reached it for taskTime. It is called when the
// device has sent something that it would not have sent with the task.
func (x *peer) checkTask() {
	isOpen := x.task != noTask && !x.decided
	isOverdue := x.sends >= taskSends && time.Since(x.sent) >= taskTime
	if isOpen && isOverdue && !x.confirmed {
		x.lose(noTasks)
	}
}

// lose ends the device's part in the run because it is not reached. reason is for people.
func (x *peer) lose(reason string) {
	if !x.joined {
		return
	}
	x.leave()
	x.departed = true
	x.unreached = true
	x.gateway.events.Put(Event{Device: x.index, Kind: Departed, Text: reason})
}

// try answers the join j of a device that was not reached, m. The device takes part again unless it repeats the
// request within trialTime. A join without a reply subject shows nothing.
func (x *peer) try(j *bus.Join, m *bus.RawMessage) {
	if m.Reply == "" {
		return
	}
	if x.trial != nil {
		x.trial.Stop()
	}
	x.heard = time.Now()
	var trial *time.Timer
	trial = time.AfterFunc(trialTime, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		// The device has asked once more, was banned, or left.
		if x.trial != trial {
			return
		}
		x.trial = nil
		if x.unreached && !x.flooded {
			x.unreached = false
			x.take(j)
		}
	})
	x.trial = trial
	x.answer(m, bus.Accepted, "", x.welcome)
}
