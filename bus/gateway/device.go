package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/mailbox"
	"fedpace/internal/names"
	"fedpace/internal/vector"
)

// DeviceConfig is a real device's end.
type DeviceConfig struct {
	ID   string // starts with a letter
	Run  string // the run to join; empty: any that calls but a calibration
	Join *bus.Join
	// Samples is how many the device's credentials let it have; 0: any number.
	Samples uint64
	// Patience is how long an update goes unanswered before the device turns to
	// what else there is; 0: a minute. The run gets it when it asks again.
	Patience time.Duration
	// Prepare, if set, is called when the device has joined a run. Its error is Next's: what the run
	// asks for cannot be done here.
	Prepare func(ctx context.Context, run string, welcome *bus.Welcome) error
	// Notice gets a line for each change of the device; may be nil.
	Notice func(string)
	// Tells says that the run gets these lines, too.
	Tells bool
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
	config  DeviceConfig
	conn    bus.Line
	sub     bus.Subscription
	unwatch func()
	mailbox *mailbox.Mailbox[deviceArrival]

	life context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	run     string // joined; empty: none
	welcome *bus.Welcome
	phase   bus.Phase          // what heartbeats say
	task    *bus.Task          // the last that was worked on in the run
	cancel  context.CancelFunc // ends the work on the task
	sent    *bus.DeviceUpdate  // the task's update; nil: it is not done
	again   context.CancelFunc // has the request under way sent again
	whole   bool               // the update's last message is under way: its answer is, too
	beat    *time.Timer        // sends the next heartbeat
	log     []string           // that heartbeats have not told yet
}

// answerLag is how long the answer to an update may come after what the run says next.
const answerLag = 5 * time.Second

// maxCalls is how many messages may wait when a device still keeps a call.
const maxCalls = 64

// DeviceTask is a task with the run that it is of.
type DeviceTask struct {
	Run     string
	Welcome *bus.Welcome
	Task    *bus.Task
	// Context ends when the run goes on without the device.
	Context  context.Context
	Received time.Time // with the monotonic clock
}

// ErrOver says that the run in which a device took part is over.
var ErrOver = errors.New("the run is over")

// ErrUpdateRefused is wrapped by errors about updates that the coordinator
// refused.
var ErrUpdateRefused = errors.New("the coordinator refused it")

// ErrUnanswered is wrapped by errors about updates that the coordinator left
// unanswered.
var ErrUnanswered = errors.New("the coordinator does not answer; the update waits until it asks again")

// deviceArrival is a message on the device's task subject.
type deviceArrival struct {
	run  string
	task *bus.Task // without a number: a call to join, or with Over the end of the run
	at   time.Time
}

// isTask tells whether the message has a task; a message without one is a call
// or says that the run is over.
func (x deviceArrival) isTask() bool { return x.task.Task != 0 }
func (x deviceArrival) isCall() bool { return !x.isTask() && !x.task.Over }

func decodeDeviceTask(b []byte, t *bus.Task) error {
	if err := proto.Unmarshal(b, t); err != nil {
		return fmt.Errorf("bus: decode Task: %w", err)
	}
	return t.ValidateForDevice()
}

// OpenDevice subscribes to the device's own subject.
func OpenDevice(ctx context.Context, conn bus.Line, c DeviceConfig) (*Device, error) {
	if err := names.CheckDevice(c.ID); err != nil {
		return nil, err
	}
	if err := c.Join.Validate(); err != nil {
		return nil, err
	}
	if c.Run != "" {
		if err := names.CheckToken("run", c.Run); err != nil {
			return nil, err
		}
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	c.Patience = cmp.Or(c.Patience, time.Minute)
	c.Join = proto.CloneOf(c.Join)
	if err := binary.Read(rand.Reader, binary.NativeEndian, &c.Join.Process); err != nil {
		return nil, fmt.Errorf("bus: draw the number of a process: %w", err)
	}
	d := &Device{config: c, conn: conn, mailbox: mailbox.New[deviceArrival](1 << 10), again: func() {}}
	d.life, d.end = context.WithCancelCause(conn.Life())
	d.beat = time.AfterFunc(0, d.heartbeat) // none before it has joined
	var err error
	if d.sub, err = conn.Subscribe(subject.Device(cmp.Or(c.Run, "*"), c.ID, subject.Task), nil, d.onTask); err != nil {
		return nil, fmt.Errorf("bus: subscribe for device %s: %w", c.ID, err)
	}
	d.unwatch = conn.Watch(d.mailbox.Fail, d.interrupted)
	if err := conn.Settled(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Notice tells the device's owner a line, and the run with the next heartbeat.
func (d *Device) Notice(line string) {
	d.config.Notice(line)
	if d.config.Tells {
		d.mu.Lock()
		d.log = appendLog(d.log, bus.Printable(line))
		d.mu.Unlock()
	}
}

// appendLog keeps the newest lines.
func appendLog(log []string, lines ...string) []string {
	log = append(log, lines...)
	return log[max(0, len(log)-bus.MaxLog):]
}

// leaveTime bounds telling a run that the device leaves.
const leaveTime = 2 * time.Second

// Leave tells the run in which the device takes part that it leaves, and why.
func (d *Device) Leave(why string) {
	d.mu.Lock()
	in := d.run != ""
	if in {
		d.publish(subject.Heartbeat, &bus.Heartbeat{Process: d.config.Join.Process, Leaves: bus.Printable(why), Log: d.log})
	}
	d.mu.Unlock()
	if in {
		settling, stop := context.WithTimeout(context.Background(), leaveTime)
		defer stop()
		_ = d.conn.Settled(settling) // else the run waits as long as for any silent device
	}
}

// Ask asks a run that calls a device whether it could take part, and takes no place.
func Ask(ctx context.Context, line bus.Line, run, id string, samples uint64, j *bus.Join) (*bus.DeviceReply, error) {
	j.Asks = true
	b, err := bus.Marshal(nil, j)
	if err != nil {
		return nil, err
	}
	r := new(bus.DeviceReply)
	err = line.Ask(ctx, &bus.Request{
		Subject: subject.Device(run, id, subject.JoinAs(samples)), Data: b, Again: func(error) bool { return false },
		Take: func(answer []byte) error { return bus.Unmarshal(answer, r) },
	})
	if err != nil {
		return nil, fmt.Errorf("bus: run %s does not answer: %w", run, err)
	}
	return r, nil
}

func (d *Device) Close() error {
	d.unwatch()
	_ = d.sub.Unsubscribe() // fails only on a closed connection, which has none
	d.mu.Lock()
	d.leave()
	d.mu.Unlock()
	closed := fmt.Errorf("bus: device %s is closed", d.config.ID)
	d.end(closed)
	d.mailbox.Fail(closed)
	return nil
}

// interrupted joins again, for the run may not know the device any more, or have sent it a task
// meanwhile. The answer is a task or, where this is lost, too, a call.
func (d *Device) interrupted(error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run != "" {
		d.publish(subject.JoinAs(d.config.Samples), d.config.Join)
	}
}

func (d *Device) onTask(m *bus.RawMessage) {
	x := deviceArrival{at: time.Now(), task: new(bus.Task)}
	var ok bool
	if x.run, ok = subject.RunOfTask(m.Subject, d.config.ID); !ok || m.Relayed || d.config.Run == "" && x.run == bus.Calibration {
		return
	}
	if err := decodeDeviceTask(m.Data, x.task); err != nil {
		d.Notice("A task that cannot be read is ignored: " + err.Error())
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	working := d.cancel != nil
	switch {
	case x.isCall():
		if x.run == d.run { // at once, also from within a long task: another process may want the place
			d.publish(subject.JoinAs(d.config.Samples), d.config.Join)
		}
		// One call of each run is kept, however long the device is at work.
		if d.mailbox.Pending() >= maxCalls || d.mailbox.Holds(func(y deviceArrival) bool { return y.isCall() && y.run == x.run }) {
			return
		}
	case x.run != d.run:
		if working && x.isTask() {
			return // one run at a time; the other sends it again
		}
	case x.isTask() && working && proto.Equal(x.task, d.task): // a repeat: what was sent of it may be lost
		d.again()
		return
	case working && d.whole: // the run may have taken the update, and its answer be behind this
		// Nothing need stop the timer: it ends this task's context alone, which rest has ended where it fires late.
		time.AfterFunc(answerLag, d.cancel)
	case working:
		d.cancel() // the run goes on without it
	}
	d.mailbox.Put(x)
}

// maxCallers bounds how many runs that call are told apart.
const maxCallers = 64

// Calls listens until ctx ends for runs that call a device which is not there, and
// tells each one's name and its coordinator's version once. It answers none. The error
// says that the device may not listen, or that the line was lost.
func Calls(ctx context.Context, line bus.Line, id string, called func(run, version string)) error {
	if err := names.CheckDevice(id); err != nil {
		return err
	}
	var runs []string
	sub, err := line.Subscribe(subject.Device("*", id, subject.Task), nil, func(m *bus.RawMessage) {
		run, ok := subject.RunOfTask(m.Subject, id)
		if !ok || m.Relayed || names.CheckToken("run", run) != nil || slices.Contains(runs, run) || len(runs) == maxCallers {
			return
		}
		t := new(bus.Task)
		if err := decodeDeviceTask(m.Data, t); err != nil {
			t.Version = "" // the call counts, whatever else it holds
		}
		runs = append(runs, run)
		called(run, t.Version)
	})
	if err == nil {
		if err = line.Settled(ctx); ctx.Err() != nil {
			err = nil
		}
	}
	if err == nil {
		select {
		case <-ctx.Done():
			err = sub.Unsubscribe()
		case <-line.Life().Done():
			err = line.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("bus: listen for device %s: %w", id, err)
	}
	return nil
}

// Next waits for the next task. On the way it joins the run that calls, or the
// one that it was made for until that answers. It returns ErrOver once when a
// run ends in which it took part.
func (d *Device) Next(ctx context.Context) (*DeviceTask, error) {
	d.mu.Lock()
	d.rest()
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
	d.phase, d.task, d.cancel = bus.Download, x.task, cancel
	d.beat.Reset(0)               // says that the task is here
	if d.mailbox.Holds(x.ended) { // it came while the device was not at work yet
		cancel()
	}
	sent, welcome := d.sent, d.welcome
	d.mu.Unlock()
	if sent == nil {
		return &DeviceTask{Run: x.run, Welcome: welcome, Task: x.task, Context: life, Received: x.at}, nil
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
	d.rest()
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

// rest ends the work on a task. With the lock held.
func (d *Device) rest() {
	if d.cancel != nil {
		d.cancel()
	}
	d.cancel, d.phase, d.whole = nil, bus.NoPhase, false
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
	d.run, d.welcome = run, r.Welcome
	d.beat.Reset(d.welcome.HeartbeatEvery())
	d.mu.Unlock()
	if joined {
		d.Notice(fmt.Sprintf("Joined run %s as client %d.", run, r.Welcome.Client))
		if own, its := d.config.Join.Version, r.Welcome.Version; bus.Differ(own, its) {
			d.Notice(fmt.Sprintf("This device is of version %s, and the coordinator of run %s of version %s.", own, run, its))
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

// send sends an update; one that has been sent keeps its durations.
func (d *Device) send(ctx context.Context, run string, u *bus.DeviceUpdate) error {
	if len(u.Values) == 0 {
		return fmt.Errorf("bus: the update of task %d has no values", u.Task)
	}
	d.mu.Lock()
	body, packs := vector.Bytes(u.Values), d.welcome.GetSpec().GetCompression() != ""
	d.mu.Unlock()
	if packs {
		body = vector.Pack(u.Values)
	}
	chunks := slices.Collect(slices.Chunk(body, bus.ChunkBytes))
	u.Chunk, u.Chunks, u.Process = uint32(len(chunks)), uint32(len(chunks)), d.config.Join.Process
	started := time.Now()
	for chunk := 0; chunk <= len(chunks); chunk++ {
		part := u.Update
		if chunk < len(chunks) {
			part = &bus.Update{Task: u.Task, TaskDigest: u.TaskDigest, Process: u.Process, Chunk: uint32(chunk), Chunks: u.Chunks, Values: chunks[chunk]}
			if packs {
				part.Values, part.Packed = nil, part.Values
			}
		} else if u.UploadNs == 0 {
			u.UploadNs = max(1, time.Since(started).Nanoseconds())
		}
		d.mu.Lock()
		d.whole = part.Last()
		d.mu.Unlock()
		// A coordinator that is away may be there again within the patience.
		r, err := d.request(ctx, run, subject.Chunk(part.Chunk), part, d.config.Patience, func(error) bool { return true })
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
func (d *Device) request(ctx context.Context, run, verb string, m proto.Message, most time.Duration, again func(error) bool) (*bus.DeviceReply, error) {
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
		d.again = cancel
		d.mu.Unlock()
		err = d.conn.Ask(asking, &bus.Request{
			Subject: subject.Device(run, d.config.ID, verb), Data: b, For: most, Again: again,
			Take: func(answer []byte) error { return bus.Unmarshal(answer, r) },
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
