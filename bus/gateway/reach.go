package gateway

import (
	"time"

	"fedpace/bus"
)

// A device may be heard and not reached: a server on the way has lost the subscription to its tasks or to its
// answers, and passes what the device sends. Such a device repeats what was answered, or reports again and again that
// it has no task. It is not present, and the run goes on without it, until it has shown for a while that answers reach
// it.

// These are the times after which a device counts as one that is not reached. A device whose answers or tasks are lost
// has left within ten seconds: it repeats a message 6 s after it sent that, shows every 2 s that it is there
// (Welcome.HeartbeatSeconds), and an open task is sent again every 2.3 s. Tests shorten the times.
var (
	// answerTime is how long an answer may be under way. A device that repeats its message later has not got the
	// answer.
	answerTime = 2 * time.Second
	// promptTime is the longest time from an answer to a device's repeat by which its link counts as quick, if nothing
	// else is known of it: on a slow link the message that is repeated takes long.
	promptTime = 8 * time.Second
	// progressTime is how long a quick device that has repeated a message may take for its next one. After that it
	// gets its task again, which makes it send at once what it waits for.
	progressTime = 2 * time.Second
	// stuckTime is the time after which such a device is not reached, although it is heard.
	stuckTime = 3300 * time.Millisecond
	// taskTime is how long a task may be under way.
	taskTime = 7 * time.Second
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
	// probe sends the device its task again, and stuck ends its part in the run; both are nil if the device is slow.
	probe, stuck *time.Timer
	// isStuck says that the device has made no progress for stuckTime: it is not reached as soon as it is heard.
	isStuck bool
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
	waited := now.Sub(last.at)
	if waited < answerTime {
		return
	}
	last.at = now
	last.repeats++
	if last.repeats > 1 {
		x.lose(noAnswers)
		return
	}
	// On a slow link the device would start over the message that it sends.
	isQuick := waited < promptTime
	if x.pace > 0 {
		isQuick = 2*x.pace <= stuckTime
	}
	if isQuick {
		x.awaitProgress()
	}
}

// awaitProgress is called when a quick device has repeated a message and was answered once more. One answer may be lost
// with a connection. If the next message does not come, the device is asked to repeat the message, and then counts as
// not reached.
func (x *peer) awaitProgress() {
	task, chunk := x.task, x.answered.chunk
	waits := func() bool {
		return x.task == task && x.answered.task == task && x.answered.chunk == chunk && x.answered.repeats > 0
	}
	x.answered.probe = time.AfterFunc(progressTime, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if waits() && !x.decided {
			// If the task is lost, the device repeats its message later by itself.
			_ = x.gateway.conn.Publish(x.taskSubject(), x.message)
		}
	})
	x.answered.stuck = time.AfterFunc(stuckTime, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if !waits() {
			return
		}
		x.answered.isStuck = true
		// A device that is silent, too, has lost its connection.
		isHeard := x.heard.Sub(x.answered.at) > stuckTime/3
		if isHeard {
			x.lose(noAnswers)
		}
	})
}

// forgetAnswer ends what noteChunk knows of a message.
func (x *peer) forgetAnswer() {
	for _, timer := range []*time.Timer{x.answered.probe, x.answered.stuck} {
		if timer != nil {
			timer.Stop()
		}
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
