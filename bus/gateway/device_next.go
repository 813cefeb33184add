package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsbus"
)

// Next waits for the next task. On the way it joins the run that calls, or the
// one that it was made for until that answers. It returns ErrOver once when a
// run ends in which it took part.
func (d *Device) Next(ctx context.Context) (*DeviceTask, error) {
	d.mu.Lock()
	d.rest()
	d.mu.Unlock()
	var batch []deviceArrival
	for {
		d.mu.Lock()
		run := d.run
		d.mu.Unlock()
		if run == "" && d.config.Run != "" {
			if err := d.join(ctx, d.config.Run); err != nil {
				return nil, err
			}
		}
		var err error
		if batch, err = d.mailbox.Take(ctx, batch); err != nil {
			return nil, err
		}
		for i, x := range batch {
			if x.isTask() && slices.ContainsFunc(batch[i+1:], x.ended) {
				continue
			}
			task, err := d.handle(ctx, x)
			if task != nil || err != nil {
				for _, y := range batch[i+1:] {
					d.mailbox.Put(y)
				}
				return task, err
			}
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
	d.mu.Lock()
	joined, sent, welcome := d.run == x.run, d.sent, d.welcome
	if !proto.Equal(x.task, d.task) {
		sent = nil
	}
	d.mu.Unlock()
	switch {
	case x.isCall(), !joined: // a run that did not answer calls again
		return nil, nil
	case sent != nil: // the run was interrupted and asks again for what is done
		err := d.send(ctx, x.run, sent)
		if ctx.Err() != nil || d.life.Err() != nil {
			return nil, err
		}
		if err != nil {
			d.config.Notice(fmt.Sprintf("Task %d: %v.", sent.Task, err))
		}
		return nil, nil
	}
	life, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.task, d.sent, d.cancel = bus.Download, x.task, nil, cancel
	if d.mailbox.Holds(x.ended) { // it came while the device was not at work yet
		cancel()
	}
	return &DeviceTask{Run: x.run, Welcome: welcome, Task: x.task, Context: life, Received: x.at}, nil
}

// wanted asks a run in which the device takes part whether it is still there.
func (d *Device) wanted(ctx context.Context, run string) bool {
	once := natsbus.Retry{Passes: func(error) bool { return false }}
	r, err := d.request(ctx, once, run, subject.Join, d.config.Join)
	return err == nil && r != nil && r.Verdict == bus.Accepted
}

// rest ends the work on a task. With the lock held.
func (d *Device) rest() {
	if d.cancel != nil {
		d.cancel()
	}
	d.cancel, d.phase = nil, bus.NoPhase
}

// leave ends the device's part in a run. With the lock held.
func (d *Device) leave() {
	d.rest()
	d.beat.Stop()
	d.run, d.task, d.sent = "", nil, nil
}

// join asks until the run answers. A run that called and does not answer may be
// gone: then it returns without having joined.
func (d *Device) join(ctx context.Context, run string) error {
	waits := d.config.Run != ""
	notice := sync.OnceFunc(func() { d.config.Notice(fmt.Sprintf("Waiting for run %s.", run)) })
	r, err := d.request(ctx, natsbus.Retry{Passes: func(error) bool {
		if waits {
			notice()
		}
		return waits
	}}, run, subject.Join, d.config.Join)
	if r == nil {
		return err // nil: it will call again
	}
	if r.Verdict != bus.Accepted || r.Welcome == nil {
		return fmt.Errorf("bus: run %s does not take device %s: %s", run, d.config.ID, r.Reason)
	}
	d.mu.Lock()
	joined := d.run != run
	if joined {
		d.leave()
	}
	d.run, d.welcome = run, r.Welcome
	d.beat.Reset(d.welcome.HeartbeatEvery())
	d.mu.Unlock()
	if joined {
		d.config.Notice(fmt.Sprintf("Joined run %s as client %d.", run, r.Welcome.Client))
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
	h := &bus.Heartbeat{Phase: d.phase}
	if d.cancel != nil {
		h.Task = d.task.Task
	}
	if b, err := bus.Marshal(nil, h); err == nil {
		_ = d.conn.NATS().Publish(subject.Device(d.run, d.config.ID, subject.Heartbeat), b) // the next one is soon
	}
	d.beat.Reset(d.welcome.HeartbeatEvery())
}
