package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsbus"
	"fedpace/internal/vector"
)

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
func (d *Device) Model(ctx context.Context, run string, digest bus.Digest) (params []float32, err error) {
	started := time.Now()
	passes := func(err error) bool { return errors.Is(err, bus.ErrNoModel) && time.Since(started) < modelLag }
	err = d.conn.Retry(ctx, natsbus.Retry{Passes: passes}, func(ctx context.Context) (err error) {
		params, err = d.conn.FetchModel(ctx, run, digest)
		return err
	})
	return params, err
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

// send sends an update; one that has been sent keeps its durations.
func (d *Device) send(ctx context.Context, run string, u *bus.DeviceUpdate) error {
	if len(u.Values) == 0 {
		return fmt.Errorf("bus: the update of task %d has no values", u.Task)
	}
	chunks := slices.Collect(slices.Chunk(u.Values, bus.ChunkBytes/4))
	u.Chunk, u.Chunks = uint32(len(chunks)), uint32(len(chunks))
	started := time.Now()
	for chunk := 0; chunk <= len(chunks); chunk++ {
		part := u.Update
		if chunk < len(chunks) {
			part = &bus.Update{Task: u.Task, Chunk: uint32(chunk), Chunks: u.Chunks, Values: vector.Bytes(chunks[chunk])}
		} else if u.UploadNs == 0 {
			u.UploadNs = max(1, time.Since(started).Nanoseconds())
		}
		// A coordinator that is away may be there again within the patience.
		r, err := d.request(ctx, natsbus.Retry{For: d.config.Patience, Passes: func(error) bool { return true }}, run, subject.Chunk(part.Chunk), part)
		switch {
		case err != nil:
			return err
		case r == nil:
			return fmt.Errorf("bus: update of task %d: %w", u.Task, ErrUnanswered)
		case r.Verdict == bus.Refused:
			return fmt.Errorf("bus: update of task %d: %w: %s", u.Task, ErrUpdateRefused, r.Reason)
		case r.Verdict == bus.Repeated:
			return nil
		case r.Verdict == bus.SendValues:
			chunk = -1 // from the beginning
		case part.Last() && r.Verdict != bus.Accepted:
			return fmt.Errorf("bus: update of task %d: the coordinator says %v to the last message", u.Task, r.Verdict)
		}
	}
	return nil
}

// request asks the run's coordinator until it answers. It returns no reply where
// that does not, and an error when ctx ends or the device is closed.
func (d *Device) request(ctx context.Context, retry natsbus.Retry, run, verb string, m proto.Message) (*bus.DeviceReply, error) {
	b, err := bus.Marshal(nil, m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := natsbus.Until(ctx, d.life)
	defer cancel()
	r := new(bus.DeviceReply)
	retry.Attempt = natsbus.RequestTimeout
	err = d.conn.Retry(ctx, retry, func(ctx context.Context) error {
		m, err := d.conn.NATS().RequestWithContext(ctx, subject.Device(run, d.config.ID, verb), b)
		if err == nil {
			err = bus.Unmarshal(m.Data, r)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, nil
	}
	return r, nil
}
