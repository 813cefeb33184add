package simbus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/internal/names"
)

// Host is a [bus.Host].
type Host struct {
	conn   *Conn
	server *server
	config bus.HostConfig

	// life ends when the host can no longer work. Its cause says why.
	life context.Context
	end  context.CancelCauseFunc
	// work waits for the goroutine of the heartbeat.
	work sync.WaitGroup

	plan func(client int, t *bus.Task, p *bus.Plan) error
	// planning is held while plan is called.
	planning sync.Mutex

	// lastHeard is when the bus last heard of the host. The server's lock guards it.
	lastHeard time.Time

	// mu guards held, the deliveries that the host has and has neither done nor released.
	mu   sync.Mutex
	held map[*delivery]bool
}

// Err implements [bus.Host]: it returns why the host has ended, nil before that.
func (h *Host) Err() error { return context.Cause(h.life) }

// Done implements [bus.Host]: it returns a channel that is closed when the host has ended.
func (h *Host) Done() <-chan struct{} { return h.life.Done() }

// Close ends the service. Deliveries that are held should be released first.
func (h *Host) Close() error {
	h.conn.send("leave", func() { h.server.leave(h) })
	h.end(fmt.Errorf("bus: run %s: host %s is closed", h.server.run, h.conn.name))
	h.work.Wait()
	return nil
}

// ServeTasks begins to answer tasks with the plans that fn computes. The hosts of a run share its
// tasks, one to each in turn. It returns when the bus knows the host.
func (h *Host) ServeTasks(ctx context.Context, fn func(client int, t *bus.Task, p *bus.Plan) error) error {
	h.plan = fn
	_, err := ask(ctx, h.conn, "join", askEvery, func(answer func(struct{})) {
		h.server.join(h, nil)
		answer(struct{}{})
	})
	if err == nil && h.config.Stamp != 0 {
		h.work.Go(h.heartbeat)
	}
	return err
}

// heartbeat shows the bus from time to time that the host is present, and which jobs it does, until
// the host ends. The bus gives jobs of a silent host to others.
func (h *Host) heartbeat() {
	for range bus.Ticks(h.life, heartbeatEvery) {
		h.mu.Lock()
		held := slices.Collect(maps.Keys(h.held))
		h.mu.Unlock()
		h.conn.send("heartbeat", func() { h.server.join(h, held) })
	}
}

// Model returns the model with this digest: the coordinator's own slice, which must not be written
// to. Without such a model the error wraps [bus.ErrNoModel].
func (h *Host) Model(ctx context.Context, digest bus.Digest) ([]float32, error) {
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	params, err := ask(ctx, h.conn, "fetch", askEvery, func(answer func([]float32)) { answer(h.server.model(digest)) })
	if err == nil && params == nil {
		err = fmt.Errorf("bus: model %s: %w", digest, bus.ErrNoModel)
	}
	return params, err
}

// SendSum sends the result of a job to the coordinator and waits for its answer; a refusal is an
// error that wraps [bus.ErrRefused]. A host in the coordinator's process shares the memory of the
// values until then, and one of another process sends a copy.
func (h *Host) SendSum(ctx context.Context, r *bus.Result) error {
	w := &bus.Result{
		Sum:          proto.CloneOf(r.Sum),
		Values:       r.Values,
		ClientStates: r.ClientStates,
		Buffers:      r.Buffers,
	}
	w.Trainer = h.conn.name
	w.Chunks = 1
	w.Params = uint32(len(r.Values))
	if f := w.Failure; f != nil {
		f.Kind = bus.Text(f.Kind)
		f.Text = bus.Text(f.Text)
	}
	// A host with a stamp stands for one in another process.
	if h.config.Stamp != 0 {
		w.Values = slices.Clone(w.Values)
	}
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	reply, err := ask(ctx, h.conn, "sum", sumEvery, func(answer func(*bus.SumReply)) {
		// The bus passes the sum on to the coordinator that has the lease.
		if c := h.server.coordinator(); c != nil {
			c.conn.receive("sum", func() {
				c.receiveSum(w, func(s bus.Status, reason string) { answer(&bus.SumReply{Status: s, Reason: reason}) })
			})
		}
	})
	switch {
	case err != nil:
		return err
	case reply.Status == bus.Refused:
		return fmt.Errorf("bus: sum of job %d: %w: %s", w.Job, bus.ErrRefused, reply.Reason)
	}
	return nil
}

// delivery is a job that a host holds.
type delivery struct {
	job  *bus.Job
	host *Host
}

// NextJob waits for a job of a kernel class. It repeats its request for a job, since the message may
// be lost. It returns an error when ctx ends or the host is closed.
func (h *Host) NextJob(ctx context.Context, kernel string) (bus.Delivery, error) {
	if err := names.CheckToken("kernel", kernel); err != nil {
		return nil, err
	}
	ctx, cancel := bus.Until(ctx, h.life)
	defer cancel()
	got := make(chan *delivery, 1)
	// over is set once a job was delivered, or when none is wanted any more. A job that comes then is given back at
	// once, which does not count as a refusal.
	var over atomic.Bool
	const refused = false
	p := &pull{host: h, kernel: kernel}
	p.deliver = func(d *delivery) {
		if over.CompareAndSwap(false, true) {
			h.hold(d)
			got <- d
		} else if !h.holds(d) {
			h.conn.send("release", func() { h.server.release(d, refused) })
		}
	}
	again := time.NewTicker(pullEvery)
	defer again.Stop()
	for {
		h.conn.send("pull", func() { h.server.pull(p) })
		select {
		case d := <-got:
			return d, nil
		case <-again.C:
			continue
		case <-ctx.Done():
		}
		h.conn.send("unpull", func() { h.server.unpull(p) })
		// A job was delivered at the last moment, and is given back.
		if !over.CompareAndSwap(false, true) {
			const later = false
			// Release never fails here.
			_ = (<-got).Release(later)
		}
		return nil, context.Cause(ctx)
	}
}

// hold notes that the host holds the delivery d from now on. Heartbeats name the deliveries that it holds.
func (h *Host) hold(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[d] = true
}

// giveUp notes that the host does not hold the delivery d any more.
func (h *Host) giveUp(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, d)
}

// holds reports whether the host holds the delivery d.
func (h *Host) holds(d *delivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[d]
}

// Job returns the job that was delivered.
func (d *delivery) Job() *bus.Job { return d.job }

// Done removes the job from the queue.
func (d *delivery) Done(context.Context) error {
	d.host.giveUp(d)
	d.host.conn.send("done", func() { d.host.server.done(d) })
	return nil
}

// Release gives the job back to the bus for another host, at once or, with later, after the time
// postponement. It never fails.
func (d *delivery) Release(later bool) error {
	d.host.giveUp(d)
	back := func() { d.host.conn.send("release", func() { d.host.server.release(d, later) }) }
	if later {
		time.AfterFunc(postponement, back)
	} else {
		back()
	}
	return nil
}
