package realdevices

import (
	"encoding/binary"
	"fmt"
	"time"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/coordinator/round"
)

// Where rounds overlap a device answers a task of secure aggregation in two parts. With a message of stage TRAINED it
// says that it has taken its steps, and keeps the update; that is its first answer. The reply comes when the task is
// one of a round's group: it has the number of that round and the factor of the device's weight. From then on the group
// is a session as that of a round that does not overlap with others, and the masked update is the second answer.

// groupPart is how far a device is with a task of which there are two answers.
type groupPart struct {
	// plan is that of the first answer.
	plan round.Plan
	// reply answers the newest message of stage TRAINED; nil if there is none, or it was answered.
	reply func(*bus.DeviceReply)
	// group is what the device is told of its group; nil before it has one.
	group []byte
	// givenUp says that the device has given the task up while it waited for a group.
	givenUp bool
}

// answerTrained answers the message of stage TRAINED that waits, if one does.
func (g *groupPart) answerTrained(r *bus.DeviceReply) {
	if g.reply != nil {
		g.reply(r)
		g.reply = nil
	}
}

// wholePlan returns how long a whole task took, by its last answer. Of two answers the first one has the download and
// the local steps.
func (g *groupPart) wholePlan(last *round.Plan) *round.Plan {
	if g.group == nil {
		return last
	}
	whole := g.plan
	whole.Upload = last.Total()
	return &whole
}

// hasNoUpdate reports whether an answer is the first of two.
func (a *Answer) hasNoUpdate() bool { return a.Kind == round.Planned && a.Values == nil }

// MasksInGroups reports whether devices answer their tasks in two parts.
func (d *Devices) MasksInGroups() bool {
	return d != nil && d.Secure != nil && d.Welcome.Secure.GetFreshFactor() > 0
}

// trainedBy returns the task of a device that waits for a group, nil if there is none.
func (d *Devices) trainedBy(device int) *openTask {
	for _, o := range d.trained {
		if o.device == device {
			return o
		}
	}
	return nil
}

// takeBeforeGroup handles a device's message of secure aggregation if it belongs to a task that has no group yet, or is
// one of stage TRAINED. It reports whether it has done so.
func (d *Devices) takeBeforeGroup(event *gateway.Event) bool {
	if !d.MasksInGroups() {
		return false
	}
	message := event.Message
	// A task whose first answer was handed out is not open, but waits for a group (trained) until it is open again.
	o := d.trained[message.Task]
	if o == nil {
		o = d.open[message.Task]
	}
	isTrained := message.Stage == bus.StageTrained
	switch {
	case o == nil || o.device != event.Device:
		if isTrained {
			event.Reply(refusal("its task is not open"))
		}
		return isTrained
	case o.group != nil:
		// The reply was lost, or the device begins again.
		if isTrained {
			event.Reply(groupReply(o.group))
		}
		return isTrained
	case isTrained:
		d.takeTrained(o, event)
	// Without a payload a message of keys gives the task up.
	case message.Stage == bus.StageKeys && len(message.Payload) == 0:
		d.giveUp(o)
		event.Reply(refusal("it has given its task up"))
	default:
		event.Reply(&bus.DeviceReply{Status: bus.SendKeys})
	}
	return true
}

// takeTrained handles a message of stage TRAINED of a task without a group. The first one is the device's answer to the
// task; the device repeats it while it waits.
func (d *Devices) takeTrained(o *openTask, event *gateway.Event) {
	o.reply = event.Reply
	isOpen := d.open[o.task.Task] == o
	if !isOpen || d.isAnswered(o) {
		return
	}
	message := event.Message
	report := &gateway.Event{
		Kind:    gateway.Updated,
		Device:  event.Device,
		Arrived: event.Arrived,
		Update: &bus.DeviceUpdate{Update: &bus.Update{
			Task:          message.Task,
			TaskDigest:    message.TaskDigest,
			DownloadNs:    message.DownloadNs,
			ComputeNs:     message.ComputeNs,
			FirstStepLoss: message.FirstStepLoss,
			Samples:       message.Samples,
		}},
	}
	err := d.checkLoss(report.Update)
	if err == nil {
		err = d.checkDurations(report.Update)
	}
	if err != nil {
		d.notice("An update of device %s is refused: %v.", d.Names[event.Device], err)
		report.Kind = gateway.Refused
		d.gateway.DropTask(event.Device)
		o.answerTrained(refusal(err.Error()))
	}
	answer := d.answerFromEvent(report)
	answer.Plan.Upload = 0
	d.answers = append(d.answers, answer)
}

// giveUp ends the task of a device that gives it up before it has a group: as one whose update is refused, since its
// steps have not stayed finite.
func (d *Devices) giveUp(o *openTask) {
	d.notice("Device %s has given its task up.", d.Names[o.device])
	o.givenUp = true
	isOpen := d.open[o.task.Task] == o
	if isOpen && !d.isAnswered(o) {
		d.gateway.DropTask(o.device)
		// At least a nanosecond, since 0 stands for a time that is not known.
		d.answerFor(round.Invalid, o, round.Plan{Compute: max(1, o.timeAway(time.Now()))})
	}
}

// groupReply is the answer to a message of stage TRAINED when the device has a group.
func groupReply(group []byte) *bus.DeviceReply {
	return &bus.DeviceReply{Status: bus.Continue, Secure: group}
}

// BeginGroup begins the secure aggregation of the group of the round with this number: the devices of these tasks,
// which have taken their steps, agree on masks and upload. factors has for each task the factor of its device's weight.
// The tasks are open again, until their second answers.
func (d *Devices) BeginGroup(number int, tasks []round.Task, factors []uint64) error {
	if d.gateway == nil {
		return fmt.Errorf("realdevices: the masks of round %d cannot be played again", number)
	}
	if err := d.beginSession(number); err != nil {
		return err
	}
	d.session.factors = map[uint32]uint64{}
	now := time.Now()
	for i := range tasks {
		task := &tasks[i]
		d.session.factors[uint32(task.Client)] = factors[i]
		o := d.trained[task.Task]
		if o == nil {
			return fmt.Errorf("realdevices: task %d has a group, and its device has not taken its steps", task.Task)
		}
		delete(d.trained, task.Task)
		o.group = binary.LittleEndian.AppendUint32(nil, uint32(number))
		o.group = binary.LittleEndian.AppendUint64(o.group, factors[i])
		// The limits of the second answer begin now.
		o.firstSent = now
		d.mu.Lock()
		d.open[task.Task] = o
		d.mu.Unlock()
		d.session.members[o.device] = &member{task: task.Task, taskSent: now}
		if d.isAway(o.device, now) {
			d.answerFor(round.Silent, o, round.Plan{Compute: 1})
			continue
		}
		if d.banned[o.device] {
			d.refuse(o)
			continue
		}
		if o.givenUp {
			d.answerFor(round.TimedOut, o, round.Plan{Compute: 1})
			continue
		}
		o.answerTrained(groupReply(o.group))
	}
	d.advanceSession()
	return nil
}

// isAway reports whether a device has left, or was not heard of for too long, and the round machine need not know yet.
func (d *Devices) isAway(device int, now time.Time) bool {
	heard := d.gateway.LastHeard(device)
	if heard.IsZero() {
		heard = d.opened
	}
	return d.gone[device] || now.Sub(heard) > d.Liveness
}

// endTrained ends a task that waits for a group in vain, if the one with this number does.
func (d *Devices) endTrained(task uint64) {
	o := d.trained[task]
	if o == nil {
		return
	}
	delete(d.trained, task)
	d.gateway.DropTask(o.device)
	o.answerTrained(refusal("its update does not count"))
}

// Hold takes up again, in a run that is resumed, a task whose device has taken its steps and waits for a group. The
// device gets the task once more, so that it repeats what it waits for. The arguments are as those of [Devices.Issue].
func (d *Devices) Hold(task *round.Task, message *bus.Task, base []float32, degraded bool) error {
	o := &openTask{
		task:         message,
		base:         base,
		baseDegraded: degraded,
		device:       d.deviceOf(task.Client),
		firstSent:    time.Now(),
		maybeEarlier: true,
	}
	d.firstSinceResume[o.device] = false
	d.trained[task.Task] = o
	return d.send(o)
}
