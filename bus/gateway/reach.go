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
	// maxChunkTime bounds what a device's measurement of its downloads counts for.
	maxChunkTime = time.Minute
)

// maxSlowRepeats is how often a device on a slow link may repeat a message. It waits twice as long each time.
const maxSlowRepeats = 4

// taskSends is how often a task was sent to a device that it has not reached. A coordinator that stood still after the
// first time finds old messages of the device.
const taskSends = 3

// The reasons of a device that is heard and not reached, for people.
const (
	noAnswers = "it gets no answers: it repeats a message that was answered twice; look at the server that it " +
		"connects to and at its permissions, or start its program again"
	noTasks = "it gets no tasks: it is heard, and its task was sent three times; look at the server that it connects " +
		"to and at its permissions, or start its program again"
	noAnswerEchoes = "it gets no answers: its heartbeats arrive, and the answers to them do not reach it; look at " +
		"the server that it connects to and at its permissions, or start its program again"
	noTaskEchoes = "it gets no tasks: its heartbeats arrive, and messages on the subject of its tasks do not reach " +
		"it; look at the server that it connects to and at its permissions, or start its program again"
)

// reach is whether a device is reached.
type reach struct {
	// unreached says that the device was heard and not reached, and has not yet shown that it is again.
	unreached bool
	// trialTimer ends the time within which such a device must not repeat its join, nil if none has begun.
	trialTimer *time.Timer
	// messageTime is the longest time from an answer to the next message of an update, 0 if it is not known.
	messageTime time.Duration
	// downloadChunkTime is how long a chunk of the last model was under way to the device, by the device's own
	// measurement, 0 if it is not known.
	downloadChunkTime time.Duration
	// lastAnswered is the last message of the open task's update that was answered.
	lastAnswered answeredMessage
	// echoes are the paths by which the device is reached.
	echoes echoes
}

// answeredMessage is a message of an update that was answered. The zero value stands for none.
type answeredMessage struct {
	// task and chunk identify the message.
	task  uint64
	chunk uint32
	// firstAnswer is when it was answered first, and lastAnswer when it was answered last.
	firstAnswer, lastAnswer time.Time
	// repeats counts the repeats that arrived answerTime and more after an answer.
	repeats int
	// resendTask sends the device its task again, and stuckTimer ends its part in the run. Both are nil before the
	// first repeat and for a slow device.
	resendTask, stuckTimer *time.Timer
	// isStuck says that the device has made no progress for stuckTime: it is not reached as soon as it is heard.
	isStuck bool
}

// noteChunk notes a message of the open task's update that the gateway is about to answer. A device repeats a message
// until it has the answer. So a device that repeats a message after two answers does not get them and counts as
// unreached, with two exceptions: an echo shows that answers arrive, or the device's link is full, so that an answer
// may still be under way. After the first repeat on a quick link awaitProgress finds out whether the second answer
// arrives.
func (p *peer) noteChunk(part *bus.Update) {
	now := time.Now()
	last := &p.lastAnswered
	isNew := last.task != part.Task || last.chunk != part.Chunk || last.lastAnswer.IsZero()
	if isNew {
		// The device had the answer to the message before, so the time since is what a message takes.
		if last.task == part.Task && last.repeats == 0 {
			p.messageTime = max(p.messageTime, now.Sub(last.lastAnswer))
		}
		p.forgetAnswer()
		p.lastAnswered = answeredMessage{
			task:        part.Task,
			chunk:       part.Chunk,
			firstAnswer: now,
			lastAnswer:  now,
		}
		return
	}
	// Such a repeat was sent before the answer can have arrived, and shows nothing.
	waited := now.Sub(last.lastAnswer)
	if waited < answerTime {
		return
	}
	last.lastAnswer = now
	last.repeats++
	// An echo that was sent after the first answer has reached the device.
	answersArrive := p.echoes.answers.workedAt.After(last.firstAnswer)
	// On a full link a device repeats a message before the first one and its answer have arrived.
	mayBeUnderWay := p.linkIsFull(now) && last.repeats <= maxSlowRepeats
	if last.repeats > 1 && !answersArrive && !mayBeUnderWay {
		p.dropUnreached(noAnswers)
		return
	}
	// awaitProgress may have the device send its message once more, which on a slow link would cost much time.
	isQuick := p.messageTime > 0 || waited < promptTime
	if isQuick && !p.isSlow() && last.repeats == 1 {
		p.awaitProgress()
	}
}

// heartbeatIsLate reports whether at the time now a heartbeat is late.
func (p *peer) heartbeatIsLate(now time.Time) bool {
	return !p.lastHeartbeat.IsZero() && now.Sub(p.lastHeartbeat) >= 2*p.welcome.HeartbeatEvery()
}

// linkIsFull reports whether the device's link to the run was full with the message that has just arrived: heartbeats
// are late, or have come late just now, as they may be handled before the message.
func (p *peer) linkIsFull(now time.Time) bool {
	return p.heartbeatIsLate(now) || now.Sub(p.lastLateHeartbeat) < p.welcome.HeartbeatEvery()
}

// isSlow reports whether the device's next message may take longer than stuckTime on its link.
func (p *peer) isSlow() bool { return 2*p.linkTime() > stuckTime }

// linkTime is for how long a message has lately been under way to the device or from it, so far as that is known: a
// chunk of a model or of an update, or an echo behind one.
func (p *peer) linkTime() time.Duration {
	return max(p.messageTime, p.downloadChunkTime, p.echoes.tasks.slowestTrip, p.echoes.answers.slowestTrip)
}

// noteDownload takes from the time of a task's download, in nanoseconds, how long a chunk of the model was under way. A
// masked update that follows a report of its steps has no download any more.
func (p *peer) noteDownload(took int64) {
	if took == 0 && p.welcome.GetSecure().GetFreshFactor() > 0 {
		return
	}
	const valueBytes = 4
	chunks := max(1, (p.params*valueBytes+bus.ChunkBytes-1)/bus.ChunkBytes)
	p.downloadChunkTime = min(time.Duration(took)/time.Duration(chunks), maxChunkTime)
}

// awaitProgress is called when a device on a quick link has repeated a message and was answered a second time, since
// the first answer may have been lost with a connection. It starts two timers. If the device has sent no further
// message by progressTime, it gets its task again, upon which it repeats the message at once. If it has sent none by
// stuckTime, it does not get its answers and counts as not reached.
func (p *peer) awaitProgress() {
	task := p.task
	chunk := p.lastAnswered.chunk
	// isStuck reports whether the device has sent no other message of its update since then.
	isStuck := func() bool {
		isLastChunk := p.lastAnswered.task == task && p.lastAnswered.chunk == chunk
		return p.task == task && isLastChunk && p.lastAnswered.repeats > 0
	}
	p.lastAnswered.resendTask = time.AfterFunc(progressTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if isStuck() && !p.decided && !p.isSlow() {
			// If this message with the task is lost, the device repeats its own later by itself.
			_ = p.gateway.conn.Publish(p.taskSubject(), p.message)
		}
	})
	p.lastAnswered.stuckTimer = time.AfterFunc(stuckTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !isStuck() {
			return
		}
		// An echo has shown meanwhile that the link is slow.
		if p.isSlow() {
			return
		}
		p.lastAnswered.isStuck = true
		// A device of which nothing has arrived since has lost its connection: then onHeartbeat ends its part as soon
		// as it is heard again.
		isHeard := p.lastHeard.Sub(p.lastAnswered.lastAnswer) > stuckTime/3
		if isHeard {
			p.dropUnreached(noAnswers)
		}
	})
}

// forgetAnswer forgets which message of an update was answered last, and stops the timers that wait for a further
// one.
func (p *peer) forgetAnswer() {
	for _, timer := range []*time.Timer{p.lastAnswered.resendTask, p.lastAnswered.stuckTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	p.lastAnswered = answeredMessage{}
}

// checkTask is called when the device has sent something that it would not send if it had its open task. If that task
// was sent taskSends times, the first time taskTime ago or more, and has not reached the device, the device's part in
// the run ends, as that of a device that is not reached.
func (p *peer) checkTask() {
	isOpen := p.task != noTask && !p.decided
	isOverdue := p.sendCount >= taskSends && time.Since(p.firstSent) >= taskTime
	if isOpen && isOverdue && !p.taskArrived {
		p.dropUnreached(noTasks)
	}
}

// dropUnreached ends the part in the run of a device that is heard and not reached, until it shows that it is reached
// again (see takeEchoes and startTrial). reason is for people.
func (p *peer) dropUnreached(reason string) {
	if !p.joined {
		return
	}
	p.leave()
	p.departed = true
	p.unreached = true
	p.gateway.events.Put(Event{Device: p.index, Kind: Departed, Text: reason})
}

// endTrial makes a device that was not reached count as reached again, and ends the time in which it must not
// repeat its join (see [peer.startTrial]). The next call invites it to join.
func (p *peer) endTrial() {
	if p.trialTimer != nil {
		p.trialTimer.Stop()
		p.trialTimer = nil
	}
	p.unreached = false
}

// startTrial answers m, the join of a device that was not reached, and begins its trial. A device repeats a join
// until it gets the answer. So if no repeat comes within trialTime, the answer has reached it, and it takes part
// again; a repeat begins the trial anew. A join without a reply subject cannot be answered, and shows nothing.
func (p *peer) startTrial(join *bus.Join, m *bus.RawMessage) {
	if m.Reply == "" {
		return
	}
	if p.trialTimer != nil {
		p.trialTimer.Stop()
	}
	p.lastHeard = time.Now()
	var trial *time.Timer
	trial = time.AfterFunc(trialTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		// The device has asked once more, was banned, or left.
		if p.trialTimer != trial {
			return
		}
		p.trialTimer = nil
		if p.unreached && !p.banned {
			p.unreached = false
			p.joinRun(join)
		}
	})
	p.trialTimer = trial
	p.answer(m, bus.Accepted, "", p.welcome)
}
