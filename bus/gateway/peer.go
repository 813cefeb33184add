package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// The reasons for which messages of devices are refused; metrics have them as labels.
const (
	// ReasonMalformed: the message is not a valid one of the protocol.
	ReasonMalformed = "malformed"
	// ReasonOld: the device speaks an older protocol than the run needs.
	ReasonOld = "old"
	// ReasonUnfit: the device does not fit the run.
	ReasonUnfit = "unfit"
	// ReasonStale: the task of the message is not open.
	ReasonStale = "stale"
	// ReasonOrder: a chunk arrived out of order.
	ReasonOrder = "order"
	// ReasonShape: the update does not have as many values as the task requires.
	ReasonShape = "shape"
	// ReasonInvalid: the update has values or durations that cannot count.
	ReasonInvalid = "invalid"
	// ReasonFlood: the device sent more than a device may send.
	ReasonFlood = "flood"
	// ReasonTwin: another process has the device's place.
	ReasonTwin = "twin"
	// ReasonSamples: the device claims more samples than its credentials allow.
	ReasonSamples = "samples"
	// ReasonFenced: the device has heard of a later coordinator of the run.
	ReasonFenced = "fenced"
)

// Limits of the messages that a device may send beyond those that the run expects of it.
const (
	// deviceBudget is the budget of a device: each message takes one from it, and a large message one
	// more for every deviceBudgetBytes.
	deviceBudget = 512
	// deviceRefill is by how much the budget grows in a second, up to deviceBudget.
	deviceRefill      = 50
	deviceBudgetBytes = 16 << 10

	// devicePendingMessages and devicePendingBytes are how many of a device's messages, and how many
	// bytes, may wait for the gateway before the device counts as flooding.
	devicePendingMessages = 1 << 10
	devicePendingBytes    = 8 << 20
)

// noTask stands for no task where a task's number is expected.
const noTask = 0

// peer is what the gateway knows of one device. The lock guards all fields below it. The callers of
// the methods hold it, except those of expect, and of subscribe for a new peer.
type peer struct {
	// gateway is the gateway that the device belongs to.
	gateway *Gateway
	// index is the device's index in Config.Devices.
	index int
	// id is the device's id, as it stands in subjects.
	id string
	// welcome is the answer to a join of the device.
	welcome *bus.Welcome

	// mu guards all fields below.
	mu sync.Mutex
	// subs are the subscriptions to the device's messages, none if its messages are not taken.
	subs []bus.Subscription
	// heard is when the last valid message arrived, the zero time for never.
	heard time.Time
	// beats counts the heartbeats that were received.
	beats int64
	// join is the last join that was accepted, nil if none was.
	join *bus.Join
	// log holds the newest lines of the device's log.
	log []string
	// joined says that the device takes part.
	joined bool
	// departed says that the device has announced that it leaves.
	departed bool
	// flooded says that the device is banned, or has sent too much: no message of it counts.
	flooded bool
	// refused counts the refused messages by reason.
	refused map[string]int
	// budget limits the messages that the device may send beyond what is expected of it.
	budget *rate.Limiter

	// taken says that a process has the device's place.
	taken bool
	// process is the random number of the process with the place, 0 if the process has not sent one.
	process uint64
	// rival is a process that waits for the place, nil if none does.
	rival *rival
	// maxSamples is the largest number of samples that the device's credentials allow, 0 for any
	// number.
	maxSamples uint64
	// unreached says that the device was heard and not reached, and has not yet shown that it is again.
	unreached bool
	// trial ends the time within which such a device must not repeat its join, nil if none has begun.
	trial *time.Timer
	// pace is the longest time from an answer to the next message of an update, 0 if it is not known.
	pace time.Duration
	// turn counts the calls of subscribe.
	turn int

	// The open task and the state of its update.
	// task is the number of the open task, or noTask.
	task uint64
	// reportedTask is the task on which the device works by its own last report.
	reportedTask uint64
	// taskReported says that a heartbeat has arrived since the task was opened.
	taskReported bool
	// digest is the digest of the task.
	digest []byte
	// message is the message with the task, as it was sent last.
	message []byte
	// sent is when the task was sent first, since the device last joined and the connection last came back.
	sent time.Time
	// sends counts how often it was sent since then.
	sends int
	// confirmed says that the device has shown that the task has reached it.
	confirmed bool
	// answered is the last message of the update that was answered.
	answered answered
	// params is the number of values that the task's update must have.
	params int
	// decided says that the update was accepted or refused.
	decided bool
	// reason is why the update was refused, empty if it was accepted.
	reason string
	// chunks is the number of the update's chunks, as its first chunk gives it.
	chunks uint32
	// next is the number of the next chunk.
	next uint32
	// values are the update's values so far, if the run does not compress updates.
	values []float32
	// uploads says that a masked update for the open task is taken, see Config.Secure.
	uploads bool
	// packed is the compressed form of the update so far, if the run compresses updates.
	packed []byte
}

// packs reports whether updates arrive packed, as they do in a run that compresses them.
func (x *peer) packs() bool { return x.welcome.GetSpec().GetCompression() != "" }

// checkComplete is called when all chunks of an update have arrived. It unpacks the values if the run
// compresses updates, and returns an error unless there are as many values as the task demands.
func (x *peer) checkComplete() (err error) {
	if x.packs() {
		x.values, err = vector.Unpack(x.packed, x.params)
	} else if len(x.values) != x.params {
		err = fmt.Errorf("%d values, want %d", len(x.values), x.params)
	}
	return err
}

// subscribe subscribes to the device's joins, heartbeats and updates, with a full budget. Too many
// waiting messages count as a flood. It is called for a new device and for one that is readmitted.
func (x *peer) subscribe() error {
	x.budget = rate.NewLimiter(deviceRefill, deviceBudget)
	x.turn++
	turn := x.turn
	backlog := &bus.Backlog{Messages: devicePendingMessages, Bytes: devicePendingBytes, Dropped: func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		// A drop of an earlier subscription does not count against a device that was readmitted since.
		if x.turn == turn {
			x.flood("messages were dropped since too many were waiting")
		}
	}}
	// Each handler runs with the lock held.
	for verb, f := range map[string]func(*bus.RawMessage){
		subject.Join:          x.onJoin,
		subject.Join + ".*":   x.onJoin,
		subject.Heartbeat:     x.onHeartbeat,
		subject.Update + ".*": x.onUpdate,
	} {
		s, err := x.gateway.conn.Subscribe(subject.Device(x.gateway.run, x.id, verb), backlog, func(m *bus.RawMessage) {
			x.mu.Lock()
			defer x.mu.Unlock()
			f(m)
		})
		if err != nil {
			return fmt.Errorf("bus: subscribe for device %s: %w", x.id, err)
		}
		x.subs = append(x.subs, s)
	}
	return nil
}

// unsubscribe ends the subscriptions. The transport may still report a drop of them later, from
// a goroutine of its own.
func (x *peer) unsubscribe() {
	for _, s := range x.subs {
		// Unsubscribe fails only on a closed connection, which has no subscriptions.
		_ = s.Unsubscribe()
	}
	x.subs = nil
}

// expect opens task t, whose update must have params values, and closes the one before. A task that
// is open already keeps what has arrived of its update. It takes the lock itself.
func (x *peer) expect(t *bus.Task, params int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// Nothing has arrived for a new task.
	if x.task != t.Task {
		x.params = params
		x.task = t.Task
		x.digest = t.Digest
		x.decided = false
		x.reason = ""
		x.next = 0
		x.values = nil
		x.packed = nil
		x.taskReported = false
		x.uploads = false
		x.restartTask()
		x.confirmed = false
		x.forgetAnswer()
	}
}

// restartTask begins anew to count for how long the open task has not reached the device.
func (x *peer) restartTask() {
	x.sent = time.Now()
	x.sends = 0
}

// taskSubject returns the subject on which the device gets its tasks.
func (x *peer) taskSubject() string { return subject.Device(x.gateway.run, x.id, subject.Task) }

// opened reports whether a message belongs to the open task: it has the task's number and, if the device
// sends digests, its digest. An earlier coordinator of the run may have given the number to another task.
func (x *peer) opened(p *bus.Update) bool {
	if x.task == noTask || p.Task != x.task {
		return false
	}
	// A device that sends no digest is judged by the number alone.
	return len(p.TaskDigest) == 0 || bytes.Equal(p.TaskDigest, x.digest)
}

// leave ends the device's part in the run until it joins again. Any process with its credentials
// may then take its place.
func (x *peer) leave() {
	// A rival must join again like any other process.
	x.dismiss()
	x.forgetAnswer()
	x.joined = false
	x.taken = false
	x.task = 0
	x.values = nil
	x.packed = nil
}

// spend takes a message of this many bytes from the device's budget: one, and one more for every
// deviceBudgetBytes. It returns false if the message must not be read; when the budget is exhausted
// the device has flooded.
func (x *peer) spend(bytes int) bool {
	if x.flooded {
		return false
	}
	if x.budget.AllowN(time.Now(), 1+bytes/deviceBudgetBytes) {
		return true
	}
	x.flood(fmt.Sprintf("over %d messages that nobody asked for, of which large ones count for several", deviceBudget))
	return false
}

// flood ends the part of a device that has sent too much, until it is readmitted: its messages are
// no longer listened to, and the run gets an event with the reason. Only the first flood counts.
func (x *peer) flood(reason string) {
	if x.flooded {
		return
	}
	x.leave()
	x.flooded = true
	x.refused[ReasonFlood]++
	x.unsubscribe()
	x.gateway.events.Put(Event{Device: x.index, Kind: Flooded, Text: reason})
}

// ignore counts a refused message under reason, one of the constants above. Only the first message
// for each reason becomes an event with text, so that a broken device cannot flood the log.
func (x *peer) ignore(reason, text string) {
	x.refused[reason]++
	if x.refused[reason] == 1 {
		x.gateway.events.Put(Event{
			Device: x.index,
			Kind:   Ignored,
			Text:   reason + ": " + strings.TrimPrefix(text, "bus: "),
		})
	}
}

// answer replies to the device's request m with status v, a reason for people, and the welcome w, nil
// for none.
func (x *peer) answer(m *bus.RawMessage, v bus.Status, reason string, w *bus.Welcome) {
	x.gateway.reply(m, &bus.DeviceReply{Status: v, Reason: reason, Welcome: w})
}

// onJoin handles m, a device's request to take part, or its question whether it could (Join.Asks). The
// request is always answered within the device's budget. A process that contends for the place of
// another is answered when that is decided.
func (x *peer) onJoin(m *bus.RawMessage) {
	if !x.spend(len(m.Data)) {
		return
	}
	j := new(bus.Join)
	reason, err := x.checkJoin(m, j)
	if err != nil {
		x.ignore(reason, err.Error())
		x.answer(m, bus.Refused, err.Error(), nil)
		return
	}
	if x.outranked(j.Fence) {
		return
	}
	x.limit(j)
	if j.Asks {
		x.answer(m, bus.Accepted, "", x.welcome)
		return
	}
	// Another process has the place of the device.
	if !x.speaks(j.Process) {
		x.contend(j, m)
		return
	}
	// A device that asks has not got its task.
	if m.Reply != "" {
		x.checkTask()
	}
	if x.unreached {
		x.try(j, m)
		return
	}
	x.admit(j, m)
}

// outranked reports whether the device has heard a higher fencing token than this coordinator's, by its own account:
// another coordinator has the run, which answers the message. A device that makes the token up gets no answers.
func (x *peer) outranked(token uint64) bool {
	own := x.gateway.fence()
	if own == noFence || token <= own {
		return false
	}
	x.ignore(ReasonFenced, "it has heard of another coordinator, which has taken the run over")
	return true
}

// checkJoin decodes a join into j. It returns an error that says why the device cannot take part, and
// the reason under which the refusal is counted. It notes the largest number of samples that the device's
// credentials allow, which is part of the message's subject: the server lets a device publish on that
// subject alone.
func (x *peer) checkJoin(m *bus.RawMessage, j *bus.Join) (reason string, err error) {
	if err := bus.Unmarshal(m.Data, j); err != nil {
		return ReasonMalformed, err
	}
	if required := x.gateway.config.Protocol; j.Protocol < required {
		return ReasonOld, bus.Fault(
			"join",
			"protocol",
			j.Protocol,
			fmt.Sprintf("at least %d for the run's %s: update "+
				"the device", required, lackingFeature(required, j.Protocol)),
		)
	}
	if admit := x.gateway.config.Admit; admit != nil {
		if err := admit(j); err != nil {
			return ReasonUnfit, err
		}
	}
	// The server lets a device publish only on the subject with its own limit.
	limit, limited := subject.JoinLimit(m.Subject)
	unlimited := m.Subject == subject.Device(x.gateway.run, x.id, subject.Join)
	if !limited && !unlimited {
		return ReasonMalformed, fmt.Errorf("bus: join: %q has no number of samples", m.Subject)
	}
	x.maxSamples = limit
	return "", nil
}

// lackingFeature names, for people, the feature of a run that a device does not know. required is the
// version of the protocol that the run needs, and version the lower one that the device speaks.
func lackingFeature(required, version uint32) string {
	switch {
	case required >= bus.ProtocolState:
		return "compression, or what its clients keep"
	case required >= bus.ProtocolFrozen:
		return "frozen parameters"
	case required >= bus.ProtocolNoise:
		return "local noise"
	case required >= bus.ProtocolSchema:
		return "data"
	case version >= bus.ProtocolAlgorithm:
		return "local steps"
	}
	return "algorithm"
}

// admit lets the device take part with its join j and answers the request m with the welcome.
func (x *peer) admit(j *bus.Join, m *bus.RawMessage) {
	// The device was restarted, or its connection was lost.
	if !x.joined || m.Reply == "" {
		x.restartTask()
	}
	x.take(j)
	x.answer(m, bus.Accepted, "", x.welcome)
}

// take lets the device take part with its join j. A device that takes part already and may have lost its
// open task makes an event, so that the run sends the task again.
func (x *peer) take(j *bus.Join) {
	x.heard = time.Now()
	switch {
	case !x.joined:
		x.joined = true
		x.gateway.events.Put(Event{Device: x.index, Kind: Joined, Join: j})
	// A process without a number may be a different one, which does not have the task.
	case !x.works() || j.Process == 0:
		x.gateway.events.Put(Event{Device: x.index, Kind: Rejoined, Join: j})
	}
	x.join = j
	x.departed = false
}

// works reports whether the device has reported that it works on its open task. Such a task is not
// sent again: on a slow link the repeat would make the device start its message over.
func (x *peer) works() bool { return x.task != 0 && x.reportedTask == x.task }

// limit reduces the samples that a device claims in its join j to the number that its credentials
// allow, since the samples are its weight in the mean of the updates.
func (x *peer) limit(j *bus.Join) {
	if x.maxSamples > 0 && j.Samples > x.maxSamples {
		x.ignore(
			ReasonSamples,
			fmt.Sprintf(
				"it has %d samples, and its credentials let it have %d: it counts with these",
				j.Samples,
				x.maxSamples,
			),
		)
		j.Samples = x.maxSamples
	}
}

// onHeartbeat handles a heartbeat. The first one after a task confirms that the task has arrived, so it
// is expected and takes nothing from the budget. Only one heartbeat a task is free, even if it is refused.
func (x *peer) onHeartbeat(m *bus.RawMessage) {
	confirms := x.task != noTask && !x.taskReported
	expected := confirms && !x.flooded && len(m.Data) < deviceBudgetBytes
	x.taskReported = true
	if !expected && !x.spend(len(m.Data)) {
		return
	}
	h := new(bus.Heartbeat)
	if err := bus.Unmarshal(m.Data, h); err != nil {
		x.ignore(ReasonMalformed, err.Error())
		return
	}
	if !x.speaks(h.Process) {
		x.ignore(ReasonTwin, "a heartbeat of another process")
		return
	}
	if x.outranked(h.Fence) {
		return
	}
	x.heard = time.Now()
	x.reportedTask = h.Task
	x.confirmed = x.confirmed || x.works() || h.Arrived == x.task
	x.beats++
	x.log = appendLog(x.log, h.Log...)
	if h.Echo != 0 {
		// A device that misses the echo asks again.
		_ = x.gateway.publish(x, &bus.Task{Echo: h.Echo})
	}
	// The device announces that it leaves; another join brings it back.
	if h.Leaves != "" && x.joined {
		x.leave()
		x.departed = true
		x.gateway.events.Put(Event{Device: x.index, Kind: Departed, Text: h.Leaves})
	}
	// The device sends a message again and again that was answered, so answers do not reach it.
	if x.answered.isStuck && x.joined {
		x.lose(noAnswers)
	}
	// A device that heeds fences also says which task has arrived before it works on it; others do not.
	if x.join.GetHeedsFences() && h.Task == noTask {
		x.checkTask()
	}
}

// onUpdate handles one message of an update. The next chunk of the open task's update takes nothing from
// the budget; every other message does. Messages of secure aggregation have another handler.
func (x *peer) onUpdate(m *bus.RawMessage) {
	if m.Subject == subject.Device(x.gateway.run, x.id, subject.Secure) {
		x.onSecure(m)
		return
	}
	p := new(bus.Update)
	err := bus.Unmarshal(m.Data, p)
	// The subject must name the same chunk as the message.
	if err == nil && m.Subject != subject.Device(x.gateway.run, x.id, subject.Chunk(p.Chunk)) {
		err = fmt.Errorf("bus: update: chunk %d on %q", p.Chunk, m.Subject)
	}
	expected := err == nil && !x.flooded && x.expects(p)
	if !expected && !x.spend(len(m.Data)) {
		return
	}
	// A message of another process is refused for that reason, whatever else is wrong with it.
	if x.taken && p.Process != x.process {
		x.refuseTwin(m)
		return
	}
	if err == nil && x.outranked(p.Fence) {
		return
	}
	if err == nil {
		x.speaks(p.Process)
	}
	v, reason := x.receive(p, err)
	x.answer(m, v, reason, nil)
	if err == nil && x.opened(p) {
		x.noteChunk(p)
	}
}

// expects reports whether p is the next message of the open task's update, which is not decided
// yet. Such a message costs the device nothing of its budget.
func (x *peer) expects(p *bus.Update) bool {
	if !x.opened(p) || x.decided {
		return false
	}
	sameLength := x.next == 0 || p.Chunks == x.chunks
	return p.Chunk == x.next && sameLength
}

// receive takes p, one message of an update, and returns the answer to it: a status and a reason
// for people. fault is an error of the message by itself, nil for a valid one. The message that
// decides the task, by which its update is accepted or refused, becomes an event.
func (x *peer) receive(p *bus.Update, fault error) (v bus.Status, reason string) {
	arrived := time.Now()
	if v, reason, answered := x.receiveUnexpected(p, fault); answered {
		return v, reason
	}
	if fault != nil {
		return x.refuseUpdate(&bus.Update{Task: p.Task}, arrived, ReasonInvalid, fault.Error())
	}
	x.heard = arrived
	x.reportedTask = p.Task
	x.confirmed = true
	// A masked update without agreed keys could not be unmasked.
	if x.gateway.config.Secure && !x.uploads {
		return bus.SendKeys, "keys and shares come before the update"
	}
	if p.Last() {
		return x.receiveLast(p, arrived)
	}
	return x.receiveChunk(p, arrived)
}

// receiveUnexpected answers a message that changes nothing: the device is banned, the message is not
// of the open task, or the task is decided already. answered is false for every other message.
func (x *peer) receiveUnexpected(p *bus.Update, fault error) (v bus.Status, reason string, answered bool) {
	ignore := func(kind, text string) (bus.Status, string, bool) {
		x.ignore(kind, text)
		return bus.Refused, text, true
	}
	switch {
	case x.flooded:
		return bus.Refused, "the device is heard no more", true
	// A faulty message of another task must not decide the open one.
	case fault != nil && (!x.opened(p) || x.decided):
		return ignore(ReasonMalformed, fault.Error())
	case x.task != noTask && p.Task == x.task && !x.opened(p):
		return ignore(ReasonStale, fmt.Sprintf("bus: update: the open task %d has another digest", p.Task))
	case !x.opened(p):
		return ignore(ReasonStale, fmt.Sprintf("bus: update: task %d is not open", p.Task))
	case x.decided && x.reason != "":
		return ignore(ReasonStale, x.reason)
	case x.decided:
		return bus.Repeated, "", true
	}
	return bus.Accepted, "", false
}

// receiveLast takes p, the message that ends an update: the update counts if all chunks have arrived,
// have as many values as the task demands, and pass the run's own check. It returns the answer: a status
// and a reason for people. arrived is when the message arrived.
func (x *peer) receiveLast(p *bus.Update, arrived time.Time) (v bus.Status, reason string) {
	hasAllChunks := x.next > 0 && x.next == p.Chunks && x.chunks == p.Chunks
	if !hasAllChunks {
		return bus.SendValues, fmt.Sprintf("%d of %d chunks are here", x.next, p.Chunks)
	}
	if err := x.checkComplete(); err != nil {
		return x.refuseUpdate(p, arrived, ReasonShape, fmt.Sprintf("bus: update: %v", err))
	}
	// The samples weigh the update, so the credentials limit them here, too.
	if x.maxSamples > 0 {
		p.Samples = min(p.Samples, x.maxSamples)
	}
	u := &bus.DeviceUpdate{Update: p, Values: x.values}
	if check := x.gateway.config.Check; check != nil {
		if err := check(u); err != nil {
			return x.refuseUpdate(p, arrived, ReasonInvalid, err.Error())
		}
	}
	x.decide(Updated, u, arrived, "")
	return bus.Accepted, ""
}

// receiveChunk takes p, a message with values, and returns the answer: a status and a reason for people.
// Chunks arrive one after the other; chunk 0 also when the device starts its update over. Values beyond
// those that the task demands refuse the update, so memory is bounded. arrived is when the message
// arrived.
func (x *peer) receiveChunk(p *bus.Update, arrived time.Time) (v bus.Status, reason string) {
	switch {
	// The update starts, or starts over: the chunks that have arrived are dropped.
	case p.Chunk == 0:
		if cap(x.values) < x.params && !x.packs() {
			x.values = make([]float32, 0, x.params)
		}
		x.next = 0
		x.chunks = p.Chunks
		x.values = x.values[:0]
		x.packed = x.packed[:0]
	// The device repeats the last chunk, because the answer to it was lost.
	case p.Chunk == x.next-1 && p.Chunks == x.chunks:
		return bus.Continue, ""
	case p.Chunk != x.next || p.Chunks != x.chunks:
		x.ignore(
			ReasonOrder,
			fmt.Sprintf("bus: update: chunk %d of %d, want %d of %d", p.Chunk, p.Chunks, x.next, x.chunks),
		)
		return bus.SendValues, "chunks go one after the other, from 0"
	}
	// Values are packed exactly if the run compresses updates.
	hasRightForm := x.packs() == (len(p.Packed) > 0)
	if !hasRightForm {
		return x.refuseUpdate(
			&bus.Update{Task: p.Task},
			arrived,
			ReasonShape,
			"bus: update: its values are packed where the run compresses updates, and only there",
		)
	}
	tooManyValues := len(x.values)+len(p.Values)/4 > x.params
	tooManyPacked := len(x.packed)+len(p.Packed) > vector.MostPacked(x.params)
	if tooManyValues || tooManyPacked {
		return x.refuseUpdate(
			&bus.Update{Task: p.Task},
			arrived,
			ReasonShape,
			fmt.Sprintf("bus: update: more than the %d values of the task", x.params),
		)
	}
	x.values = vector.Append(x.values, p.Values)
	x.packed = append(x.packed, p.Packed...)
	x.next++
	return bus.Continue, ""
}

// refuseUpdate decides the open task: its update cannot count. It returns the answer to the message. u is
// the update for the event, kind the reason under which the message is counted, and text the reason for
// the device and for people.
func (x *peer) refuseUpdate(u *bus.Update, arrived time.Time, kind, text string) (bus.Status, string) {
	x.decide(Refused, &bus.DeviceUpdate{Update: u}, arrived, text)
	x.ignore(kind, text)
	return bus.Refused, text
}

// decide ends the wait for the open task's update u, by an event of this kind, Updated or Refused.
// text is why it was refused, empty if it was accepted. Later messages of the update are answered
// with the same decision.
func (x *peer) decide(kind EventKind, u *bus.DeviceUpdate, arrived time.Time, text string) {
	x.decided = true
	x.reason = text
	x.values = nil
	x.packed = nil
	x.gateway.events.Put(Event{
		Device:  x.index,
		Kind:    kind,
		Update:  u,
		Text:    strings.TrimPrefix(text, "bus: "),
		Arrived: arrived,
	})
}
