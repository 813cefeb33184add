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
	SharesLog bool
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

	mu       sync.Mutex
	run      string // joined; empty: none
	welcome  *bus.Welcome
	phase    bus.Phase          // what heartbeats say
	task     *bus.Task          // the last that was worked on in the run
	cancel   context.CancelFunc // ends the work on the task
	sent     *bus.DeviceUpdate  // the task's update; nil: it is not done
	resend   context.CancelFunc // has the request under way sent again
	lastSent bool               // the update's last message is under way: its answer is, too
	beat     *time.Timer        // sends the next heartbeat
	log      []string           // that heartbeats have not told yet
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
	run      string
	task     *bus.Task // without a number: a call to join, or with Over the end of the run
	received time.Time
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
	d := &Device{
		config:  c,
		conn:    conn,
		mailbox: mailbox.New[deviceArrival](1 << 10),
		resend:  func() {},
	}
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
	if d.config.SharesLog {
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
func (d *Device) Leave(reason string) {
	d.mu.Lock()
	in := d.run != ""
	if in {
		d.publish(
			subject.Heartbeat,
			&bus.Heartbeat{Process: d.config.Join.Process, Leaves: bus.Printable(reason), Log: d.log},
		)
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
		Subject: subject.Device(run, id, subject.JoinAs(samples)),
		Data:    b,
		Retry:   func(error) bool { return false },
		Decode:  func(answer []byte) error { return bus.Unmarshal(answer, r) },
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
// meanwhile, and says what it works on. The answer is a task or, where this is lost, too, a call.
func (d *Device) interrupted(error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run != "" {
		d.publish(subject.JoinAs(d.config.Samples), d.config.Join)
		d.beat.Reset(0)
	}
}

// call keeps one call of each run, however long the device is at work. With the
// lock held.
func (d *Device) call(x deviceArrival) {
	if !d.mailbox.Holds(func(y deviceArrival) bool { return y.isCall() && y.run == x.run }) &&
		d.mailbox.Pending() < maxCalls {
		d.mailbox.Put(x)
	}
}

func (d *Device) onTask(m *bus.RawMessage) {
	x := deviceArrival{received: time.Now(), task: new(bus.Task)}
	var ok bool
	x.run, ok = subject.RunOfTask(m.Subject, d.config.ID)
	if !ok ||
		m.Relayed ||
		d.config.Run == "" && x.run == bus.Calibration {
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
		d.call(x)
		return
	case x.run != d.run:
		if working && x.isTask() {
			return // one run at a time; the other sends it again
		}
	case x.isTask() && working && proto.Equal(x.task, d.task): // a repeat: what was sent of it may be lost
		d.resend()
		return
	case working && d.lastSent: // the run may have taken the update, and its answer be behind this
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
		if !ok ||
			m.Relayed ||
			names.CheckToken("run", run) != nil ||
			slices.Contains(runs, run) ||
			len(runs) == maxCallers {
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
