package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// Next waits for the next task. On the way it joins the run that calls, or asks the run that the
// device was configured for until that answers. It ends the work on the task before. It returns
// ErrOver once when a run ends in which it took part, and an error when ctx ends or the device is
// closed.
func (d *Device) Next(ctx context.Context) (*DeviceTask, error) {
	d.mu.Lock()
	d.stopWork()
	d.mu.Unlock()
	for {
		d.mu.Lock()
		run := d.run
		d.mu.Unlock()
		// The device was configured for one run and does not wait for its call.
		if run == "" && d.config.Run != "" {
			if err := d.join(ctx, d.config.Run); err != nil {
				return nil, err
			}
		}
		arrival, err := d.mailbox.TakeOne(ctx)
		if err != nil {
			return nil, err
		}
		// The run has moved on meanwhile, so the task is not begun.
		if arrival.isTask() && d.mailbox.Holds(arrival.isEndedBy) {
			continue
		}
		if task, err := d.handle(ctx, arrival); task != nil || err != nil {
			return task, err
		}
	}
}

// isEndedBy reports whether the message later, of the same run, ends the task of arrival: it is another task,
// or the end of the run. A call to join and a repeat of the task do not.
func (arrival deviceArrival) isEndedBy(later deviceArrival) bool {
	return later.run == arrival.run && !later.isCall() && !proto.Equal(later.task, arrival.task)
}

// handle takes one message from the mailbox: the end of a run, a call or a task. It joins the run
// of the message if the device is in no other. It returns a task that is to be worked on, nil if there is
// nothing to do, and ErrOver if the device's run has ended.
func (d *Device) handle(ctx context.Context, arrival deviceArrival) (*DeviceTask, error) {
	d.mu.Lock()
	current := d.run
	if arrival.isEnd() {
		defer d.mu.Unlock()
		// The device takes no part in the run that has ended.
		if current != arrival.run {
			return nil, nil
		}
		d.leave()
		return nil, ErrOver
	}
	d.mu.Unlock()
	// A device takes part in one run at a time, so the message is dropped if the run that it is in still exists.
	inOtherRun := current != "" && current != arrival.run
	if inOtherRun && d.isWanted(ctx, current) {
		return nil, ctx.Err()
	}
	// A task, too, may be of a run that this process has not joined: the device was restarted.
	if arrival.isCall() || current != arrival.run {
		if err := d.join(ctx, arrival.run); err != nil {
			return nil, err
		}
	}
	if arrival.isCall() {
		return nil, nil
	}
	return d.beginTask(ctx, arrival)
}

// beginTask opens a task and returns it. A task whose update is finished already is not worked on again: its update
// is sent once more, and the result is nil.
func (d *Device) beginTask(ctx context.Context, arrival deviceArrival) (*DeviceTask, error) {
	life, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	// The run did not answer the join. It will call again.
	if d.run != arrival.run {
		d.mu.Unlock()
		cancel()
		return nil, nil
	}
	// A repeated task keeps its finished update, and a new one has none.
	if !sameTask(arrival.task, d.task) {
		d.finished = nil
	}
	d.phase = bus.Download
	d.task = arrival.task
	d.cancelWork = cancel
	// The heartbeat confirms at once that the task has arrived.
	d.nextHeartbeat.Reset(0)
	// A message that ends a task cancels its work as it arrives, but one that arrived before this task was begun
	// found no work to cancel. It still waits in the mailbox.
	if d.mailbox.Holds(arrival.isEndedBy) {
		cancel()
	}
	sent := d.finished
	welcome := d.welcome
	d.mu.Unlock()
	if sent != nil {
		return nil, d.sendAgain(life, arrival.run, sent)
	}
	return &DeviceTask{
		Run:      arrival.run,
		Welcome:  welcome,
		Task:     arrival.task,
		Context:  life,
		Received: arrival.received,
	}, nil
}

// sendAgain sends a finished update once more, because its run was interrupted and has sent the task
// again. taskLife is the life of the task: it ends when the run moves on, which also ends the wait for an answer. It
// returns an error only if the device itself has ended; the user gets notice of any other failure.
func (d *Device) sendAgain(taskLife context.Context, run string, sent *bus.DeviceUpdate) error {
	d.Phase(bus.Upload)
	err := d.send(taskLife, run, sent)
	d.mu.Lock()
	// If the run moved on, an update without an answer is nothing to report.
	runMovedOn := taskLife.Err() != nil
	d.stopWork()
	d.mu.Unlock()
	if d.life.Err() != nil {
		return err
	}
	if err != nil && !runMovedOn {
		d.Notice(fmt.Sprintf("Task %d: %v.", sent.Task, err))
	}
	return nil
}

// isWanted asks the run in which the device takes part, by a join, whether it still exists and knows
// the device. It asks once: a run that does not answer counts as gone.
func (d *Device) isWanted(ctx context.Context, run string) bool {
	r, err := d.request(ctx, run, subject.JoinAs(d.config.Samples), d.config.Join, 0, func(error) bool { return false })
	return err == nil && r != nil && r.Status == bus.Accepted
}

// stopWork ends the work on the open task, if any: its context ends, and heartbeats report no
// phase. The caller holds the lock.
func (d *Device) stopWork() {
	if d.cancelWork != nil {
		d.cancelWork()
	}
	d.cancelWork = nil
	d.phase = bus.NoPhase
	d.awaitsLastAnswer = false
}

// leave ends the device's part in its run without a message: work and heartbeats stop, and an
// update that is kept for the run is dropped. The caller holds the lock.
func (d *Device) leave() {
	d.stopWork()
	d.nextHeartbeat.Stop()
	d.run = ""
	d.task = nil
	d.finished = nil
	d.newestArrived = 0
	d.heard.forget()
}

// join asks a run to let the device take part, and takes its welcome. The run that the device was
// configured for is asked until it answers. A run that called and does not answer may be gone: join
// then returns nil without having joined.
func (d *Device) join(ctx context.Context, run string) error {
	waits := d.config.Run != ""
	notice := sync.OnceFunc(func() { d.Notice(fmt.Sprintf("Waiting for run %s.", run)) })
	r, err := d.request(ctx, run, subject.JoinAs(d.config.Samples), d.config.Join, 0, func(error) bool {
		if waits {
			notice()
		}
		return waits
	})
	// The run did not answer; err is nil unless ctx has ended or the device is closed.
	if r == nil {
		return err
	}
	if r.Status != bus.Accepted || r.Welcome == nil {
		return fmt.Errorf("bus: run %s does not take device %s: %s", run, d.config.ID, r.Reason)
	}
	d.mu.Lock()
	joined := d.run != run
	// A join of the run in which the device already takes part keeps its task.
	if joined {
		d.leave()
	}
	d.run = run
	d.welcome = r.Welcome
	d.nextHeartbeat.Reset(d.welcome.HeartbeatEvery())
	d.mu.Unlock()
	if joined {
		d.Notice(fmt.Sprintf("Joined run %s as client %d.", run, r.Welcome.Client))
		deviceVersion := d.config.Join.Version
		coordinatorVersion := r.Welcome.Version
		// Different versions may work together, so that this is a notice and no error.
		if bus.VersionsDiffer(deviceVersion, coordinatorVersion) {
			d.Notice(fmt.Sprintf(
				"This device is of version %s, and the coordinator of run %s of version %s.",
				deviceVersion,
				run,
				coordinatorVersion,
			))
		}
		if d.config.Prepare != nil {
			return d.config.Prepare(ctx, run, r.Welcome)
		}
	}
	return nil
}

// heartbeat sends the run a sign of life, the new lines of the log with it, and schedules the next one while
// the device takes part in a run. A run that answers heartbeats gets it as a request, so that the device sees whether
// answers reach it ([Device.probe]). Otherwise it is a message without an answer.
func (d *Device) heartbeat() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// The timer is not set again before the device has joined a run.
	if d.run == "" {
		return
	}
	h := &bus.Heartbeat{
		Phase:   d.phase,
		Process: d.config.Join.Process,
		Log:     d.log,
		Arrived: d.newestArrived,
	}
	d.log = nil
	if d.cancelWork != nil {
		h.Task = d.task.Task
	}
	if d.welcome.Echoes {
		d.askEcho(h)
	}
	if !d.welcome.AnswersHeartbeats || !d.probe(d.run, h) {
		d.publish(subject.Heartbeat, h)
	}
	d.nextHeartbeat.Reset(d.welcome.HeartbeatEvery())
}

// publish sends the run a message that may be lost: a later one repeats it, or, where the device leaves, the
// run notices that it is silent. The caller holds the lock.
func (d *Device) publish(verb string, m proto.Message) {
	d.setFence(d.run, m)
	if b, err := bus.Marshal(nil, m); err == nil {
		_ = d.conn.Publish(subject.Device(d.run, d.config.ID, verb), b)
	}
}

// setFence puts the highest fencing token that was heard from a run into a message for it. The caller holds the lock.
func (d *Device) setFence(run string, m proto.Message) {
	token := d.fences[run].token
	switch m := m.(type) {
	case *bus.Join:
		m.Fence = token
	case *bus.Heartbeat:
		m.Fence = token
	case *bus.Update:
		m.Fence = token
	case *bus.SecureMessage:
		m.Fence = token
	}
}

// Phase sets the phase of the work that heartbeats report.
func (d *Device) Phase(p bus.Phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = p
}

// modelLag is how long a model may become available after a task that names it has arrived.
const modelLag = 2 * time.Second

// Model fetches the parameters of a task's model from the run and checks their digest. It waits up
// to modelLag, as the task may arrive before its model. The device never caches it, because the
// download is part of what is measured.
func (d *Device) Model(ctx context.Context, run string, digest bus.Digest) ([]float32, error) {
	return d.conn.AwaitModel(ctx, run, digest, modelLag)
}

// Send sends the update of a task and measures how long that takes, until the
// coordinator has the last chunk: u.UploadNs is filled in. The device keeps the update
// until another task arrives, in case the run asks for it again. A refused update is an
// error that wraps [ErrUpdateRefused]; one that stays unanswered for DeviceConfig.Patience
// an error that wraps [ErrUnanswered].
func (d *Device) Send(ctx context.Context, run string, u *bus.DeviceUpdate) error {
	d.mu.Lock()
	d.phase = bus.Upload
	// A masked update is of no use once the keys are forgotten, so it is not kept.
	isMasked := d.welcome.GetSecure() != nil
	if d.task.GetTask() == u.Task && !isMasked {
		d.finished = u
	}
	d.mu.Unlock()
	return d.send(ctx, run, u)
}

// SecureMessage sends a message in a stage of secure aggregation and waits until the stage is over. It
// returns the coordinator's answer, whatever its status is. It sends the message again every few seconds
// and when the run repeats the task.
func (d *Device) SecureMessage(ctx context.Context, run string, m *bus.SecureMessage) (*bus.DeviceReply, error) {
	m.Process = d.config.Join.Process
	const noLimit = 0
	r, err := d.request(ctx, run, subject.Secure, m, noLimit, func(error) bool { return true })
	if err == nil && r == nil {
		err = fmt.Errorf("bus: task %d: %w", m.Task, ErrUnanswered)
	}
	return r, err
}

// ErrSendKeys is wrapped by the error of a masked update for which the coordinator has no keys: it was
// started again. The stages of the task begin again.
var ErrSendKeys = errors.New("the coordinator has no keys of the device")

// packs reports whether updates of the device's run are compressed, so that their values are sent
// packed.
func (d *Device) packs() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.welcome.GetSpec().GetCompression() != ""
}

// send sends an update to the run chunk by chunk, then its last message, each after the answer to
// the one before. An update that was sent before keeps the duration of its first upload. It returns
// nil when the coordinator has accepted the update, now or before.
func (d *Device) send(ctx context.Context, run string, u *bus.DeviceUpdate) error {
	if len(u.Values) == 0 {
		return fmt.Errorf("bus: the update of task %d has no values", u.Task)
	}
	body := vector.Bytes(u.Values)
	packs := d.packs()
	if packs {
		body = vector.Pack(u.Values)
	}
	chunks := slices.Collect(slices.Chunk(body, bus.ChunkBytes))
	u.Chunk = uint32(len(chunks))
	u.Chunks = uint32(len(chunks))
	u.Process = d.config.Join.Process
	started := time.Now()
	// The message after the last chunk has no values and ends the update.
	for chunk := 0; chunk <= len(chunks); chunk++ {
		part := u.Update
		if chunk < len(chunks) {
			part = chunkOf(u, chunk, chunks[chunk], packs)
		} else if u.UploadNs == 0 {
			u.UploadNs = max(1, time.Since(started).Nanoseconds())
		}
		status, err := d.sendPart(ctx, run, part)
		if err != nil {
			return err
		}
		switch {
		case status == bus.SendKeys:
			return fmt.Errorf("bus: update of task %d: %w", u.Task, ErrSendKeys)
		// The coordinator has accepted this update before; the answer was lost.
		case status == bus.Repeated:
			return nil
		case status == bus.SendValues:
			// The loop starts over with chunk 0.
			chunk = -1
		case part.Last() && status != bus.Accepted:
			return fmt.Errorf("bus: update of task %d: the coordinator says %v to the last message", u.Task, status)
		}
	}
	return nil
}

// chunkOf returns the message with one chunk of update u: values are the bytes of the chunk with
// this number, and packed says that they are compressed.
func chunkOf(u *bus.DeviceUpdate, chunk int, values []byte, packed bool) *bus.Update {
	part := &bus.Update{
		Task:       u.Task,
		TaskDigest: u.TaskDigest,
		Process:    u.Process,
		Chunk:      uint32(chunk),
		Chunks:     u.Chunks,
	}
	if packed {
		part.Packed = values
	} else {
		part.Values = values
	}
	return part
}

// sendPart sends one message of an update and returns the coordinator's answer. A coordinator that is
// away may be back within the device's patience, so the message is repeated for that long.
func (d *Device) sendPart(ctx context.Context, run string, part *bus.Update) (bus.Status, error) {
	d.mu.Lock()
	d.awaitsLastAnswer = part.Last()
	d.mu.Unlock()
	always := func(error) bool { return true }
	r, err := d.request(ctx, run, subject.Chunk(part.Chunk), part, d.config.Patience, always)
	switch {
	case err != nil:
		return 0, err
	case r == nil:
		return 0, fmt.Errorf("bus: update of task %d: %w", part.Task, ErrUnanswered)
	case r.Status == bus.Refused:
		return 0, fmt.Errorf("bus: update of task %d: %w: %s", part.Task, ErrUpdateRefused, r.Reason)
	}
	return r.Status, nil
}

// unheardAfter is how long a device's requests may find no subscription before it leaves its run. Tests shorten it.
var unheardAfter = 8 * time.Second

// unheard is the reason, for the run and for people, with which a device leaves whose requests reach no
// listener.
const unheard = "its requests reach nobody, though its heartbeats may: behind a site's server whose credentials " +
	"are of an earlier version a reload of the hub's accounts does that; renew them (fedpace enroll --renew --site " +
	"NAME --devices ...) and start the site's NATS server again"

// listener watches whether the repeats of one request of a device reach a listener.
type listener struct {
	// device is the device that sends the request.
	device *Device
	// run is the run that the request is for.
	run string
	// unheardSince is the time since which the request has reached no listener, the zero time if it does.
	unheardSince time.Time
	// left says that the device has left the run for that reason.
	left bool
}

// noteFailure notes that the request has failed with err. If the request has reached no listener for unheardAfter,
// the device tells the run in a heartbeat that it leaves, so that the run continues without it. That helps where a
// hub whose accounts were reloaded passes the heartbeats of a site's devices and not their requests. If the
// coordinator is away, the heartbeat does not arrive either, and changes nothing.
func (l *listener) noteFailure(err error) {
	// No repetition helps before the server's limit is raised.
	if errors.Is(err, bus.ErrTooLarge) {
		l.leave(err.Error())
		return
	}
	// The request has reached a listener, and the answer was lost or is late.
	if !errors.Is(err, bus.ErrNoListener) {
		l.unheardSince = time.Time{}
		return
	}
	if l.unheardSince.IsZero() {
		l.unheardSince = time.Now()
	}
	if time.Since(l.unheardSince) >= unheardAfter {
		l.leave(unheard)
	}
}

// leave informs the run and the device's owner that the device leaves for this reason. A second call does nothing.
// The device itself goes on with its request, and joins again if that is answered.
func (l *listener) leave(reason string) {
	if l.left {
		return
	}
	l.left = true
	d := l.device
	d.config.Notice(fmt.Sprintf("This device leaves run %s: %s.", l.run, reason))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run == l.run {
		d.publish(subject.Heartbeat, &bus.Heartbeat{Process: d.config.Join.Process, Leaves: bus.Printable(reason)})
	}
}

// noteAnswer notes that the request was answered. A device that has left the run because its request reached no
// listener joins again.
func (l *listener) noteAnswer() {
	d := l.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.left && d.run == l.run {
		d.publish(subject.JoinAs(d.config.Samples), d.config.Join)
	}
}

// request sends message m to the coordinator of run, on the device's subject with this verb, and
// returns its reply. It repeats the message while retry returns true, for at most timeout, 0 for no
// limit, and also when the run repeats the task (Device.interruptRequest). It returns no reply and no error
// when it gives up, and an error when ctx ends or the device is closed.
func (d *Device) request(
	ctx context.Context,
	run, verb string,
	m proto.Message,
	timeout time.Duration,
	retry func(error) bool,
) (*bus.DeviceReply, error) {
	d.mu.Lock()
	d.setFence(run, m)
	b, err := bus.Marshal(nil, m)
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// The wait also ends when the device is closed.
	ctx, cancel := bus.Until(ctx, d.life)
	defer cancel()
	r := new(bus.DeviceReply)
	// reach finds out whether the request reaches anybody. If it does not, the device leaves the run, and joins
	// again when there is an answer.
	reach := &listener{device: d, run: run}
	// Each turn is one request. When the run repeats the task, onTaskOrEnd calls d.interruptRequest, which ends the
	// request, and the next turn sends the message again.
	for repeated := true; repeated; {
		asking, cancel := context.WithCancel(ctx)
		d.mu.Lock()
		d.interruptRequest = cancel
		d.mu.Unlock()
		err = d.conn.Ask(asking, &bus.Request{
			Subject: subject.Device(run, d.config.ID, verb),
			Data:    b,
			Timeout: timeout,
			Retry: func(err error) bool {
				reach.noteFailure(err)
				return retry(err)
			},
			Decode: func(answer []byte) error { return bus.Unmarshal(answer, r) },
		})
		// Only d.interruptRequest ends asking while ctx goes on.
		repeated = err != nil && asking.Err() != nil && ctx.Err() == nil
		cancel()
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	// There was no answer in time, and no further attempt is allowed.
	case err != nil:
		return nil, nil
	}
	reach.noteAnswer()
	return r, nil
}
