package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// Next waits for the next task. On the way it joins the run that calls, or the
// one that it was made for until that answers. It returns ErrOver once when a
// run ends in which it took part.
func (d *Device) Next(ctx context.Context) (*DeviceTask, error) {
	d.mu.Lock()
	d.stopWork()
	d.mu.Unlock()
	for {
		d.mu.Lock()
		run := d.run
		d.mu.Unlock()
		if run == "" && d.config.Run != "" {
			if err := d.join(ctx, d.config.Run); err != nil {
				return nil, err
			}
		}
		x, err := d.mailbox.TakeOne(ctx)
		if err != nil {
			return nil, err
		}
		if x.isTask() && d.mailbox.Holds(x.ended) {
			continue
		}
		if task, err := d.handle(ctx, x); task != nil || err != nil {
			return task, err
		}
	}
}

// ended tells whether what arrived later ends a task.
func (x deviceArrival) ended(later deviceArrival) bool {
	return later.run == x.run && !later.isCall() && !proto.Equal(later.task, x.task)
}

// handle takes one message. A task that is to be worked on is returned.
func (d *Device) handle(ctx context.Context, x deviceArrival) (*DeviceTask, error) {
	d.mu.Lock()
	in := d.run
	if over := !x.isTask() && !x.isCall(); over {
		defer d.mu.Unlock()
		if in != x.run {
			return nil, nil
		}
		d.leave()
		return nil, ErrOver
	}
	d.mu.Unlock()
	if in != "" && in != x.run && d.wanted(ctx, in) {
		return nil, ctx.Err() // one run at a time
	}
	// A task may be of a run in which it was before it was restarted.
	if x.isCall() || in != x.run {
		if err := d.join(ctx, x.run); err != nil {
			return nil, err
		}
	}
	if x.isCall() {
		return nil, nil
	}
	life, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	if d.run != x.run { // it did not answer, and calls again
		d.mu.Unlock()
		cancel()
		return nil, nil
	}
	if !proto.Equal(x.task, d.task) {
		d.sent = nil
	}
	d.phase = bus.Download
	d.task = x.task
	d.cancel = cancel
	d.beat.Reset(0)               // says that the task is here
	if d.mailbox.Holds(x.ended) { // it came while the device was not at work yet
		cancel()
	}
	sent := d.sent
	welcome := d.welcome
	d.mu.Unlock()
	if sent == nil {
		return &DeviceTask{
			Run:      x.run,
			Welcome:  welcome,
			Task:     x.task,
			Context:  life,
			Received: x.received,
		}, nil
	}
	return nil, d.sendAgain(life, x.run, sent)
}

// sendAgain sends an update that is done, for which an interrupted run asks again. The run's end
// ends the wait for an answer.
func (d *Device) sendAgain(life context.Context, run string, sent *bus.DeviceUpdate) error {
	d.Phase(bus.Upload)
	err := d.send(life, run, sent)
	d.mu.Lock()
	over := life.Err() != nil
	d.stopWork()
	d.mu.Unlock()
	if d.life.Err() != nil {
		return err
	}
	if err != nil && !over {
		d.Notice(fmt.Sprintf("Task %d: %v.", sent.Task, err))
	}
	return nil
}

// wanted asks a run in which the device takes part whether it is still there.
func (d *Device) wanted(ctx context.Context, run string) bool {
	r, err := d.request(ctx, run, subject.JoinAs(d.config.Samples), d.config.Join, 0, func(error) bool { return false })
	return err == nil && r != nil && r.Status == bus.Accepted
}

// stopWork ends the work on a task. With the lock held.
func (d *Device) stopWork() {
	if d.cancel != nil {
		d.cancel()
	}
	d.cancel = nil
	d.phase = bus.NoPhase
	d.lastSent = false
}

// leave ends the device's part in a run. With the lock held.
func (d *Device) leave() {
	d.stopWork()
	d.beat.Stop()
	d.run = ""
	d.task = nil
	d.sent = nil
}

// join asks until the run answers. A run that called and does not answer may be
// gone: then it returns without having joined.
func (d *Device) join(ctx context.Context, run string) error {
	waits := d.config.Run != ""
	notice := sync.OnceFunc(func() { d.Notice(fmt.Sprintf("Waiting for run %s.", run)) })
	r, err := d.request(ctx, run, subject.JoinAs(d.config.Samples), d.config.Join, 0, func(error) bool {
		if waits {
			notice()
		}
		return waits
	})
	if r == nil {
		return err // nil: it will call again
	}
	if r.Status != bus.Accepted || r.Welcome == nil {
		return fmt.Errorf("bus: run %s does not take device %s: %s", run, d.config.ID, r.Reason)
	}
	d.mu.Lock()
	joined := d.run != run
	if joined {
		d.leave()
	}
	d.run = run
	d.welcome = r.Welcome
	d.beat.Reset(d.welcome.HeartbeatEvery())
	d.mu.Unlock()
	if joined {
		d.Notice(fmt.Sprintf("Joined run %s as client %d.", run, r.Welcome.Client))
		deviceVersion := d.config.Join.Version
		its := r.Welcome.Version
		if bus.VersionsDiffer(deviceVersion, its) {
			d.Notice(fmt.Sprintf(
				"This device is of version %s, and the coordinator of run %s of version %s.",
				deviceVersion,
				run,
				its,
			))
		}
		if d.config.Prepare != nil {
			return d.config.Prepare(ctx, run, r.Welcome)
		}
	}
	return nil
}

// heartbeat says that the device is alive, again and again while it is in a run.
func (d *Device) heartbeat() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run == "" {
		return
	}
	h := &bus.Heartbeat{Phase: d.phase, Process: d.config.Join.Process, Log: d.log}
	d.log = nil
	if d.cancel != nil {
		h.Task = d.task.Task
	}
	d.publish(subject.Heartbeat, h)
	d.beat.Reset(d.welcome.HeartbeatEvery())
}

// publish tells the run something that may be lost: it is told again soon. With the
// lock held.
func (d *Device) publish(verb string, m proto.Message) {
	if b, err := bus.Marshal(nil, m); err == nil {
		_ = d.conn.Publish(subject.Device(d.run, d.config.ID, verb), b)
	}
}

// Phase sets what heartbeats say.
func (d *Device) Phase(p bus.Phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = p
}

// modelLag is how long a model may take to be there after a task that names it.
const modelLag = 2 * time.Second

// Model fetches a task's model, its digest checked. It is never kept: a download
// is to be measured.
func (d *Device) Model(ctx context.Context, run string, digest bus.Digest) ([]float32, error) {
	return d.conn.AwaitModel(ctx, run, digest, modelLag)
}

// Send sends the update of a task and measures how long that takes, until the
// coordinator has the last chunk: u.UploadNs is filled in. The update is the
// device's until another task is there, in case the run asks for it again. One
// that is refused is an error that wraps [ErrUpdateRefused], one that nobody
// answers for long one that wraps [ErrUnanswered].
func (d *Device) Send(ctx context.Context, run string, u *bus.DeviceUpdate) error {
	d.mu.Lock()
	d.phase = bus.Upload
	if d.task.GetTask() == u.Task {
		d.sent = u
	}
	d.mu.Unlock()
	return d.send(ctx, run, u)
}

// packs reports whether the run takes updates packed.
func (d *Device) packs() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.welcome.GetSpec().GetCompression() != ""
}

// send sends an update; one that has been sent keeps its durations.
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
	for chunk := 0; chunk <= len(chunks); chunk++ {
		part := u.Update
		if chunk < len(chunks) {
			part = &bus.Update{
				Task:       u.Task,
				TaskDigest: u.TaskDigest,
				Process:    u.Process,
				Chunk:      uint32(chunk),
				Chunks:     u.Chunks,
				Values:     chunks[chunk],
			}
			if packs {
				part.Values, part.Packed = nil, part.Values
			}
		} else if u.UploadNs == 0 {
			u.UploadNs = max(1, time.Since(started).Nanoseconds())
		}
		d.mu.Lock()
		d.lastSent = part.Last()
		d.mu.Unlock()
		// A coordinator that is away may be there again within the patience.
		r, err := d.request(
			ctx,
			run,
			subject.Chunk(part.Chunk),
			part,
			d.config.Patience,
			func(error) bool { return true },
		)
		switch {
		case err != nil:
			return err
		case r == nil:
			return fmt.Errorf("bus: update of task %d: %w", u.Task, ErrUnanswered)
		case r.Status == bus.Refused:
			return fmt.Errorf("bus: update of task %d: %w: %s", u.Task, ErrUpdateRefused, r.Reason)
		case r.Status == bus.Repeated:
			return nil
		case r.Status == bus.SendValues:
			chunk = -1 // from the beginning
		case part.Last() && r.Status != bus.Accepted:
			return fmt.Errorf("bus: update of task %d: the coordinator says %v to the last message", u.Task, r.Status)
		}
	}
	return nil
}

// request asks the run's coordinator until it answers, for so long (0: without a
// limit) and while again says so, and anew when the run repeats the task. It returns no
// reply where again does not say so, and an error when ctx ends or the device is closed.
func (d *Device) request(
	ctx context.Context,
	run, verb string,
	m proto.Message,
	timeout time.Duration,
	retry func(error) bool,
) (*bus.DeviceReply, error) {
	b, err := bus.Marshal(nil, m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bus.Until(ctx, d.life)
	defer cancel()
	r := new(bus.DeviceReply)
	for repeated := true; repeated; {
		asking, cancel := context.WithCancel(ctx)
		d.mu.Lock()
		d.resend = cancel
		d.mu.Unlock()
		err = d.conn.Ask(asking, &bus.Request{
			Subject: subject.Device(run, d.config.ID, verb),
			Data:    b,
			Timeout: timeout,
			Retry:   retry,
			Decode:  func(answer []byte) error { return bus.Unmarshal(answer, r) },
		})
		repeated = err != nil && asking.Err() != nil && ctx.Err() == nil
		cancel()
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, nil
	}
	return r, nil
}
