package realdevices

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/coordinator/round"
	"fedpace/internal/vector"
)

// Secure is how devices aggregate securely. Each round with devices has a session. It lies in memory
// alone: a coordinator that is started again begins the round's stages again, under the same tasks,
// which devices notice by the status SEND_KEYS. The devices keep the updates that they have computed,
// and sign one set of survivors for a task, so that the sum is the same.
//
// Where rounds overlap, the session is that of a round's group, and devices have taken their steps before (groups.go).
//
// All of it happens on the run's goroutine. Messages of devices are events of the gateway, and carry a
// function that answers them when their stage is over.
type Secure struct {
	Terms secagg.Terms
	// StageLimit is how long each stage but the upload waits for a device, in wall time. With 0 it waits
	// until the device is silent for too long, or a quarter of the time for a task has passed.
	StageLimit time.Duration
}

// session is one round of secure aggregation.
type session struct {
	round int
	// stage is the stage of which messages are taken.
	stage  bus.SecureStage
	server *secagg.Server
	// stageBegan is the wall time at which the stage began.
	stageBegan time.Time
	// members are the devices that take part, by device. One that leaves is no member any more.
	members map[int]*member
	// survivors are the devices whose updates count, while the sum is recovered.
	survivors map[int]bool
	// survivorSet is the encoded set of survivors, as it is sent to devices; nil before the upload is over.
	survivorSet []byte
	// signatures are the survivors' signatures of set, as they are sent to devices; nil before that
	// stage is over.
	signatures []byte
	// failed says that too few devices were left for the upload, so that the session is over.
	failed bool
	// factors has by client the factor of a device's weight, where rounds overlap; nil elsewhere, where all are 1.
	factors map[uint32]uint64
	// recovered says that the sum is recovered, so that no share is needed any more.
	recovered bool
}

// member is one device in a session.
type member struct {
	// task is the number of the device's task in the round.
	task uint64
	// taskSent is the wall time at which it got its task.
	taskSent time.Time
	// reply answers the device's message that waits for the end of its stage; nil if none waits.
	reply func(*bus.DeviceReply)
	// lastTaken is the latest stage of which a message was taken.
	lastTaken bus.SecureStage
	// stages are how long the stages of secure aggregation took the device.
	stages round.Stages
}

// joinSecureSession makes the device of a task a member of the session of secure aggregation of the task's round,
// and begins the session if this is the round's first task of a device. It does nothing in a run without
// secure aggregation.
func (d *Devices) joinSecureSession(task *round.Task) error {
	// Where rounds overlap the device takes its steps first.
	if d.Secure == nil || d.MasksInGroups() {
		return nil
	}
	if d.session == nil || d.session.round != task.Round {
		if err := d.beginSession(task.Round); err != nil {
			return err
		}
		// A coordinator that is killed in this round must find it in its checkpoint.
		d.mustSave = true
	}
	d.session.members[d.deviceOf(task.Client)] = &member{task: task.Task, taskSent: time.Now()}
	return nil
}

// beginSession begins the session of secure aggregation of a round, without members.
func (d *Devices) beginSession(number int) error {
	server, err := secagg.NewServer(secagg.NewContext(d.run.Name, uint32(number)), d.Secure.Terms)
	if err != nil {
		return err
	}
	server.MaxWeight = d.maxWeight
	d.session = &session{
		round:      number,
		stage:      bus.StageKeys,
		server:     server,
		stageBegan: time.Now(),
		members:    map[int]*member{},
	}
	return nil
}

// maxWeight returns the largest weight that a device may claim in secure aggregation: that of the run, or
// the number of samples that its credentials allow if that is less. client is its number in the run. In a group it is
// that times the factor of the device's weight.
func (d *Devices) maxWeight(client uint32) uint64 {
	limit := d.Welcome.Secure.MaxWeight
	// 0 means that the credentials set no limit.
	if samples := d.gateway.MaxSamples(d.deviceOf(int(client))); samples > 0 {
		limit = min(limit, samples)
	}
	return limit * d.session.factor(client)
}

// factor returns the factor of the weight of a client's device: 1 where rounds do not overlap.
func (s *session) factor(client uint32) uint64 { return max(1, s.factors[client]) }

// HoldsMasked reports whether masked updates wait to be summed. They mean nothing without their
// session, which no checkpoint holds, so no checkpoint is taken until they are in the model.
func (d *Devices) HoldsMasked() bool {
	return d != nil && d.Secure != nil && len(d.updates) > 0
}

// SecureWeight returns the weight of the masked update of this task, without a factor, which the device has reported
// with its keys. It is 1 if the task has no update or the run no session.
func (d *Devices) SecureWeight(task uint64) uint64 {
	a := d.updates[task]
	if d.session == nil || a == nil {
		return 1
	}
	client := uint32(a.Client)
	return d.session.server.Weight(client) / d.session.factor(client)
}

// stagesOf returns how long the stages of secure aggregation took the device that is this client, nil if
// the device is not a member of the session.
func (d *Devices) stagesOf(client int) *round.Stages {
	if d.session == nil {
		return nil
	}
	m := d.session.members[d.deviceOf(client)]
	if m == nil {
		return nil
	}
	stages := m.stages
	return &stages
}

// takeSecure handles a device's message of one stage of secure aggregation, and ends the session's stage
// once every message of it has arrived. event is the gateway's; it has the message, and its Reply answers
// the device.
func (d *Devices) takeSecure(event *gateway.Event) {
	if d.takeBeforeGroup(event) {
		return
	}
	session := d.session
	var sender *member
	if session != nil {
		sender = session.members[event.Device]
	}
	if sender == nil || sender.task != event.Message.Task {
		event.Reply(refusal("it has no part in the round"))
		return
	}
	stage := event.Message.Stage
	// Without a payload a message of the first stage says that the device goes no further.
	if stage == bus.StageKeys && len(event.Message.Payload) == 0 {
		const reason = "it has given its task up"
		d.notice("Device %s takes no further part in round %d: %s.", d.Names[event.Device], session.round, reason)
		d.leaveSession(event.Device, reason)
		event.Reply(refusal(reason))
		d.advanceSession()
		return
	}
	// A message may belong to the session's stage, repeat an earlier one, or come from a device
	// that has begun its task again. With the message of the stage of masks a device asks for the set of
	// survivors, once it has sent its masked update. It may do so in any later stage, too.
	asksForSurvivors := stage == bus.StageMasked && session.stage >= bus.StageMasked
	isOfThisStage := stage == session.stage || asksForSurvivors
	isOfEarlierStage := stage < session.stage
	repeatsLast := isOfEarlierStage && stage == sender.lastTaken
	repeatsLateStage := isOfEarlierStage && stage >= bus.StageSurvivors && sender.lastTaken >= stage
	switch {
	case isOfThisStage:
		d.takeInStage(sender, event)
	// The device repeats its message, so the answer to it was lost. The answers of the last two stages can be
	// repeated to a device that has gone further, too. Earlier messages of such a device mean that it has begun
	// its task again.
	case repeatsLast || repeatsLateStage:
		d.repeatReply(sender, event)
	// Keys for a round that has left the stage of keys mean that the device has lost what it knew.
	case stage == bus.StageKeys:
		d.leaveSession(event.Device, "it has begun its task again, and the round has gone on")
		event.Reply(refusal("the round has gone on"))
	// A device that sends more than keys to a session that collects keys remembers an earlier session, and
	// must begin again.
	case session.stage == bus.StageKeys:
		event.Reply(&bus.DeviceReply{Status: bus.SendKeys})
	// So does one that is ahead of the session at a later stage.
	case sender.lastTaken < stage && stage > session.stage:
		event.Reply(&bus.DeviceReply{Status: bus.SendKeys})
	default:
		event.Reply(refusal("the stage is over"))
	}
	d.advanceSession()
}

// refusal returns the answer to a message that cannot count, with a reason for the device's log.
func refusal(reason string) *bus.DeviceReply {
	return &bus.DeviceReply{Status: bus.Refused, Reason: reason}
}

// takeInStage passes a device's message of the session's present stage to the server of the secure
// aggregation, and notes in sender how far the device is and how long it took. A message that the server
// does not accept is answered with a refusal, and the device leaves the session. Otherwise the device is
// answered when the stage ends. With a message of the stage of masks, which the server need not see, the device
// only asks for the set of survivors: it has sent its masked update as the answer to its task.
func (d *Devices) takeInStage(sender *member, event *gateway.Event) {
	session := d.session
	client := uint32(d.clientOf(event.Device))
	message := event.Message
	var err error
	switch message.Stage {
	case bus.StageKeys:
		sender.stages.Keys = max(1, round.Time(event.Arrived.Sub(sender.taskSent)))
		err = session.server.Keys(client, message.Payload)
		if err == nil && session.server.Weight(client)%session.factor(client) != 0 {
			err = fmt.Errorf("client %d has no weight with the factor %d", client, session.factor(client))
		}
	case bus.StageShares:
		sender.stages.Shares = max(1, round.Time(event.Arrived.Sub(session.stageBegan)))
		err = session.server.Shares(client, message.Payload)
	case bus.StageSurvivors:
		err = session.server.Signature(client, message.Payload)
	case bus.StageRecovery:
		if !session.recovered {
			_, err = session.server.Reveal(client, message.Payload)
		}
	}
	// A device whose message is refused ends its task, so the stage does not wait for it.
	if err != nil {
		event.Reply(refusal(err.Error()))
		d.notice("Device %s: secure aggregation: %v.", d.Names[event.Device], err)
		d.leaveSession(event.Device, err.Error())
		return
	}
	sender.lastTaken = max(sender.lastTaken, message.Stage)
	sender.reply = event.Reply
	// The last two stages come after the device's answer to its task, when its time has been counted.
	// Each is taken to last as long as the stage of keys.
	sender.stages.Survivors = sender.stages.Keys
	sender.stages.Recovery = sender.stages.Keys
	if message.Stage == bus.StageRecovery {
		sender.answer(&bus.DeviceReply{Status: bus.Accepted})
	}
	d.answerMasked(event.Device, sender)
}

// answer answers the member's message that waits for the end of its stage, if one does, and forgets
// it, so that each message is answered once.
func (m *member) answer(r *bus.DeviceReply) {
	if m.reply != nil {
		m.reply(r)
		m.reply = nil
	}
}

// repeatReply answers a message of a stage that is over with the reply that member m got then: the roster,
// its shares, or the signatures. A device sends a message again if the reply was lost.
func (d *Devices) repeatReply(m *member, event *gateway.Event) {
	session := d.session
	m.reply = event.Reply
	switch event.Message.Stage {
	case bus.StageKeys:
		m.answer(&bus.DeviceReply{Status: bus.Continue, Secure: session.roster()})
	// The server still has the shares for this member, so its inbox can be made again.
	case bus.StageShares:
		inbox, err := session.server.Inbox(uint32(d.clientOf(event.Device)))
		if err != nil {
			m.answer(refusal(err.Error()))
			return
		}
		m.answer(&bus.DeviceReply{Status: bus.Continue, Secure: inbox})
	case bus.StageSurvivors:
		m.answer(&bus.DeviceReply{Status: bus.Continue, Secure: session.signatures})
	default:
		m.answer(&bus.DeviceReply{Status: bus.Accepted})
	}
}

// roster returns the roster as all members got it at the end of the stage of keys.
func (s *session) roster() []byte { return s.server.Encoded() }

// answerMasked replies to member m, which is this device, with the set of survivors. It does nothing before
// that set is known, and unless the device has uploaded its masked update and waits. A device outside the
// set is refused.
func (d *Devices) answerMasked(device int, m *member) {
	s := d.session
	if m.lastTaken != bus.StageMasked || s.survivorSet == nil {
		return
	}
	if !s.survivors[device] {
		m.answer(refusal("its update does not count"))
		return
	}
	m.answer(&bus.DeviceReply{Status: bus.Continue, Secure: s.survivorSet})
}

// leaveSession ends a device's part in the session of secure aggregation, and sends the device the reason.
// Its open task ends as timed out, without an update. It does nothing for a device that is no member.
func (d *Devices) leaveSession(device int, reason string) {
	m := d.session.members[device]
	if m == nil {
		return
	}
	m.answer(refusal(reason))
	delete(d.session.members, device)
	if o := d.taskOf(device); o != nil && !d.isAnswered(o) {
		d.gateway.DropTask(device)
		// At least a nanosecond, since 0 stands for a time that is not known.
		timeAway := max(1, o.timeAway(time.Now()))
		d.answerFor(round.TimedOut, o, round.Plan{Compute: timeAway})
	}
}

// isAnswered reports whether an open task has an answer that was not handed out yet.
func (d *Devices) isAnswered(o *openTask) bool {
	return slices.ContainsFunc(d.answers, func(a *Answer) bool { return a.Task == o.task.Task })
}

// stageLimit returns for how long a stage waits for devices, in wall time: the configured time, or a
// quarter of the limit of a task, so that the two stages before the local steps take at most half of it.
func (d *Devices) stageLimit() time.Duration {
	if d.Secure.StageLimit > 0 {
		return d.Secure.StageLimit
	}
	return d.TaskLimit / 4
}

// awaitsDevice reports whether the session's stage still waits for member m, which is this device: it has
// neither sent its message nor left.
func (d *Devices) awaitsDevice(device int, m *member) bool {
	if m.lastTaken >= d.session.stage {
		return false
	}
	o := d.taskOf(device)
	return o != nil && !d.isAnswered(o)
}

// advanceSession ends the stage of keys or of shares if it waits for no device any more or its limit of
// wall time has passed. Devices that have not finished the stage leave the session. It is called whenever a
// device may have sent a message, left, or been silent. [Devices.runRecovery] ends the later stages.
func (d *Devices) advanceSession() {
	session := d.session
	if session == nil || session.failed || session.stage > bus.StageShares {
		return
	}
	limited := time.Since(session.stageBegan) > d.stageLimit()
	for device, m := range session.members {
		if d.awaitsDevice(device, m) && !limited {
			return
		}
	}
	// The order of devices is fixed, so that a record of the run does not depend on the order of a
	// map.
	for _, device := range slices.Sorted(maps.Keys(session.members)) {
		if session.members[device].lastTaken < session.stage {
			d.leaveSession(device, "the stage is over")
		}
	}
	var err error
	if session.stage == bus.StageKeys {
		err = d.endKeys()
	} else {
		err = d.endShares()
	}
	if err == nil {
		return
	}
	// Too few members are left for a sum that hides single updates, so all of them leave.
	session.failed = true
	d.notice("Round %d has no updates of devices: %v.", session.round, err)
	for _, device := range slices.Sorted(maps.Keys(session.members)) {
		d.leaveSession(device, err.Error())
	}
}

// endKeys ends the stage of keys: it sends each member the roster, with the public keys of all members, and
// begins the stage of shares. It is an error if too few members have sent keys.
func (d *Devices) endKeys() error {
	s := d.session
	roster, err := s.server.Roster()
	if err != nil {
		return err
	}
	s.stage = bus.StageShares
	s.stageBegan = time.Now()
	for _, m := range s.members {
		m.answer(&bus.DeviceReply{Status: bus.Continue, Secure: roster})
	}
	return nil
}

// endShares ends the stage of shares: it sends each member the encrypted shares of its neighbours, and
// opens the gateway for its masked update. A member with too few neighbours leaves. It is an error if too
// few members remain.
func (d *Devices) endShares() error {
	session := d.session
	clients, err := session.server.Members()
	if err != nil {
		return err
	}
	session.stage = bus.StageMasked
	session.stageBegan = time.Now()
	for _, device := range slices.Sorted(maps.Keys(session.members)) {
		client := uint32(d.clientOf(device))
		if !slices.Contains(clients, client) {
			d.leaveSession(device, "too few of its neighbours have sent shares")
			continue
		}
		inbox, err := session.server.Inbox(client)
		if err != nil {
			return err
		}
		// Before this the gateway refuses updates of the device.
		d.gateway.OpenUpload(device)
		session.members[device].answer(&bus.DeviceReply{Status: bus.Continue, Secure: inbox})
	}
	return nil
}

// RecoverSum returns the sum of the masked updates of these tasks without the masks, which their devices,
// the survivors, help to remove: they sign their set and reveal shares. The sum has one value in units of
// 2^-44 for each communicated parameter; losses are those that the devices reported, by task. An error that
// wraps [secagg.ErrRound] says that the sum cannot be recovered.
func (d *Devices) RecoverSum(ctx context.Context, tasks []round.Task) (sum []int64, losses []float64, err error) {
	session := d.session
	if session == nil || d.gateway == nil {
		return nil, nil, errors.New("realdevices: masked updates without their session")
	}
	words := make([]uint64, d.run.Params)
	session.survivors = map[int]bool{}
	var clients []uint32
	// Words are added modulo 2^64, so that masks of pairs cancel in the sum.
	for _, task := range tasks {
		a := d.updates[task.Task]
		if a == nil {
			return nil, nil, fmt.Errorf("realdevices: the update of task %d is accepted and not kept", task.Task)
		}
		addWords(words, vector.Bytes(a.Values))
		losses = append(losses, a.Loss)
		clients = append(clients, uint32(task.Client))
		session.survivors[d.deviceOf(task.Client)] = true
	}
	if err := d.runRecovery(ctx, clients); err != nil {
		return nil, losses, err
	}
	recovered, err := session.server.Unmask(words)
	if err != nil {
		return nil, losses, err
	}
	session.recovered = true
	if recovered > 0 {
		d.notice("Round %d: the sum was recovered without %d of its devices.", session.round, recovered)
	}
	sum = make([]int64, len(words))
	for i, w := range words {
		sum[i] = int64(w)
	}
	return sum, losses, nil
}

// GiveUpSum forgets the updates of a round whose sum cannot be recovered, and informs the user of the
// reason. A [secagg.MemberError] in it names the device that is to blame.
func (d *Devices) GiveUpSum(tasks []round.Task, reason error) {
	if e, ok := errors.AsType[*secagg.MemberError](reason); ok {
		name := d.Names[d.deviceOf(int(e.Client))]
		d.notice("Round %d has no updates: the masks of device %s cannot be removed: %v.", d.session.round, name, e.Err)
	} else {
		d.notice("Round %d has no updates: %v.", d.session.round, reason)
	}
	d.ForgetUpdates(tasks)
}

// addWords adds the little-endian words of 64 bits in b to words, modulo 2^64. b has 8 bytes for
// each word.
func addWords(words []uint64, b []byte) {
	for i := range words {
		words[i] += binary.LittleEndian.Uint64(b[8*i:])
	}
}

// runRecovery runs the last two stages with the survivors, which are the clients with these numbers: each
// signs the set of survivors and, once enough have signed, each reveals shares that unmask the sum. It
// returns when the shares suffice, or when no answer is expected any more. ctx ends the wait.
func (d *Devices) runRecovery(ctx context.Context, clients []uint32) (err error) {
	session := d.session
	// A set that was sent before is kept: two sets for one round would reveal the updates in only
	// one of them.
	if session.survivorSet == nil {
		session.survivorSet, err = session.server.Survivors(clients)
		if err != nil {
			return err
		}
		session.stage = bus.StageSurvivors
		session.stageBegan = time.Now()
	}
	for device, m := range session.members {
		d.answerMasked(device, m)
	}
	err = d.awaitStage(ctx, func() bool { return !d.awaitsSurvivor(bus.StageSurvivors) })
	if err != nil {
		return err
	}
	session.signatures, err = session.server.Signatures()
	if err != nil {
		return err
	}
	session.stage = bus.StageRecovery
	session.stageBegan = time.Now()
	for _, m := range session.members {
		if m.lastTaken == bus.StageSurvivors {
			m.answer(&bus.DeviceReply{Status: bus.Continue, Secure: session.signatures})
		}
	}
	return d.awaitStage(ctx, func() bool { return session.server.Ready() || !d.awaitsSurvivor(bus.StageRecovery) })
}

// awaitsSurvivor reports whether there is a survivor that has not sent its message of this stage and still
// can. One that is gone, banned or silent cannot, nor, in the stage of recovery, one that has not signed.
func (d *Devices) awaitsSurvivor(stage bus.SecureStage) bool {
	for device := range d.session.survivors {
		m := d.session.members[device]
		gone := m == nil || d.gone[device] || d.banned[device]
		silent := time.Since(d.gateway.LastHeard(device)) > d.Liveness
		skipped := stage == bus.StageRecovery && m != nil && m.lastTaken < bus.StageSurvivors
		if !gone && !silent && !skipped && m.lastTaken < stage {
			return true
		}
	}
	return false
}

// awaitStage handles messages of devices until isOver returns true or the limit of wall time for a stage
// has passed. The latter is no error: the caller checks whether the stage has what it needs.
func (d *Devices) awaitStage(ctx context.Context, isOver func() bool) error {
	for !isOver() {
		if time.Since(d.session.stageBegan) > d.stageLimit() {
			return nil
		}
		if err := d.takeWithin(ctx, checkInterval); err != nil {
			return err
		}
	}
	return nil
}
