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

// peer is what the gateway knows of one device. The callers of the methods hold the lock, except those of expect,
// sendTask, and subscribe for a new peer.
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
	presence
	traffic
	place
	reach
	openTask
	receivedUpdate
}

// presence is whether a device takes part, and what was heard of it.
type presence struct {
	// joined says that the device takes part.
	joined bool
	// departed says that the device has left: it has announced that, or was not reached.
	departed bool
	// join is the last join that was accepted, nil if none was.
	join *bus.Join
	// lastHeard is when the last valid message arrived, the zero time for never.
	lastHeard time.Time
	// lastCalled is when the device was last called although it took part, the zero time for never.
	lastCalled time.Time
	// heartbeats counts the heartbeats that were received, and lastHeartbeat is when the last one was.
	heartbeats    int64
	lastHeartbeat time.Time
	// lastLateHeartbeat is when a heartbeat last came late, at least two intervals after the one before.
	lastLateHeartbeat time.Time
	// log holds the newest lines of the device's log.
	log []string
	// samples is the number of training samples that its last accepted update gave, 0 for none. A device
	// that reads its data only with a run's first task joins before it knows the number.
	samples uint64
}

// traffic is what limits a device's messages.
type traffic struct {
	// subs are the subscriptions to the device's messages, none if its messages are not taken.
	subs []bus.Subscription
	// subscribeCount counts the calls of subscribe.
	subscribeCount int
	// budget limits the messages that the device may send beyond what is expected of it.
	budget *rate.Limiter
	// banned says that no message of the device counts, since the run has banned it or it has sent too much.
	banned bool
	// refused counts the refused messages by reason.
	refused map[string]int
}

// place is which process takes part as a device.
type place struct {
	// placeTaken says that a process has the device's place.
	placeTaken bool
	// process is the random number of the process with the place, 0 if the process has not sent one.
	process uint64
	// rival is a process that waits for the place, nil if none does.
	rival *rival
	// maxSamples is the largest number of samples that the device's credentials allow, 0 for any
	// number.
	maxSamples uint64
}

// openTask is the task on which a device is to work.
type openTask struct {
	// task is the number of the open task, or noTask.
	task uint64
	// digest is the digest of the task.
	digest []byte
	// params is the number of values that the task's update must have.
	params int
	// takesMaskedUpdate says that a masked update for the open task is taken, see Config.Secure.
	takesMaskedUpdate bool
	// message is the message with the task, as it was sent last.
	message []byte
	// firstSent is when the task was sent first, since the device last joined and the connection last came back.
	firstSent time.Time
	// sendCount counts how often it was sent since then.
	sendCount int
	// reportedTask is the task on which the device works by its own last report.
	reportedTask uint64
	// heartbeatSinceOpened says that a heartbeat has arrived since the task was opened.
	heartbeatSinceOpened bool
	// taskArrived says that the device has shown that the task has reached it.
	taskArrived bool
}

// receivedUpdate is what has arrived of the update of the open task.
type receivedUpdate struct {
	// chunkCount is the number of the update's chunks, as its first chunk gives it.
	chunkCount uint32
	// nextChunk is the number of the next chunk.
	nextChunk uint32
	// values are the update's values so far, if the run does not compress updates.
	values []float32
	// packed is the compressed form of the update so far, if the run compresses updates.
	packed []byte
	// decided says that the update was accepted or refused.
	decided bool
	// refusedBecause is why the update was refused, empty if it was accepted.
	refusedBecause string
}

// packs reports whether updates arrive packed, as they do in a run that compresses them.
func (p *peer) packs() bool { return p.welcome.GetSpec().GetCompression() != "" }

// checkComplete is called when all chunks of an update have arrived. It unpacks the values if the run
// compresses updates, and returns an error unless there are as many values as the task demands.
func (p *peer) checkComplete() (err error) {
	if p.packs() {
		p.values, err = vector.Unpack(p.packed, p.params)
	} else if len(p.values) != p.params {
		err = fmt.Errorf("%d values, want %d", len(p.values), p.params)
	}
	return err
}

// subscribe subscribes to the device's joins, heartbeats and updates, with a full budget. Too many
// waiting messages count as a flood. It is called for a new device and for one that is readmitted.
func (p *peer) subscribe() error {
	p.budget = rate.NewLimiter(deviceRefill, deviceBudget)
	p.subscribeCount++
	turn := p.subscribeCount
	backlog := &bus.Backlog{Messages: devicePendingMessages, Bytes: devicePendingBytes, Dropped: func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		// A drop of an earlier subscription does not count against a device that was readmitted since.
		if p.subscribeCount == turn {
			p.flood("messages were dropped since too many were waiting")
		}
	}}
	// Each handler runs with the lock held.
	for verb, f := range map[string]func(*bus.RawMessage){
		subject.Join:          p.onJoin,
		subject.Join + ".*":   p.onJoin,
		subject.Heartbeat:     p.onHeartbeat,
		subject.Update + ".*": p.onUpdate,
	} {
		s, err := p.gateway.conn.Subscribe(subject.Device(p.gateway.run, p.id, verb), backlog, func(m *bus.RawMessage) {
			p.mu.Lock()
			defer p.mu.Unlock()
			f(m)
		})
		if err != nil {
			return fmt.Errorf("bus: subscribe for device %s: %w", p.id, err)
		}
		p.subs = append(p.subs, s)
	}
	return nil
}

// unsubscribe ends the subscriptions. The transport may still report a drop of them later, from
// a goroutine of its own.
func (p *peer) unsubscribe() {
	for _, s := range p.subs {
		// Unsubscribe fails only on a closed connection, which has no subscriptions.
		_ = s.Unsubscribe()
	}
	p.subs = nil
}

// expect opens task t, whose update must have params values, and closes the one before. A task that is open already
// keeps what has arrived of its update. The caller does not hold the lock.
func (p *peer) expect(t *bus.Task, params int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Nothing has arrived for a new task. On which task the device works, only its own reports change.
	if p.task != t.Task {
		p.openTask = openTask{
			task:         t.Task,
			digest:       t.Digest,
			params:       params,
			reportedTask: p.reportedTask,
		}
		p.receivedUpdate = receivedUpdate{}
		p.restartTask()
		p.forgetAnswer()
	}
}

// restartTask begins anew to count for how long the open task has not reached the device.
func (p *peer) restartTask() {
	p.firstSent = time.Now()
	p.sendCount = 0
}

// taskSubject returns the subject on which the device gets its tasks.
func (p *peer) taskSubject() string { return subject.Device(p.gateway.run, p.id, subject.Task) }

// isOfOpenTask reports whether a message belongs to the open task: it has the task's number and, if the device
// sends digests, its digest. An earlier coordinator of the run may have given the number to another task.
func (p *peer) isOfOpenTask(part *bus.Update) bool {
	if p.task == noTask || part.Task != p.task {
		return false
	}
	// A device that sends no digest is judged by the number alone.
	return len(part.TaskDigest) == 0 || bytes.Equal(part.TaskDigest, p.digest)
}

// leave ends the device's part in the run until it joins again. Any process with its credentials
// may then take its place.
func (p *peer) leave() {
	// A rival must join again like any other process.
	p.dismiss()
	p.forgetAnswer()
	p.echoes.forget()
	p.joined = false
	p.placeTaken = false
	// The process that takes the place has not got the task before it says so.
	p.reportedTask = noTask
	p.task = noTask
	// The parts of an update that have come are dropped.
	p.values = nil
	p.packed = nil
}

// spendBudget takes a message of this many bytes from the device's budget: one, and one more for every
// deviceBudgetBytes. It returns false if the message must not be read; when the budget is exhausted
// the device has flooded.
func (p *peer) spendBudget(bytes int) bool {
	if p.banned {
		return false
	}
	if p.budget.AllowN(time.Now(), 1+bytes/deviceBudgetBytes) {
		return true
	}
	p.flood(fmt.Sprintf("over %d messages that nobody asked for, of which large ones count for several", deviceBudget))
	return false
}

// flood bans a device that has sent too much, until it is readmitted: its part in the run ends, its messages are no
// longer listened to, and the run gets an event with the reason. A device that is banned already stays as it is.
func (p *peer) flood(reason string) {
	if p.banned {
		return
	}
	p.leave()
	p.banned = true
	p.refused[ReasonFlood]++
	p.unsubscribe()
	p.gateway.events.Put(Event{Device: p.index, Kind: Flooded, Text: reason})
}

// countRefused counts a refused message, or a refused part of one, under reason, one of the constants above. Only the
// first one for each reason becomes an event with text, so that a broken device cannot flood the log. It sends no
// answer.
func (p *peer) countRefused(reason, text string) {
	p.refused[reason]++
	if p.refused[reason] == 1 {
		p.gateway.events.Put(Event{
			Device: p.index,
			Kind:   Ignored,
			Text:   reason + ": " + strings.TrimPrefix(text, "bus: "),
		})
	}
}

// answer replies to the device's request m with a status, a reason for people, and the welcome w, nil
// for none.
func (p *peer) answer(m *bus.RawMessage, status bus.Status, reason string, w *bus.Welcome) {
	p.gateway.reply(m, &bus.DeviceReply{Status: status, Reason: reason, Welcome: w})
}

// onJoin handles m, a device's request to take part, or its question whether it could (Join.Asks). The
// request is always answered within the device's budget. A process that contends for the place of
// another is answered when that is decided.
func (p *peer) onJoin(m *bus.RawMessage) {
	if !p.spendBudget(len(m.Data)) {
		return
	}
	j := new(bus.Join)
	reason, err := p.checkJoin(m, j)
	if err != nil {
		p.countRefused(reason, err.Error())
		p.answer(m, bus.Refused, err.Error(), nil)
		return
	}
	if p.coordinatorOutranked(j.Fence) {
		return
	}
	p.limitSamples(j)
	if j.Asks {
		p.answer(m, bus.Accepted, "", p.welcome)
		return
	}
	// Another process has the place of the device.
	if !p.claimPlace(j.Process) {
		p.contendForPlace(j, m)
		return
	}
	// A device that joins by a request has not got its task.
	isRequest := m.Reply != ""
	if isRequest {
		p.checkTask()
	}
	if p.unreached {
		p.startTrial(j, m)
		return
	}
	p.admit(j, m)
}

// coordinatorOutranked reports whether the device has heard a higher fencing token than this coordinator's, by its
// own account: another coordinator has the run, which answers the message, so this one does not. A device that makes
// the token up gets no answers. token is that of the device's message.
func (p *peer) coordinatorOutranked(token uint64) bool {
	own := p.gateway.fence()
	if own == noFence || token <= own {
		return false
	}
	p.countRefused(ReasonFenced, "it has heard of another coordinator, which has taken the run over")
	return true
}

// checkJoin decodes the message m into join. It returns an error that says why the device cannot take part, and
// the reason under which the refusal is counted. It notes in maxSamples the largest number of samples that the
// device's credentials allow, or 0 if they set no limit. The limit is part of the message's subject, and the server
// lets a device publish on its own subject alone.
func (p *peer) checkJoin(m *bus.RawMessage, join *bus.Join) (reason string, err error) {
	if err := bus.Unmarshal(m.Data, join); err != nil {
		return ReasonMalformed, err
	}
	if required := p.gateway.config.Protocol; join.Protocol < required {
		return ReasonOld, bus.Fault(
			"join",
			"protocol",
			join.Protocol,
			fmt.Sprintf("at least %d for the run's %s: update the device", required, lackingFeature(required)),
		)
	}
	if admit := p.gateway.config.Admit; admit != nil {
		if err := admit(join); err != nil {
			return ReasonUnfit, err
		}
	}
	// A subject without a limit leaves limit at 0.
	limit, limited := subject.JoinLimit(m.Subject)
	unlimited := m.Subject == subject.Device(p.gateway.run, p.id, subject.Join)
	if !limited && !unlimited {
		return ReasonMalformed, fmt.Errorf("bus: join: %q has no number of samples", m.Subject)
	}
	p.maxSamples = limit
	return "", nil
}

// lackingFeature names, for people, the feature for which a run needs the version required of the protocol.
// It is the newest feature of that version: a device of a lower version does not know it.
func lackingFeature(required uint32) string {
	switch {
	case required >= bus.ProtocolMasks:
		return "secure aggregation"
	case required >= bus.ProtocolTargets:
		return "scaled targets"
	case required >= bus.ProtocolState:
		return "compression, or what its clients keep"
	case required >= bus.ProtocolFrozen:
		return "frozen parameters"
	case required >= bus.ProtocolNoise:
		return "local noise"
	case required >= bus.ProtocolSchema:
		return "data"
	case required >= bus.ProtocolOptimizer:
		return "local optimizer"
	}
	return "algorithm"
}

// admit lets the device take part with its join and answers m, the message with the join, with the welcome.
// A join without a reply subject is not answered: a device sends one when its connection is back or when it
// was called.
func (p *peer) admit(join *bus.Join, m *bus.RawMessage) {
	// Its task may have been lost until now for such a device, as for one that joins anew. So the time in which
	// the task must reach it begins again.
	announces := m.Reply == ""
	if !p.joined || announces {
		p.restartTask()
	}
	p.joinRun(join)
	p.answer(m, bus.Accepted, "", p.welcome)
}

// joinRun lets the device take part with its join. A device that takes part already and may have lost its
// open task makes an event, so that the run sends the task again.
func (p *peer) joinRun(join *bus.Join) {
	p.lastHeard = time.Now()
	switch {
	case !p.joined:
		p.joined = true
		p.gateway.events.Put(Event{Device: p.index, Kind: Joined, Join: join})
	// A device that has not confirmed its task may have lost it. A process that sends no number (0) may be
	// another one than before, which does not have the task.
	case !p.worksOnTask() || join.Process == 0:
		p.gateway.events.Put(Event{Device: p.index, Kind: Rejoined, Join: join})
	}
	p.join = join
	p.departed = false
}

// worksOnTask reports whether the device has reported that it works on its open task. Such a task is not
// sent again: on a slow link the repeat would make the device start its message over.
func (p *peer) worksOnTask() bool { return p.task != noTask && p.reportedTask == p.task }

// limitSamples reduces the samples that a device claims in its join to the number that its credentials allow, since
// the samples are its weight in the mean of the updates.
func (p *peer) limitSamples(join *bus.Join) {
	if p.maxSamples > 0 && join.Samples > p.maxSamples {
		p.countRefused(
			ReasonSamples,
			fmt.Sprintf(
				"it has %d samples, and its credentials let it have %d: it counts with these",
				join.Samples,
				p.maxSamples,
			),
		)
		join.Samples = p.maxSamples
	}
}

// onHeartbeat handles a heartbeat, m. Unless it is refused, it updates when the device was heard, on which task
// it works, its log and its echoes. It may end the device's part in the run: the device leaves, or it is heard
// and not reached.
//
// The device sends a heartbeat as soon as it has a task, so the first one after a task is expected and takes
// nothing from the budget. Only one heartbeat a task is free, even if it is refused.
func (p *peer) onHeartbeat(m *bus.RawMessage) {
	isFirstSinceTask := p.task != noTask && !p.heartbeatSinceOpened
	expected := isFirstSinceTask && !p.banned && len(m.Data) < deviceBudgetBytes
	p.heartbeatSinceOpened = true
	if !expected && !p.spendBudget(len(m.Data)) {
		return
	}
	h := new(bus.Heartbeat)
	if err := bus.Unmarshal(m.Data, h); err != nil {
		p.countRefused(ReasonMalformed, err.Error())
		return
	}
	if !p.claimPlace(h.Process) {
		p.countRefused(ReasonTwin, "a heartbeat of another process")
		return
	}
	if p.coordinatorOutranked(h.Fence) {
		return
	}
	p.noteHeartbeat(h)
	p.takeEchoes(h)
	p.answerEcho(h, m)
	// The device announces that it leaves; another join brings it back.
	if h.Leaves != "" && p.joined {
		p.leave()
		p.departed = true
		p.gateway.events.Put(Event{Device: p.index, Kind: Departed, Text: h.Leaves})
	}
	// The device sends a message again and again that was answered, so answers do not reach it.
	if p.lastAnswered.isStuck && p.joined {
		p.dropUnreached(noAnswers)
	}
	// A device that heeds fences also says which task has arrived before it works on it; others do not.
	if p.join.GetHeedsFences() && h.Task == noTask {
		p.checkTask()
	}
}

// noteHeartbeat notes what heartbeat h, which has just arrived, says of the device: that it was heard, on which task
// it works, whether the open task has reached it, and the lines of its log.
func (p *peer) noteHeartbeat(h *bus.Heartbeat) {
	now := time.Now()
	if p.heartbeatIsLate(now) {
		p.lastLateHeartbeat = now
	}
	p.heartbeats++
	p.lastHeartbeat = now
	p.lastHeard = now
	p.reportedTask = h.Task
	// h.Arrived is the newest task that the device has, also before it works on it.
	p.taskArrived = p.taskArrived || p.worksOnTask() || h.Arrived == p.task
	p.log = appendLog(p.log, h.Log...)
}

// onUpdate handles one message of an update. The next chunk of the open task's update takes nothing from
// the budget; every other message does. Messages of secure aggregation have another handler.
func (p *peer) onUpdate(m *bus.RawMessage) {
	if m.Subject == subject.Device(p.gateway.run, p.id, subject.Secure) {
		p.onSecure(m)
		return
	}
	part := new(bus.Update)
	err := bus.Unmarshal(m.Data, part)
	// The subject must name the same chunk as the message.
	if err == nil && m.Subject != subject.Device(p.gateway.run, p.id, subject.Chunk(part.Chunk)) {
		err = fmt.Errorf("bus: update: chunk %d on %q", part.Chunk, m.Subject)
	}
	expected := err == nil && !p.banned && p.expectsPart(part)
	if !expected && !p.spendBudget(len(m.Data)) {
		return
	}
	// A message of another process is refused for that reason, whatever else is wrong with it.
	if p.placeTaken && part.Process != p.process {
		p.refuseTwin(m)
		return
	}
	if err == nil && p.coordinatorOutranked(part.Fence) {
		return
	}
	// The place is free or this process has it already, so the claim succeeds.
	if err == nil {
		p.claimPlace(part.Process)
	}
	v, reason := p.receive(part, err)
	p.answer(m, v, reason, nil)
	if err == nil && p.isOfOpenTask(part) {
		p.noteChunk(part)
	}
}

// expectsPart reports whether part is the next message of the open task's update, which is not decided
// yet. Such a message costs the device nothing of its budget.
func (p *peer) expectsPart(part *bus.Update) bool {
	if !p.isOfOpenTask(part) || p.decided {
		return false
	}
	sameLength := p.nextChunk == 0 || part.Chunks == p.chunkCount
	return part.Chunk == p.nextChunk && sameLength
}

// receive takes part, one message of an update, and returns the answer to it: a status and a reason
// for people. fault is an error of the message by itself, nil for a valid one. The message that
// decides the task, by which its update is accepted or refused, becomes an event.
func (p *peer) receive(part *bus.Update, fault error) (status bus.Status, reason string) {
	arrived := time.Now()
	if status, reason, answered := p.receiveUnexpected(part, fault); answered {
		return status, reason
	}
	if fault != nil {
		return p.refuseUpdate(&bus.Update{Task: part.Task}, arrived, ReasonInvalid, fault.Error())
	}
	// The message is of the open task, so the device has that task and works on it.
	p.lastHeard = arrived
	p.reportedTask = part.Task
	p.taskArrived = true
	// A masked update without agreed keys could not be unmasked.
	if p.gateway.config.Secure && !p.takesMaskedUpdate {
		return bus.SendKeys, "keys and shares come before the update"
	}
	if part.Last() {
		return p.receiveLast(part, arrived)
	}
	return p.receiveChunk(part, arrived)
}

// receiveUnexpected answers a message that changes nothing: the device is banned, the message is not of the open
// task, or its update was accepted or refused already. fault is an error of the message by itself, nil for a valid
// one. answered is false for every other message, which the caller has yet to handle.
func (p *peer) receiveUnexpected(part *bus.Update, fault error) (status bus.Status, reason string, answered bool) {
	refuse := func(kind, text string) (bus.Status, string, bool) {
		p.countRefused(kind, text)
		return bus.Refused, text, true
	}
	switch {
	case p.banned:
		return bus.Refused, "the device is heard no more", true
	// A faulty message of another task must not decide the open one.
	case fault != nil && (!p.isOfOpenTask(part) || p.decided):
		return refuse(ReasonMalformed, fault.Error())
	case p.task != noTask && part.Task == p.task && !p.isOfOpenTask(part):
		return refuse(ReasonStale, fmt.Sprintf("bus: update: the open task %d has another digest", part.Task))
	case !p.isOfOpenTask(part):
		return refuse(ReasonStale, fmt.Sprintf("bus: update: task %d is not open", part.Task))
	case p.decided && p.refusedBecause != "":
		return refuse(ReasonStale, p.refusedBecause)
	case p.decided:
		return bus.Repeated, "", true
	}
	return bus.Accepted, "", false
}

// receiveLast takes part, the message that ends an update: the update counts if all chunks have arrived,
// have as many values as the task demands, and pass the run's own check. It returns the answer: a status
// and a reason for people. arrived is when the message arrived.
func (p *peer) receiveLast(part *bus.Update, arrived time.Time) (status bus.Status, reason string) {
	hasAllChunks := p.nextChunk > 0 && p.nextChunk == part.Chunks && p.chunkCount == part.Chunks
	if !hasAllChunks {
		return bus.SendValues, fmt.Sprintf("%d of %d chunks are here", p.nextChunk, part.Chunks)
	}
	if err := p.checkComplete(); err != nil {
		return p.refuseUpdate(part, arrived, ReasonShape, fmt.Sprintf("bus: update: %v", err))
	}
	// The samples weigh the update, so the credentials limit them here, too.
	if p.maxSamples > 0 {
		part.Samples = min(part.Samples, p.maxSamples)
	}
	u := &bus.DeviceUpdate{Update: part, Values: p.values}
	if check := p.gateway.config.Check; check != nil {
		if err := check(u); err != nil {
			return p.refuseUpdate(part, arrived, ReasonInvalid, err.Error())
		}
	}
	p.noteDownload(part.DownloadNs)
	p.samples = part.Samples
	p.decide(Updated, u, arrived, "")
	return bus.Accepted, ""
}

// receiveChunk takes part, a message with values, and returns the answer: a status and a reason for people.
// Chunks arrive one after the other; chunk 0 also when the device starts its update over. Values beyond
// those that the task demands refuse the update, so memory is bounded. arrived is when the message
// arrived.
func (p *peer) receiveChunk(part *bus.Update, arrived time.Time) (status bus.Status, reason string) {
	switch {
	// The update starts, or starts over: the chunks that have arrived are dropped.
	case part.Chunk == 0:
		if cap(p.values) < p.params && !p.packs() {
			p.values = make([]float32, 0, p.params)
		}
		p.nextChunk = 0
		p.chunkCount = part.Chunks
		p.values = p.values[:0]
		p.packed = p.packed[:0]
	// The device repeats the last chunk, because the answer to it was lost.
	case part.Chunk == p.nextChunk-1 && part.Chunks == p.chunkCount:
		return bus.Continue, ""
	case part.Chunk != p.nextChunk || part.Chunks != p.chunkCount:
		p.countRefused(
			ReasonOrder,
			fmt.Sprintf(
				"bus: update: chunk %d of %d, want %d of %d",
				part.Chunk,
				part.Chunks,
				p.nextChunk,
				p.chunkCount,
			),
		)
		return bus.SendValues, "chunks go one after the other, from 0"
	}
	// Values are packed exactly if the run compresses updates.
	hasRightForm := p.packs() == (len(part.Packed) > 0)
	if !hasRightForm {
		return p.refuseUpdate(
			&bus.Update{Task: part.Task},
			arrived,
			ReasonShape,
			"bus: update: its values are packed where the run compresses updates, and only there",
		)
	}
	tooManyValues := len(p.values)+len(part.Values)/4 > p.params
	tooManyPacked := len(p.packed)+len(part.Packed) > vector.MostPacked(p.params)
	if tooManyValues || tooManyPacked {
		return p.refuseUpdate(
			&bus.Update{Task: part.Task},
			arrived,
			ReasonShape,
			fmt.Sprintf("bus: update: more than the %d values of the task", p.params),
		)
	}
	p.values = vector.Append(p.values, part.Values)
	p.packed = append(p.packed, part.Packed...)
	p.nextChunk++
	return bus.Continue, ""
}

// refuseUpdate decides the open task: its update cannot count. It returns the answer to the message. u is
// the update for the event, kind the reason under which the message is counted, and text the reason for
// the device and for people.
func (p *peer) refuseUpdate(u *bus.Update, arrived time.Time, kind, text string) (bus.Status, string) {
	p.decide(Refused, &bus.DeviceUpdate{Update: u}, arrived, text)
	p.countRefused(kind, text)
	return bus.Refused, text
}

// decide ends the wait for the open task's update u, by an event of this kind, Updated or Refused.
// text is why it was refused, empty if it was accepted. Later messages of the update are answered
// with the same decision.
func (p *peer) decide(kind EventKind, u *bus.DeviceUpdate, arrived time.Time, text string) {
	p.decided = true
	p.refusedBecause = text
	p.values = nil
	p.packed = nil
	p.gateway.events.Put(Event{
		Device:  p.index,
		Kind:    kind,
		Update:  u,
		Text:    strings.TrimPrefix(text, "bus: "),
		Arrived: arrived,
	})
}
