package realdevices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/bus/quota"
	"fedpace/coordinator/round"
)

// Devices are the real devices of a run. A nil one is a run without devices. Its
// methods but Stats are called from the run's goroutine.
type Devices struct {
	Config
	run Run
	// gateway is nil in a replay.
	gateway *gateway.Gateway
	// opened is when devices could first join, in wall time.
	opened time.Time

	// Tasks and their answers. mu guards changes of open, which the gateway's goroutines read.
	mu sync.Mutex
	// open has, by number, the tasks without an answer that was handed out.
	open map[uint64]*openTask
	// trained has, by number, the tasks whose devices have taken their steps and wait for a group of secure
	// aggregation: their first answer was handed out.
	trained map[uint64]*openTask
	// answers has the answers that were not handed out yet, in the order of arrival.
	answers []*Answer
	// updates has, by task, the updates that may yet count.
	updates map[uint64]*Answer

	// session is the round of secure aggregation that devices are in; nil if there is none.
	session *session

	// knownPresent is true for each device that the round machine takes to be present.
	knownPresent []bool
	// arrived lists the devices that joined and of which the round machine does not know yet.
	arrived []arrival
	// banned is true for each device that has a ban.
	banned []bool
	// gone is true for each device that has announced that it leaves.
	gone []bool
	// banEnds holds for each device when its ban ends, in Unix nanoseconds. It is 0 for a device that is not
	// banned, and for one that is banned for good.
	banEnds []int64
	// events is the memory in which the gateway returns events, reused each time.
	events []gateway.Event
	// presenceChecked is the wall time at which presence was checked last.
	presenceChecked time.Time
	// presence is the next change of presence in a replay, nil if no more come.
	presence *Presence

	// reportedSamples has the number of samples that each device reported last.
	reportedSamples []int
	// exclusions counts for each device how often its update was excluded from a round.
	exclusions []int
	// clipped is true for each device of which an update was clipped, and the user has notice of that.
	clipped []bool
	// firstTasks has each device's first tasks until its class was checked.
	firstTasks []firstTasks
	// firstSinceResume is true for each device whose next task is its first since the run was resumed.
	firstSinceResume []bool
	// accounts has each device's use of its quotas.
	accounts accounts

	// quotasChecked is when quotas were checked last.
	quotasChecked time.Time
	// lateTasksChecked is when open tasks were last compared with the end of their round.
	lateTasksChecked time.Time

	// bans are all bans so far, for the record and the summary of the run.
	bans []Ban
	// corrections are the claims that counted with another number than the reported one.
	corrections []Correction
	// corrected holds for each claim the task at which it was corrected last.
	corrected map[claimKey]uint64
	// mustSave is true while there is a ban, or a secure session, that no checkpoint holds yet.
	mustSave bool

	// versions has each device's version of the program, empty if the device has not joined or does
	// not report one.
	versions []string
	// otherVersions lists the devices that run another version than the coordinator and of which no notice
	// was given yet.
	otherVersions []int

	// What [Devices.Stats] reads from other goroutines.
	// heldTime is how long the clock has stood still for devices, in nanoseconds of wall time, and bannedCount is how
	// many devices are banned.
	heldTime    atomic.Int64
	bannedCount atomic.Int64
	// rollbacks counts how often the run went back to an earlier model.
	rollbacks atomic.Int64
}

// Run is what devices must know of their run.
type Run struct {
	Name string
	// First is the client number of the first device.
	First int
	// Params is the number of the model's parameters that travel, which are the first.
	Params int
	// Frozen is the number of parameters behind those, which never change.
	Frozen int
	// StateValues is how many values each device keeps from task to task.
	StateValues int
	// Trainable is how many of them are trained, from the first on.
	Trainable int
	// UpdateLength is how many of them sums of updates hold, from the first on. Behind them lie buffers.
	UpdateLength int
	// CheckBuffers returns an error for a device's parameters with a buffer that no model can have. Nil
	// means that there is nothing to check.
	CheckBuffers func(values []float32) error
	// SelectsBySamples says that the selection chooses clients by their numbers of samples.
	SelectsBySamples bool
	// Votes is true if every value of an update must be -1, 0 or 1.
	Votes bool
	Spec  *bus.Spec
}

// arrival is a device that has joined.
type arrival struct{ device, samples int }

// openTask is a task that waits for its device.
type openTask struct {
	task *bus.Task
	// base holds the values that travel of the model from which the task starts.
	base         []float32
	baseDegraded bool
	device       int
	// firstSent is the wall time at which the task was sent first or, where a second answer is awaited, at which its
	// group began.
	firstSent time.Time
	// lastSent is the wall time at which the task was sent last.
	lastSent time.Time
	// maybeEarlier is true if the device may have got the task before the run was resumed, from the
	// coordinator before this one.
	maybeEarlier bool
	// groupPart is how far the device is with its part in a group of secure aggregation, where rounds overlap.
	groupPart
}

const (
	// checkInterval is how often silent devices are looked for. It is no divisor of a second, so that
	// this hardly ever falls on the instant at which the gateway calls the devices.
	checkInterval = 101 * time.Millisecond
	// resendAfter is how long a device may be silent about a task before the task, which may have been
	// lost, is sent again. After three times the gateway knows that the device is not reached.
	resendAfter = 2300 * time.Millisecond
	// heartbeatEvery is the longest time between two heartbeats of a device.
	heartbeatEvery = 2 * time.Second
	// minSlack is how much longer than its round a task may take at least before it is given up, since
	// messages take time that no device measures.
	minSlack = time.Second
	// auditEvery is how often the bytes that devices have fetched are compared with their quota.
	auditEvery = time.Second
)

// Open lets the devices of a configuration join the run. It opens the gateway that talks to them,
// with the oldest protocol version that can do what this run asks of a device. In a replay there is
// no gateway: the answers, comings and bans are read from the record.
func Open(ctx context.Context, config Config, run Run) (*Devices, error) {
	devices := &Devices{
		Config:           config,
		run:              run,
		opened:           time.Now(),
		open:             map[uint64]*openTask{},
		trained:          map[uint64]*openTask{},
		updates:          map[uint64]*Answer{},
		knownPresent:     make([]bool, len(config.Names)),
		banned:           make([]bool, len(config.Names)),
		gone:             make([]bool, len(config.Names)),
		banEnds:          make([]int64, len(config.Names)),
		reportedSamples:  make([]int, len(config.Names)),
		clipped:          make([]bool, len(config.Names)),
		exclusions:       make([]int, len(config.Names)),
		firstTasks:       make([]firstTasks, len(config.Names)),
		firstSinceResume: make([]bool, len(config.Names)),
		versions:         make([]string, len(config.Names)),
		corrected:        map[claimKey]uint64{},
		accounts: accounts{
			quota: cmp.Or(config.Quota, quota.Default()),
			list:  make([]account, len(config.Names)),
		},
	}
	if config.Replay {
		devices.takeBans(config.Record.Bans())
		return devices, devices.nextPresence()
	}
	// The welcome has what a device must know of the run before its first task.
	welcome := config.Welcome
	welcome.Kept = uint32(run.StateValues)
	welcome.Clients = uint64(run.First + len(config.Names))
	welcome.Params = uint32(run.Params)
	welcome.Spec = run.Spec
	// At least four heartbeats fit the time after which a silent device is lost.
	welcome.HeartbeatSeconds = min(max(config.Liveness/4, 50*time.Millisecond), heartbeatEvery).Seconds()
	algorithm, err := algorithm.Algorithms.Decode(run.Spec.Algorithm)
	if err != nil {
		return nil, err
	}
	g := gateway.Config{
		Devices: config.Names,
		First:   run.First,
		Welcome: welcome,
		Check:   devices.checkUpdate,
		Admit:   devices.admitDevice,
		Fence:   config.Fence,
	}
	if config.Secure != nil {
		g.Secure = true
		// A masked value is a word of 64 bits, which takes the place of two values of 32.
		const halves = 2
		g.Params = func(*bus.Task) int { return halves * run.Params }
	}
	changesSteps := algorithm.Client(run.Params) != nil
	g.Protocol = protocolFor(&config, &run, changesSteps)
	devices.gateway, err = gateway.Open(ctx, config.Conn, run.Name, g)
	return devices, err
}

// protocolFor returns the oldest version of the protocol that can do what a run asks of a device; devices
// with an older one are refused. It is 0 if any version will do. changesSteps says that the algorithm changes
// the clients' local steps.
func protocolFor(config *Config, run *Run, changesSteps bool) uint32 {
	welcome := config.Welcome
	// The needs are in the order of their versions, the newest first.
	switch {
	case config.Secure != nil:
		return bus.ProtocolMasks
	case len(welcome.Schema.GetTargetMean()) > 0:
		return bus.ProtocolTargets
	case run.StateValues > 0 || run.Spec.Compression != "":
		return bus.ProtocolState
	case run.Frozen > 0:
		return bus.ProtocolFrozen
	case run.Spec.NoiseMultiplier > 0:
		return bus.ProtocolNoise
	case welcome.Schema != nil:
		return bus.ProtocolSchema
	case run.Spec.Local != "":
		return bus.ProtocolOptimizer
	case changesSteps:
		return bus.ProtocolAlgorithm
	}
	return 0
}

// StateAfter returns the state that a device keeps for its next task, as it has sent it with its update of
// this task. It is zero if the task has no update, or if devices keep nothing.
func (d *Devices) StateAfter(task uint64) algorithm.ClientState {
	if a := d.updates[task]; a != nil && len(a.Kept) > 0 {
		return algorithm.ClientState{Digest: bus.DigestOf(a.Kept), Values: a.Kept}
	}
	return algorithm.ClientState{}
}

// Close ends the devices' part in the run. It does nothing in a run without devices and in a replay.
func (d *Devices) Close() error {
	if d == nil || d.gateway == nil {
		return nil
	}
	return d.gateway.Close()
}

// Stats are those of the gateway, with how many devices are banned and how long the clock has
// stood for devices in wall time.
type Stats struct {
	gateway.Stats
	Banned int
	// Returns counts how often the run went back to an earlier model.
	Returns int
	Held    time.Duration
}

// Stats returns figures of the devices so far, for people. It may be called from any goroutine. The
// result is zero in a run without devices and in a replay.
func (d *Devices) Stats() (s Stats) {
	if d != nil && d.gateway != nil {
		s = Stats{
			Stats:   d.gateway.Stats(),
			Banned:  int(d.bannedCount.Load()),
			Returns: int(d.rollbacks.Load()),
			Held:    time.Duration(d.heldTime.Load()),
		}
	}
	return s
}

// IsDevice reports whether a client is a real device. Devices are numbered behind the simulated clients.
func (d *Devices) IsDevice(client int) bool { return d != nil && client >= d.run.First }

// deviceOf returns the index of the device that is this client, for the lists with an entry for each device. It is
// negative for a simulated client.
func (d *Devices) deviceOf(client int) int { return client - d.run.First }

// clientOf returns the client number of the device with this index.
func (d *Devices) clientOf(device int) int { return d.run.First + device }

// areAlone reports whether the run has devices alone, without simulated clients.
func (d *Devices) areAlone() bool { return d.run.First == 0 }

// Open returns the number of devices' tasks that have no answer yet or one that was not returned by
// [Devices.Answer]. It is 0 for a nil receiver, a run without devices.
func (d *Devices) Open() int {
	if d == nil {
		return 0
	}
	return len(d.open)
}

// notice gives the user one line about the devices, made as by fmt.Sprintf. It does nothing if Notice
// is nil.
func (d *Devices) notice(format string, args ...any) {
	if d.Notice != nil {
		d.Notice(fmt.Sprintf(format, args...))
	}
}

// Issue sends a task to its device. message is what the device gets, and is kept to be sent again; base has the
// values that travel of the model from which the task starts. degraded says that this model is degraded, so
// that a refused update does not count against the device. A task that is open already is not sent again.
func (d *Devices) Issue(task *round.Task, message *bus.Task, base []float32, degraded bool) error {
	if d.open[task.Task] != nil {
		return nil
	}
	now := time.Now()
	o := &openTask{
		task:         message,
		base:         base,
		baseDegraded: degraded,
		device:       d.deviceOf(task.Client),
		firstSent:    now,
	}
	// After a restart the checkpoint's open tasks are issued once more, and devices may have got them before.
	o.maybeEarlier = d.firstSinceResume[o.device]
	d.firstSinceResume[o.device] = false
	if err := d.joinSecureSession(task); err != nil {
		return err
	}
	d.mu.Lock()
	d.open[task.Task] = o
	d.mu.Unlock()
	// The round machine learns of a ban only between two events, and may select a banned device until
	// then.
	if d.gateway != nil && d.banned[o.device] {
		d.refuse(o)
		return nil
	}
	d.accounts.list[o.device].issued++
	return d.send(o)
}

// send sends a task to its device, again if it was sent before. A replay sends nothing.
func (d *Devices) send(o *openTask) error {
	if d.gateway == nil {
		return nil
	}
	o.lastSent = time.Now()
	return d.gateway.SendTask(o.device, o.task)
}

// Answer waits for the next answer to an open task and returns it as an event of the round machine. closes
// returns when the round will close without the open tasks, in virtual time from its start; its second
// result is false if the round waits for them. The task of a device that takes longer than that by the
// coordinator's clock is ended in the device's place.
func (d *Devices) Answer(ctx context.Context, closes func() (round.Time, bool)) (round.Event, error) {
	// The wall time for which the run waits for devices is shown to the user.
	began := time.Now()
	defer func() { d.heldTime.Add(int64(time.Since(began))) }()
	for {
		for len(d.answers) > 0 {
			a := d.answers[0]
			d.answers = d.answers[1:]
			// An answer to a task that is not open any more came too late and is dropped.
			if d.open[a.Task] != nil {
				return d.handOut(a)
			}
		}
		if err := d.awaitAnswers(ctx); err != nil {
			return round.Event{}, err
		}
		now := time.Now()
		isCheckDue := d.gateway != nil && now.Sub(d.lateTasksChecked) >= checkInterval
		if isCheckDue && len(d.answers) == 0 {
			d.lateTasksChecked = now
			if len(d.open) > 0 {
				d.endLateTasks(now, closes)
			}
		}
	}
}

// endLateTasks ends open tasks of devices that have taken longer than the round lasts, plus a slack for the
// time of messages: such a task cannot count any more, and waiting for it would hold the run. It is
// answered as timed out. closes returns how long after its start the round closes without the open tasks, in
// virtual time; if it returns false, the round waits for them and no task is late.
func (d *Devices) endLateTasks(now time.Time, closes func() (round.Time, bool)) {
	roundLength, ok := closes()
	if !ok {
		return
	}
	slack := max(minSlack, time.Duration(roundLength)/10)
	limit := time.Duration(roundLength) + slack
	for _, o := range d.open {
		if took := now.Sub(o.firstSent); took > limit {
			d.gateway.DropTask(o.device)
			d.answerFor(round.TimedOut, o, round.Plan{Compute: round.Time(took)})
		}
	}
}

// awaitAnswers waits for events of devices, among which may be answers, for at most checkInterval. It then ends what
// has waited for too long: open tasks, and the stage of secure aggregation under way. A replay reads the answers of
// all open tasks from its record instead.
func (d *Devices) awaitAnswers(ctx context.Context) error {
	if d.gateway == nil {
		return d.replay()
	}
	if err := d.takeWithin(ctx, checkInterval); err != nil {
		return err
	}
	if err := d.checkOpenTasks(); err != nil {
		return err
	}
	d.advanceSession()
	return nil
}

// takeWithin waits for events of devices and handles those that arrive, for at most limit. It is no error
// if none arrives.
func (d *Devices) takeWithin(ctx context.Context, limit time.Duration) error {
	waiting, stop := context.WithTimeout(ctx, limit)
	defer stop()
	err := d.takeEvents(waiting)
	// That the limit has passed is no error, but that the run was cancelled is.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// handOut closes the task of an answer, and returns the answer as an event for the round machine. It first
// adds the answer to the record of the run, so that a replay sees the same answers in the same order. It
// also counts the end of the task against the device's quotas, which may ban the device.
func (d *Devices) handOut(answer *Answer) (round.Event, error) {
	// The first of two answers has no update, so the second one is recorded.
	if !d.Replay && !answer.hasNoUpdate() {
		if err := d.Record.AddAnswer(answer); err != nil {
			return round.Event{}, err
		}
	}
	task := d.open[answer.Task]
	d.mu.Lock()
	// The gateway's goroutines read the open tasks in check, so the lock is held here.
	delete(d.open, answer.Task)
	d.mu.Unlock()
	// A replay has no gateway, and takes its bans from the record.
	isSecondAnswer := task.group != nil && answer.Kind == round.Planned
	// The first of two answers has counted already.
	if d.gateway != nil && !isSecondAnswer {
		if err := d.countEnd(task, answer.Kind); err != nil {
			return round.Event{}, err
		}
	}
	switch {
	case answer.hasNoUpdate():
		d.trained[answer.Task] = task
		task.plan = answer.Plan
	case answer.Kind == round.Planned:
		d.updates[answer.Task] = answer
		d.compareWithClass(task, task.wholePlan(&answer.Plan))
	case answer.Kind == round.Silent:
		device := d.deviceOf(answer.Client)
		d.knownPresent[device] = false
	}
	event := round.Event{
		Kind:    answer.Kind,
		Task:    answer.Task,
		Client:  answer.Client,
		Plan:    answer.Plan,
		Samples: answer.Samples,
	}
	if answer.Kind == round.Planned && !answer.hasNoUpdate() {
		event.Stages = d.stagesOf(answer.Client)
	}
	return event, nil
}

// countEnd counts a task that has ended against the quotas of its device, and bans the device if it is over one. There
// is a quota for tasks that ended in a bad way, which kind says, and one for the time in which the run waited for the
// device. It returns an error if a ban cannot be recorded.
func (d *Devices) countEnd(task *openTask, kind round.EventKind) error {
	// An update that is refused does not count against the device if the task's model was degraded already.
	isExcused := task.baseDegraded && kind == round.Invalid
	if !isExcused {
		if reason := d.accounts.taskEnded(task.device, kind, time.Since(task.firstSent)); reason != "" {
			const expel = false
			var err error
			// A device may fall silent because of a bad link.
			if kind == round.Silent {
				err = d.suspendFlaky(task.device, reason)
			} else {
				err = d.suspend(task.device, reason, expel)
			}
			if err != nil {
				return err
			}
		}
	}
	// The round has closed without a task that timed out, and did not wait for it.
	if kind == round.TimedOut {
		return nil
	}
	const ended = true
	return d.countHeldTime(task, ended)
}

// takeEvents waits for events from the gateway and handles all of them: devices that joined or left,
// answers and refused updates, floods of messages, and a connection that came back. It appends answers to
// d.answers and devices that joined to d.arrived. Several errors are joined.
func (d *Devices) takeEvents(ctx context.Context) (err error) {
	d.events, err = d.gateway.TakeEvents(ctx, d.events)
	if err != nil {
		return err
	}
	for i := range d.events {
		event := &d.events[i]
		name := d.Names[event.Device]
		switch event.Kind {
		case gateway.Joined:
			err = errors.Join(err, d.takeJoin(event.Device, event.Join))
		case gateway.Rejoined:
			err = errors.Join(err, d.sendOpen(event.Device))
		// A refused update ends the device's task, too, with an answer that says so.
		case gateway.Updated, gateway.Refused:
			if event.Kind == gateway.Refused {
				d.notice("An update of device %s is refused: %s.", name, event.Text)
			}
			d.answers = append(d.answers, d.answerFromEvent(event))
		case gateway.Secure:
			d.takeSecure(event)
		case gateway.Departed:
			d.takeLeaving(event)
		case gateway.Flooded:
			const expel = true
			err = errors.Join(err, d.suspend(event.Device, event.Text, expel))
		case gateway.Ignored:
			d.notice("Device %s: a message is ignored (%s).", name, event.Text)
		case gateway.Reconnected:
			// Messages may have been lost with the connection, so every open task is sent again.
			for _, tasks := range []map[uint64]*openTask{d.open, d.trained} {
				for _, o := range tasks {
					err = errors.Join(err, d.send(o))
				}
			}
		}
	}
	return err
}

// takeJoin handles a device's message that it joins the run. The device is noted as arrived; the round machine
// learns of it between two events. The user is told of the device, of measurements of its speed that
// contradict its class, and later of its version, if that is not the coordinator's.
func (d *Devices) takeJoin(device int, join *bus.Join) error {
	d.notice("Device %s has joined (%s).", d.Names[device], describeJoin(join))
	d.gone[device] = false
	d.arrived = append(d.arrived, arrival{device, d.countedSamples(device, int(join.Samples))})
	if len(join.Measured) > 0 && d.Calibration != nil {
		d.noticeContradiction(
			device,
			"calibration contradicts",
			d.Calibration(d.clientOf(device), join.Measured),
		)
	}
	// The user is not informed twice of a device that joins again with the same version.
	isKnownVersion := join.Version == d.versions[device]
	if !isKnownVersion && bus.VersionsDiffer(join.Version, d.Welcome.Version) {
		d.otherVersions = append(d.otherVersions, device)
	}
	d.versions[device] = join.Version
	// A device that joins was restarted and may have lost its task.
	return d.sendOpen(device)
}

// takeLeaving handles a device's message that it leaves: its open task ends at once as that of a silent
// device, unless an answer to it is waiting to be returned.
func (d *Devices) takeLeaving(event *gateway.Event) {
	d.notice("Device %s leaves: %s.", d.Names[event.Device], event.Text)
	isLeaving := func(a arrival) bool { return a.device == event.Device }
	d.arrived = slices.DeleteFunc(d.arrived, isLeaving)
	d.gone[event.Device] = true
	o := d.taskOf(event.Device)
	if o != nil && !d.isAnswered(o) {
		// At least a nanosecond, since 0 would stand for a device that has not announced its leave.
		untilLeave := max(1, o.timeAway(time.Now()))
		d.answerFor(round.Silent, o, round.Plan{Compute: untilLeave})
	}
}

// sendOpen sends a device its open task once more, if it has one, because the device's program was
// restarted and may have lost the task.
func (d *Devices) sendOpen(device int) error {
	if o := cmp.Or(d.taskOf(device), d.trainedBy(device)); o != nil {
		return d.send(o)
	}
	return nil
}

// taskOf returns the open task of a device, given by its index, or nil if it has none. A device has
// at most one.
func (d *Devices) taskOf(device int) *openTask {
	for _, o := range d.open {
		if o.device == device {
			return o
		}
	}
	return nil
}

// answerFromEvent makes the answer to a device's task from the gateway's event of its update, accepted or
// refused. Its durations and its number of samples are those with which the update counts, which may be
// less than the device reported. The answer to a refused update has no values and a loss of 0.
func (d *Devices) answerFromEvent(event *gateway.Event) *Answer {
	update := event.Update
	answer := &Answer{
		Kind:   round.Planned,
		Task:   update.Task,
		Client: d.clientOf(event.Device),
		Loss:   update.FirstStepLoss,
		Values: update.Values,
		Plan:   d.countedPlan(event, d.clientOf(event.Device)),
	}
	if answer.Loss == bus.UnreportedLoss {
		answer.Loss = math.NaN()
	}
	if event.Kind == gateway.Refused {
		answer.Kind = round.Invalid
		answer.Loss = 0
		return answer
	}
	answer.Samples = d.countedSamples(event.Device, int(update.Samples))
	// The download was part of the first answer, if there are two.
	if o := d.open[update.Task]; o != nil && o.group != nil {
		answer.Plan.Download = 0
	}
	// An algorithm with client states has the next state behind the update's values.
	if d.run.StateValues > 0 {
		answer.Values = update.Values[:d.run.Params:d.run.Params]
		answer.Kept = update.Values[d.run.Params:]
	}
	return answer
}

// checkOpenTasks looks after devices that have not finished their open task. A task beyond the limit of
// time ends with a ban or, where only devices take part, as lost. That of a device that was not heard of
// for d.Liveness ends as lost. A task that seems not to have reached its device is sent again. It also
// checks, at most once in auditEvery, how much devices have fetched.
func (d *Devices) checkOpenTasks() error {
	now := time.Now()
	if now.Sub(d.quotasChecked) >= auditEvery {
		d.quotasChecked = now
		if err := d.checkFetched(); err != nil {
			return err
		}
	}
	for _, task := range d.open {
		name := d.Names[task.device]
		// A task that is still open may already have held the run for longer than the device's
		// quota.
		const ended = false
		if err := d.countHeldTime(task, ended); err != nil {
			return err
		}
		switch {
		// Where only devices take part, a slow device may come back, so it is lost and not
		// suspended.
		case now.Sub(task.firstSent) > d.TaskLimit && d.areAlone():
			d.notice("Device %s is lost: it has worked on one task for more than %v (devices.task_seconds). It may "+
				"join again.", name, d.TaskLimit)
			d.gateway.GiveUp(task.device)
			d.answerFor(round.Silent, task, round.Plan{})
		// Where there are simulated clients, a device that is too slow is suspended.
		case now.Sub(task.firstSent) > d.TaskLimit:
			if err := d.suspendFlaky(
				task.device,
				fmt.Sprintf("it has worked on one task for more than %v (devices.task_seconds)", d.TaskLimit),
			); err != nil {
				return err
			}
		case now.Sub(task.firstSent) > d.Liveness && now.Sub(d.gateway.LastHeard(task.device)) > d.Liveness:
			d.notice("Device %s is lost: nothing was heard of it for %v.", name, d.Liveness)
			d.gateway.GiveUp(task.device)
			d.answerFor(round.Silent, task, round.Plan{})
		// The device may not have got the task, because a message can be lost.
		case now.Sub(task.lastSent) > resendAfter && !d.gateway.WorksOnTask(task.device):
			if err := d.send(task); err != nil {
				return err
			}
		}
	}
	return nil
}

// answerFor answers task o in the place of its device, with an outcome of this kind. plan is zero, or says
// how long the device took before the task ended.
func (d *Devices) answerFor(kind round.EventKind, o *openTask, plan round.Plan) {
	d.answers = append(d.answers, &Answer{
		Kind:   kind,
		Task:   o.task.Task,
		Client: d.clientOf(o.device),
		Plan:   plan,
	})
}
