package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus/wire"
)

// DeviceConfig is a real device's end.
type DeviceConfig struct {
	ID   string // starts with a letter
	Run  string // the run to join; empty: any that calls
	Join Join
	// Notice is told in a line what becomes of the device; may be nil.
	Notice func(string)
}

// Device is a real device's end of the runs that it takes part in, one after the
// other. It needs no right but those of docs/protocol.md, "Permissions".
//
//	Next      joins, and waits for a task
//	Model     the task's model, by direct get
//	Phase     what heartbeats say
//	Send      the update
//
// Next and what follows from it belong to one goroutine.
type Device struct {
	config DeviceConfig
	conn   *Conn
	sub    *nats.Subscription
	inbox  *inbox[deviceArrival]

	life context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	run     string // joined; empty: none
	welcome Welcome
	open    Heartbeat          // what heartbeats say
	cancel  context.CancelFunc // of the task that is worked on
	sent    *DeviceUpdate      // the last update that is complete
	beat    context.CancelFunc // ends heartbeats
	beats   sync.WaitGroup
}

// DeviceTask is a task with the run that it is of.
type DeviceTask struct {
	Run     string
	Welcome Welcome
	Task    Task
	// Context ends when the run goes on without the device.
	Context  context.Context
	Received time.Time // with the monotonic clock
}

// ErrOver says that the run in which a device took part is over.
var ErrOver = errors.New("the run is over")

// ErrUpdateRefused is wrapped by errors about updates that the coordinator
// refused.
var ErrUpdateRefused = errors.New("the coordinator refused it")

// deviceArrival is one on the device's task subject.
type deviceArrival struct {
	kind deviceMessageKind
	run  string
	task Task
	at   time.Time
}

// OpenDevice subscribes to the device's own subject.
func OpenDevice(ctx context.Context, conn *Conn, c DeviceConfig) (*Device, error) {
	if err := CheckDevice(c.ID); err != nil {
		return nil, err
	}
	if err := c.Join.check(); err != nil {
		return nil, err
	}
	run := "*"
	if c.Run != "" {
		if err := CheckToken("run", c.Run); err != nil {
			return nil, err
		}
		run = c.Run
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	d := &Device{config: c, conn: conn, inbox: newInbox[deviceArrival](1 << 10)}
	d.life, d.end = context.WithCancelCause(context.Background())
	var err error
	if d.sub, err = conn.nats.Subscribe(deviceSubject(run, c.ID, verbTask), d.onTask); err != nil {
		return nil, fmt.Errorf("bus: subscribe for device %s: %w", c.ID, err)
	}
	conn.watch(d)
	if err := conn.settled(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close ends the subscription and the heartbeats.
func (d *Device) Close() error {
	d.conn.unwatch(d)
	_ = d.sub.Unsubscribe() // fails only on a closed connection, which has none
	d.leave()
	d.failed(fmt.Errorf("bus: device %s is closed", d.config.ID))
	return nil
}

func (d *Device) failed(err error) {
	d.end(err)
	d.inbox.fail(err)
}

// interrupted joins again: the run may not know the device any more.
func (d *Device) interrupted(error) {
	d.mu.Lock()
	run := d.run
	d.mu.Unlock()
	if run != "" {
		d.inbox.put(deviceArrival{kind: callMessage, run: run, at: time.Now()})
	}
}

func (d *Device) onTask(m *nats.Msg) {
	x := deviceArrival{at: time.Now()}
	var ok bool
	if x.run, ok = runOfTask(m.Subject, d.config.ID); !ok {
		return
	}
	var err error
	if x.kind, err = decodeDeviceTask(m.Data, &x.task, &wire.Task{}); err != nil {
		d.config.Notice("A task that cannot be read is ignored: " + err.Error())
		return
	}
	d.mu.Lock()
	current, working := d.open.Task, d.cancel != nil
	switch {
	case x.run != d.run || x.kind == callMessage:
	case x.kind == overMessage, x.kind == taskMessage && working && x.task.Task != current:
		if working {
			d.cancel() // the run goes on without it
		}
	case working: // a repeat of what it works on
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	d.inbox.put(x)
}

// Next waits for the next task. On the way it joins the run that calls, or the
// one that it was made for until that answers. It returns ErrOver once when a
// run ends in which it took part.
func (d *Device) Next(ctx context.Context) (*DeviceTask, error) {
	d.rest()
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
		if batch, err = d.inbox.take(ctx, batch); err != nil {
			return nil, err
		}
		// Of several tasks only the last is open.
		for i, x := range batch {
			task, err := d.handle(ctx, x, i == len(batch)-1)
			if task != nil || err != nil {
				for _, y := range batch[i+1:] {
					d.inbox.put(y)
				}
				return task, err
			}
		}
	}
}

// handle takes one message. A task is returned unless it is an old one.
func (d *Device) handle(ctx context.Context, x deviceArrival, newest bool) (*DeviceTask, error) {
	d.mu.Lock()
	joined, sent, welcome := d.run == x.run, d.sent, d.welcome
	d.mu.Unlock()
	switch x.kind {
	case overMessage:
		if !joined {
			return nil, nil
		}
		d.leave()
		return nil, ErrOver
	case callMessage:
		return nil, d.join(ctx, x.run)
	}
	switch {
	case !newest:
		return nil, nil
	case !joined: // it was here before it was restarted
		if err := d.join(ctx, x.run); err != nil {
			return nil, err
		}
		d.mu.Lock()
		welcome = d.welcome
		d.mu.Unlock()
	case sent != nil && sent.Task == x.task.Task:
		// The run was interrupted and asks again for what has been sent.
		if err := d.send(ctx, x.run, sent); err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, nil
	}
	life, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	d.open, d.cancel = Heartbeat{Task: x.task.Task, Phase: Download}, cancel
	d.mu.Unlock()
	return &DeviceTask{Run: x.run, Welcome: welcome, Task: x.task, Context: life, Received: x.at}, nil
}

// rest ends the work on a task.
func (d *Device) rest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
		d.cancel = nil
	}
	d.open = Heartbeat{}
}

// leave ends the device's part in a run.
func (d *Device) leave() {
	d.rest()
	d.mu.Lock()
	d.run, d.sent = "", nil
	beat := d.beat
	d.beat = nil
	d.mu.Unlock()
	if beat != nil {
		beat()
	}
	d.beats.Wait()
}

// join asks until the run answers. A run that called and does not answer may be
// gone: then it returns without having joined.
func (d *Device) join(ctx context.Context, run string) error {
	b, err := encodeJoin(&d.config.Join)
	if err != nil {
		return err
	}
	told := false
	for {
		r, err := d.request(ctx, deviceSubject(run, d.config.ID, verbJoin), b)
		switch {
		case err == nil && r.verdict == wire.Verdict_VERDICT_ACCEPTED && r.welcome != nil:
			d.joined(run, *r.welcome)
			return nil
		case err == nil:
			return fmt.Errorf("bus: run %s does not take device %s: %s", run, d.config.ID, r.reason)
		case ctx.Err() != nil:
			return ctx.Err()
		case d.life.Err() != nil:
			return context.Cause(d.life)
		case d.config.Run == "":
			return nil // it will call again
		}
		if !told {
			d.config.Notice(fmt.Sprintf("Waiting for run %s.", run))
			told = true
		}
		select {
		case <-ctx.Done():
		case <-d.life.Done():
		case <-time.After(time.Second):
		}
	}
}

func (d *Device) joined(run string, w Welcome) {
	d.mu.Lock()
	again := d.run == run
	d.mu.Unlock()
	if !again {
		d.leave()
		d.config.Notice(fmt.Sprintf("Joined run %s as client %d.", run, w.Client))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run, d.welcome = run, w
	if d.beat == nil {
		ctx, cancel := context.WithCancel(d.life)
		d.beat = cancel
		d.beats.Go(func() { d.heartbeats(ctx, run, w.Heartbeat) })
	}
}

// heartbeats says that the device is alive until ctx ends.
func (d *Device) heartbeats(ctx context.Context, run string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		h := d.open
		d.mu.Unlock()
		if b, err := encodeHeartbeat(&h); err == nil {
			_ = d.conn.nats.Publish(deviceSubject(run, d.config.ID, verbHeartbeat), b) // the next one is soon
		}
	}
}

// Phase sets what heartbeats say.
func (d *Device) Phase(p Phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open.Phase = p
}

// Model fetches a task's model, its digest checked. It is never kept: a download
// is to be measured.
func (d *Device) Model(ctx context.Context, run string, digest Digest) ([]float32, error) {
	return newModelCache(d.conn, run, 1).fetch(ctx, digest)
}

// Send sends the update of a task and measures how long that takes, until the
// coordinator has the last chunk: u.UploadNs is filled in. An update that is
// refused is an error that wraps [ErrUpdateRefused].
func (d *Device) Send(ctx context.Context, run string, u *DeviceUpdate) error {
	d.Phase(Upload)
	if err := d.send(ctx, run, u); err != nil {
		return err
	}
	d.mu.Lock()
	d.sent = u
	d.mu.Unlock()
	return nil
}

// send sends an update; one that has been sent keeps its durations.
func (d *Device) send(ctx context.Context, run string, u *DeviceUpdate) error {
	size := chunkBytes / 4
	chunks := (len(u.Values) + size - 1) / size
	if chunks == 0 {
		return fmt.Errorf("bus: the update of task %d has no values", u.Task)
	}
	p := updatePart{DeviceUpdate: *u, chunks: chunks}
	started := time.Now()
	for p.chunk = 0; p.chunk <= chunks; p.chunk++ {
		p.values = nil
		if !p.last() {
			p.values = floatBytes(u.Values[p.chunk*size : min((p.chunk+1)*size, len(u.Values))])
		} else if u.UploadNs == 0 {
			u.UploadNs = max(1, time.Since(started).Nanoseconds())
			p.UploadNs = u.UploadNs
		}
		v, err := d.sendPart(ctx, run, &p)
		switch {
		case err != nil:
			return err
		case v == wire.Verdict_VERDICT_REPEATED:
			return nil
		case v == wire.Verdict_VERDICT_SEND_VALUES:
			p.chunk = -1 // from the beginning
		case p.last() && v != wire.Verdict_VERDICT_ACCEPTED:
			return fmt.Errorf("bus: update of task %d: the coordinator says %v to the last message", u.Task, v)
		}
	}
	return nil
}

// sendPart sends one message until it is answered.
func (d *Device) sendPart(ctx context.Context, run string, p *updatePart) (wire.Verdict, error) {
	b, err := encodeUpdatePart(p)
	if err != nil {
		return 0, err
	}
	for {
		r, err := d.request(ctx, deviceSubject(run, d.config.ID, fmt.Sprint(verbUpdate, ".", p.chunk)), b)
		switch {
		case err == nil && r.verdict == wire.Verdict_VERDICT_REFUSED:
			return 0, fmt.Errorf("bus: update of task %d: %w: %s", p.Task, ErrUpdateRefused, r.reason)
		case err == nil:
			return r.verdict, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case d.life.Err() != nil:
			return 0, context.Cause(d.life)
		}
		select {
		case <-ctx.Done():
		case <-d.life.Done():
		case <-time.After(reconnectWait): // the coordinator may come back
		}
	}
}

// request is one request of a device.
func (d *Device) request(ctx context.Context, subject string, b []byte) (deviceReply, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := d.conn.nats.RequestWithContext(ctx, subject, b)
	if err != nil {
		return deviceReply{}, err
	}
	return decodeReply(m.Data)
}

// ConnectDevice is Connect for a device, which may be there before its server: it
// tries until ctx ends or the server does not want it.
func ConnectDevice(ctx context.Context, c ConnConfig) (*Conn, error) {
	for attempt := 1; ; attempt++ {
		conn, err := Connect(ctx, c)
		var network net.Error // of a name that cannot be looked up yet, say
		if err == nil || !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) && !errors.As(err, &network) {
			return conn, err
		}
		if attempt == 1 && c.Notice != nil {
			c.Notice(fmt.Sprintf("No server answers at %s; trying again.", Redacted(c.URL)))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(reconnectPause(attempt)):
		}
	}
}
