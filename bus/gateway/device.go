package gateway

import (
	"bytes"
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

// DeviceConfig is what a real device's end needs.
type DeviceConfig struct {
	// ID is the device's id, which starts with a letter.
	ID string
	// Run is the run to join. Empty means any run that calls, except a calibration.
	Run string
	// Join is the message with which the device joins: name, samples, versions and measured
	// speeds.
	Join *bus.Join
	// Samples is the largest number of samples that the device's credentials allow, 0 for any number.
	Samples uint64
	// Patience is how long an update may go unanswered before the device takes up
	// other work, 0 for a minute. The run gets the update when it sends the task again.
	Patience time.Duration
	// Prepare, if set, is called when the device has joined a run. Its error, that the device cannot do
	// what the run asks for, is returned by Next.
	Prepare func(ctx context.Context, run string, welcome *bus.Welcome) error
	// Notice gets a line for each change of the device. It may be nil.
	Notice func(string)
	// SharesLog says that the run gets these lines, too, with the heartbeats.
	SharesLog bool
}

// Device is a real device's end of the runs that it takes part in, one after the
// other. It needs only the rights of docs/protocol.md, "Permissions".
//
//	Next      joins a run and waits for a task
//	Model     fetches the task's model
//	Phase     sets the phase that heartbeats report
//	Send      sends the update
//
// Next, Model, Phase and Send are called from one goroutine.
type Device struct {
	// config is what OpenDevice was given, with its defaults filled in.
	config DeviceConfig
	// conn is the connection to the server, which outlives the device.
	conn bus.Line
	// sub is the subscription to the device's task subject.
	sub bus.Subscription
	// unwatch ends the watch for interruptions of the connection.
	unwatch func()
	// mailbox holds the messages that Next has not taken yet.
	mailbox *mailbox.Mailbox[deviceArrival]

	// life ends when the device is closed or the connection is lost for good. end ends it with a
	// cause.
	life context.Context
	end  context.CancelCauseFunc

	// mu guards all fields below.
	mu sync.Mutex
	// run is the run in which the device takes part, empty if there is none.
	run string
	// welcome is the run's answer when the device joined.
	welcome *bus.Welcome
	// phase is the phase of the task that heartbeats report.
	phase bus.Phase
	// task is the last task that the device worked on in the run.
	task *bus.Task
	// cancelWork ends the work on the task.
	cancelWork context.CancelFunc
	// finished is the task's update, nil as long as it is not done.
	finished *bus.DeviceUpdate
	// interruptRequest interrupts the request that is under way, which is then sent again.
	interruptRequest context.CancelFunc
	// awaitsLastAnswer says that the update's last message was sent and that its answer has not arrived.
	awaitsLastAnswer bool
	// nextHeartbeat is the timer that sends the next heartbeat.
	nextHeartbeat *time.Timer
	// log holds the lines that no heartbeat has sent yet.
	log []string
	// fences are the highest fencing tokens that were heard.
	fences fences
	// newestArrived is the number of the newest task that has arrived from the run, noTask if none has.
	newestArrived uint64
	// heard is what is known of the echoes that were asked for.
	heard heardEchoes

	// probing waits for the requests for echoes. Close does so without the lock.
	probing sync.WaitGroup
}

// answerLag is how long a device waits for the answer to a complete update after the run's next
// message has arrived: the answer may have been overtaken.
const answerLag = 5 * time.Second

// maxCalls is how many messages may wait before a device ignores further calls.
const maxCalls = 64

// DeviceTask is a task and the run that it belongs to.
type DeviceTask struct {
	// Run is the name of the run.
	Run string
	// Welcome holds the run's learning problem, as the run sent it when the device joined.
	Welcome *bus.Welcome
	// Task is the message in which the run asks for the work.
	Task *bus.Task
	// Context ends when the run no longer waits for the device's update.
	Context context.Context
	// Received is when the task arrived, by a clock that includes the monotonic one.
	Received time.Time
}

// ErrOver reports that the run in which a device took part has ended.
var ErrOver = errors.New("the run is over")

// ErrUpdateRefused is wrapped by errors about updates that the coordinator
// refused.
var ErrUpdateRefused = errors.New("the coordinator refused it")

// ErrUnanswered is wrapped by errors about updates that the coordinator left
// unanswered.
var ErrUnanswered = errors.New("the coordinator does not answer; the update waits until it asks again")

// deviceArrival is a message that arrived on the device's task subject.
type deviceArrival struct {
	// run is the name of the run that sent the message, taken from its subject.
	run string
	// task is the content of the message. Without a number it is a call to join, or with Over set
	// the end of the run.
	task *bus.Task
	// received is when the message arrived.
	received time.Time
}

// isTask reports whether the message is a task.
func (arrival deviceArrival) isTask() bool { return arrival.task.Task != noTask }

// isEcho reports whether the message is the answer to a heartbeat.
func (arrival deviceArrival) isEcho() bool { return !arrival.isTask() && arrival.task.Echo != 0 }

// isCall reports whether the message is a call to join.
func (arrival deviceArrival) isCall() bool {
	return !arrival.isTask() && !arrival.task.Over && !arrival.isEcho()
}

// isEnd reports whether the message says that the run is over.
func (arrival deviceArrival) isEnd() bool { return !arrival.isTask() && arrival.task.Over }

// decodeDeviceTask decodes b, a message on a device's task subject, into t and validates it. The
// message may be a task, a call to join or the end of a run.
func decodeDeviceTask(b []byte, t *bus.Task) error {
	if err := proto.Unmarshal(b, t); err != nil {
		return fmt.Errorf("bus: decode Task: %w", err)
	}
	return t.ValidateForDevice()
}

// OpenDevice opens a device's end on the connection conn: it subscribes to the device's own subject
// and draws the random number by which runs distinguish this process from others. It joins no run
// yet: Next does. ctx bounds the wait until the server has the subscription. Close the device after
// use.
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
	// The join is changed below, and the caller's stays as it is.
	c.Join = proto.CloneOf(c.Join)
	c.Join.HeedsFences = true
	c.Join.ReportsEchoes = true
	if err := binary.Read(rand.Reader, binary.NativeEndian, &c.Join.Process); err != nil {
		return nil, fmt.Errorf("bus: draw the number of a process: %w", err)
	}
	d := &Device{
		config:           c,
		conn:             conn,
		mailbox:          mailbox.New[deviceArrival](1 << 10),
		interruptRequest: func() {},
		fences:           fences{},
	}
	d.life, d.end = context.WithCancelCause(conn.Life())
	// The timer exists from now on so that joining can set it.
	d.nextHeartbeat = time.AfterFunc(time.Hour, d.heartbeat)
	d.nextHeartbeat.Stop()
	var err error
	d.sub, err = conn.Subscribe(subject.Device(cmp.Or(c.Run, "*"), c.ID, subject.Task), nil, d.onTask)
	if err != nil {
		d.nextHeartbeat.Stop()
		d.end(err)
		return nil, fmt.Errorf("bus: subscribe for device %s: %w", c.ID, err)
	}
	d.unwatch = conn.Watch(d.mailbox.Fail, d.interrupted)
	if err := conn.Settled(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Notice passes a line to the device's owner and, if the device shares its log, to the run with the next
// heartbeat.
func (d *Device) Notice(line string) {
	d.config.Notice(line)
	if d.config.SharesLog {
		d.mu.Lock()
		d.log = appendLog(d.log, bus.Printable(line))
		d.mu.Unlock()
	}
}

// appendLog returns a log with lines appended, of which the newest bus.MaxLog stay.
func appendLog(log []string, lines ...string) []string {
	log = append(log, lines...)
	return log[max(0, len(log)-bus.MaxLog):]
}

// leaveTime bounds how long Leave waits until the server has the message.
const leaveTime = 2 * time.Second

// Leave informs the run in which the device takes part, if any, that it leaves and for what reason. It
// waits until the server has the message, for at most leaveTime, since the process may exit next.
func (d *Device) Leave(reason string) {
	d.mu.Lock()
	takesPart := d.run != ""
	if takesPart {
		d.publish(
			subject.Heartbeat,
			&bus.Heartbeat{
				Process: d.config.Join.Process,
				Leaves:  bus.Printable(reason),
				Log:     d.log,
			},
		)
	}
	d.mu.Unlock()
	if takesPart {
		settling, stop := context.WithTimeout(context.Background(), leaveTime)
		defer stop()
		// If this message is lost, the run waits for the device as for any silent one.
		_ = d.conn.Settled(settling)
	}
}

// Ask asks a run whether a device, as described by j, could take part, and returns the run's answer. The
// device does not join by it. samples is the number of samples that its credentials allow, which decides
// the subject, 0 for any. It is an error if the run does not answer the first request.
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

// Close ends the device's part in its run without informing the run (see Leave). Calls under way
// return.
func (d *Device) Close() error {
	d.unwatch()
	// Unsubscribe fails only on a closed connection, which has no subscriptions.
	_ = d.sub.Unsubscribe()
	// No message arrives any more, so the part in the run ends for good.
	d.mu.Lock()
	d.leave()
	d.mu.Unlock()
	closed := fmt.Errorf("bus: device %s is closed", d.config.ID)
	d.end(closed)
	d.probing.Wait()
	d.mailbox.Fail(closed)
	return nil
}

// interrupted is called when a lost connection is back. The run may have forgotten the device, or may have sent it a
// task that was lost. So the device joins again, and reports by a heartbeat the task that it works on. The run then
// sends its task once more; if that message is lost, too, its next call has the device join again.
func (d *Device) interrupted(error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run != "" {
		d.publish(subject.JoinAs(d.config.Samples), d.config.Join)
		d.nextHeartbeat.Reset(0)
	}
}

// queueCall queues arrival, a call to join, for Next. However long the device is at work, at most one call of
// each run waits, and no more than maxCalls messages in all. The caller holds the lock.
func (d *Device) queueCall(arrival deviceArrival) {
	isWaiting := d.mailbox.Holds(func(y deviceArrival) bool { return y.isCall() && y.run == arrival.run })
	if !isWaiting && d.mailbox.Pending() < maxCalls {
		d.mailbox.Put(arrival)
	}
}

// readArrival reads a message on the device's task subject. It returns false for one that is to be ignored.
func (d *Device) readArrival(m *bus.RawMessage) (arrival deviceArrival, ok bool) {
	arrival = deviceArrival{received: time.Now(), task: new(bus.Task)}
	arrival.run, ok = subject.RunOfTask(m.Subject, d.config.ID)
	// A misdirected message is a server's answer to a request of another client, not a message of the run.
	if !ok || m.Misdirected {
		return arrival, false
	}
	joinsAny := d.config.Run == ""
	// A calibration measures only devices that were started for it.
	if joinsAny && arrival.run == bus.Calibration {
		return arrival, false
	}
	if err := decodeDeviceTask(m.Data, arrival.task); err != nil {
		d.Notice("A task that cannot be read is ignored: " + err.Error())
		return arrival, false
	}
	return arrival, true
}

// onTask handles a message on the device's task subject: an echo, a call, a task, or the end of a run. It runs
// beside Next, to which it leaves what is to be done by queueing the message. By itself it answers a call from
// the device's own run, and ends the work on the open task when the run moves on.
func (d *Device) onTask(m *bus.RawMessage) {
	arrival, ok := d.readArrival(m)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fences.admits(arrival.run, arrival.task.Fence, arrival.received) {
		// An earlier coordinator of the run does not know yet that it was taken over.
		return
	}
	fromOwnRun := arrival.run == d.run
	if fromOwnRun {
		// Whatever arrives shows that the subject is subscribed to.
		d.hearTask(arrival.task.Echo)
	}
	if arrival.isEcho() {
		return
	}
	if arrival.isEnd() {
		delete(d.fences, arrival.run)
	}
	working := d.cancelWork != nil
	switch {
	case arrival.isCall():
		// Another process may contend for the device's place, so this one answers at once.
		if fromOwnRun {
			d.publish(subject.JoinAs(d.config.Samples), d.config.Join)
		}
		d.queueCall(arrival)
	case fromOwnRun:
		d.onTaskOrEnd(arrival)
	// A device works for one run at a time. The other run sends its task again.
	case working && arrival.isTask():
	default:
		d.mailbox.Put(arrival)
	}
}

// onTaskOrEnd handles a task from the device's own run, or the end of that run: it ends the work on the open task,
// and queues the message for Next. For a repeat of the open task it does neither: the request that is under way is
// sent again instead, as it or its answer may have been lost. The caller holds the lock.
func (d *Device) onTaskOrEnd(arrival deviceArrival) {
	if arrival.isTask() {
		d.newestArrived = arrival.task.Task
	}
	working := d.cancelWork != nil
	if working {
		isRepeat := arrival.isTask() && sameTask(arrival.task, d.task)
		if isRepeat {
			d.interruptRequest()
			return
		}
		d.supersede()
	}
	d.mailbox.Put(arrival)
}

// sameTask reports whether task t is the same as an earlier one, which may be nil. Tasks with digests may differ in
// their fencing tokens, as a run that was resumed sends its open tasks again with another one. Tasks without a
// digest, of coordinators of older versions, are the same if all their fields are.
func sameTask(t, earlier *bus.Task) bool {
	if earlier == nil || len(t.Digest) == 0 {
		return proto.Equal(t, earlier)
	}
	return t.Task == earlier.Task && bytes.Equal(t.Digest, earlier.Digest)
}

// supersede ends the work on the open task, since the run has moved on. While the last message of the
// update is under way the run may have taken it, and its answer may arrive after this: the work
// then ends a moment later. The timer need not be stopped: it cancels the context of this task alone.
// The caller holds the lock.
func (d *Device) supersede() {
	if d.awaitsLastAnswer {
		time.AfterFunc(answerLag, d.cancelWork)
		return
	}
	d.cancelWork()
}

// maxCallers bounds how many calling runs Calls reports.
const maxCallers = 64

// Calls listens, until ctx ends, for runs that call a device, and passes each run's name and its
// coordinator's version to called, once. It answers no call. The error says that the device may not
// listen, or that the line was lost.
func Calls(ctx context.Context, line bus.Line, id string, called func(run, version string)) error {
	if err := names.CheckDevice(id); err != nil {
		return err
	}
	var runs []string
	sub, err := line.Subscribe(subject.Device("*", id, subject.Task), nil, func(m *bus.RawMessage) {
		run, ok := subject.RunOfTask(m.Subject, id)
		if !ok || m.Misdirected {
			return
		}
		isNew := names.CheckToken("run", run) == nil && !slices.Contains(runs, run)
		// A run calls about once a second and is reported only once.
		if !isNew || len(runs) == maxCallers {
			return
		}
		t := new(bus.Task)
		if err := decodeDeviceTask(m.Data, t); err != nil {
			// The run calls the device, whatever else its message holds.
			t.Version = ""
		}
		runs = append(runs, run)
		called(run, t.Version)
	})
	if err == nil {
		err = awaitEnd(ctx, line, sub)
	}
	if err != nil {
		return fmt.Errorf("bus: listen for device %s: %w", id, err)
	}
	return nil
}

// awaitEnd waits until ctx ends and then ends the subscription sub. It returns an error if line is
// lost before. The subscription must reach the server first, or nothing would arrive.
func awaitEnd(ctx context.Context, line bus.Line, sub bus.Subscription) error {
	err := line.Settled(ctx)
	if err != nil && ctx.Err() == nil {
		return err
	}
	select {
	case <-ctx.Done():
		return sub.Unsubscribe()
	case <-line.Life().Done():
		return line.Err()
	}
}
