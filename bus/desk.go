package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"fedpace/bus/internal/mailbox"
	"fedpace/internal/names"
)

// DeskConfig is what a run's desk for real devices needs.
type DeskConfig struct {
	Devices []string // ids; a device's index here is its number in news
	First   int      // client number of the first, see Welcome.Client
	Welcome *Welcome // Client is filled in
	// Check says why a whole update of the right task and shape cannot count;
	// nil: it can. It is called on one goroutine for each device.
	Check func(*DeviceUpdate) error
	// Calls is the pause between two calls to devices that have not joined; 0 is
	// one second.
	Calls time.Duration
}

// NewsKind is what a desk has to tell of a device.
type NewsKind uint8

// The kinds of news.
const (
	DeviceJoined  NewsKind = iota // it is there
	DeviceUpdated                 // its update for the open task is here and can count
	DeviceRefused                 // its update for the open task cannot count; Text says why
	DeviceFlooded                 // it sent so much that it is heard no more
	DeviceIgnored                 // a message of a kind that was not ignored before; Text says why
	DeskBack                      // the connection was away: tasks may be lost
)

// DeviceNews is what a desk has to tell. Update is whole for DeviceUpdated, and
// without values for DeviceRefused, whose durations are 0 where they are not
// known.
type DeviceNews struct {
	Device int
	Kind   NewsKind
	Join   *Join // of DeviceJoined
	Update *DeviceUpdate
	Text   string
}

// Desk is the coordinator's end for real devices: it calls them, sends them
// tasks and takes their updates. It uses a connection of its own, so that what a
// device sends too much of is lost there and nowhere else.
//
// A device's messages are all checked: what cannot count is refused with a
// reason, counted by kind and told once. A device that sends far more than the
// protocol asks for is heard no more for the rest of the run.
type Desk struct {
	run     string
	config  DeskConfig
	conn    *Conn
	devices []*deskDevice
	news    *mailbox.Mailbox[DeviceNews]

	opened  time.Time // what devices were last heard at is counted from it, by the monotonic clock
	stop    context.CancelFunc
	calls   sync.WaitGroup
	unwatch func()
	closed  sync.Once
}

// OpenDesk subscribes for the run's devices, and calls them from now on.
func OpenDesk(ctx context.Context, conn *Conn, run string, c DeskConfig) (*Desk, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if len(c.Devices) == 0 || len(c.Devices) > MaxDevices {
		return nil, fmt.Errorf("bus: a desk for %d devices, want 1 to %d", len(c.Devices), MaxDevices)
	}
	if c.Calls == 0 {
		c.Calls = time.Second
	}
	d := &Desk{run: run, config: c, conn: conn, news: mailbox.New[DeviceNews](pendingMessages), opened: time.Now()}
	for i, id := range c.Devices {
		if err := names.CheckDevice(id); err != nil {
			return nil, err
		}
		w := proto.CloneOf(c.Welcome)
		w.Client = uint64(c.First + i)
		if err := w.Validate(); err != nil {
			return nil, err
		}
		d.devices = append(d.devices, &deskDevice{desk: d, index: i, id: id, welcome: w, refused: map[string]int{}, budget: deviceBudget})
	}
	d.unwatch = conn.Watch(d.failed, d.interrupted)
	for _, x := range d.devices {
		if err := x.subscribe(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if err := conn.Settled(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	calling, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.calls.Go(func() { d.call(calling) })
	return d, nil
}

// Close tells the devices that the run is over and ends the subscriptions.
func (d *Desk) Close() (err error) {
	d.closed.Do(func() {
		if d.stop != nil {
			d.stop()
			d.calls.Wait()
		}
		d.unwatch()
		over, e := Marshal(nil, &Task{Over: true})
		err = e
		for _, x := range d.devices {
			x.unsubscribe()
			if e == nil {
				_ = d.conn.NATS().Publish(deviceSubject(d.run, x.id, verbTask), over) // a lost connection has told them, too
			}
		}
		_ = d.conn.NATS().FlushTimeout(requestTimeout)
		d.news.Fail(fmt.Errorf("bus: run %s: the desk for devices is closed", d.run))
	})
	return err
}

func (d *Desk) failed(err error)      { d.news.Fail(err) }
func (d *Desk) interrupted(err error) { d.news.Put(DeviceNews{Kind: DeskBack, Text: err.Error()}) }

// call calls those who have not joined, until ctx ends.
func (d *Desk) call(ctx context.Context) {
	var message []byte // a task without a number
	tick := time.NewTicker(d.config.Calls)
	defer tick.Stop()
	for {
		for _, x := range d.devices {
			if x.absent() {
				_ = d.conn.NATS().Publish(deviceSubject(d.run, x.id, verbTask), message) // the next call is soon
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// SendTask sends a task to a device and expects its update; the task before it
// is no longer expected. Sending an open task again is harmless.
func (d *Desk) SendTask(device int, t *Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	b, err := Marshal(nil, t)
	if err != nil {
		return err
	}
	d.devices[device].expect(t.Task)
	if err := d.conn.NATS().Publish(deviceSubject(d.run, d.devices[device].id, verbTask), b); err != nil {
		return fmt.Errorf("bus: task %d to device %s: %w", t.Task, d.devices[device].id, err)
	}
	return nil
}

// Lost gives a device up until it joins again.
func (d *Desk) Lost(device int) { d.devices[device].lost() }

// Heard is when a device was last heard of; the zero time: never.
func (d *Desk) Heard(device int) time.Time {
	return d.devices[device].lastHeard()
}

// TakeNews waits until there is news and returns all of it, by device in the
// order of arrival. It returns the connection's failure with its cause. The
// result uses another buffer than buf, which is kept for the next.
func (d *Desk) TakeNews(ctx context.Context, buf []DeviceNews) ([]DeviceNews, error) {
	return d.news.Take(ctx, buf)
}

// Refused counts the messages of a device that did not count, by reason.
func (d *Desk) Refused(device int) map[string]int {
	x := d.devices[device]
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.refused)
}

// The reasons for which messages of devices are refused.
const (
	ReasonMalformed = "malformed" // no message of the protocol
	ReasonStale     = "stale"     // of a task that is not open
	ReasonOrder     = "order"     // a chunk out of order
	ReasonShape     = "shape"     // not as many values as the model has
	ReasonInvalid   = "invalid"   // values or durations that cannot count
	ReasonFlood     = "flood"     // more than a device may send
)

// What a device may send beyond the chunks that it is asked for: each message
// takes one of the budget, which fills again with time.
const (
	deviceBudget = 512
	deviceRefill = 50 // a second

	devicePendingMessages = 1 << 10
	devicePendingBytes    = 64 << 20
)

// deskDevice is one device at the desk.
type deskDevice struct {
	desk    *Desk
	index   int
	id      string
	welcome *Welcome
	heard   atomic.Int64 // nanoseconds since the desk was opened; 0: never
	beats   atomic.Int64 // heartbeats

	mu      sync.Mutex
	subs    []*nats.Subscription
	joined  bool
	flooded bool
	refused map[string]int
	budget  float64
	filled  time.Time // when budget was last filled

	// The open task and what has come of its update.
	task   uint64 // 0: none
	done   bool   // accepted or refused
	reason string // of its refusal
	chunks uint32
	next   uint32 // chunk
	values []float32
}

func (x *deskDevice) subscribe() error {
	for verb, f := range map[string]func(*nats.Msg){
		verbJoin: x.onJoin, verbHeartbeat: x.onHeartbeat, verbUpdate + ".*": x.onUpdate,
	} {
		s, err := x.desk.conn.NATS().Subscribe(deviceSubject(x.desk.run, x.id, verb), f)
		if err == nil {
			x.desk.conn.Tolerate(s, func() { x.flood("messages were dropped since too many were waiting") })
			err = s.SetPendingLimits(devicePendingMessages, devicePendingBytes)
		}
		if err != nil {
			return fmt.Errorf("bus: subscribe for device %s: %w", x.id, err)
		}
		x.subs = append(x.subs, s)
	}
	return nil
}

// unsubscribe ends the subscriptions. Their drops stay tolerated: NATS may have
// noticed one before, and tells of it later on a goroutine of its own.
func (x *deskDevice) unsubscribe() {
	x.mu.Lock()
	subs := x.subs
	x.subs = nil
	x.mu.Unlock()
	for _, s := range subs {
		_ = s.Unsubscribe() // fails only on a closed connection, which has none
	}
}

func (x *deskDevice) hear() { x.heard.Store(max(1, int64(time.Since(x.desk.opened)))) }

func (x *deskDevice) lastHeard() time.Time {
	if ns := x.heard.Load(); ns != 0 {
		return x.desk.opened.Add(time.Duration(ns))
	}
	return time.Time{}
}

func (x *deskDevice) absent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.joined && !x.flooded
}

func (x *deskDevice) expect(task uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.task != task {
		x.task, x.done, x.reason, x.next, x.values = task, false, "", 0, nil
	}
}

func (x *deskDevice) lost() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.joined, x.task, x.values = false, 0, nil
}

// spend takes a message off the device's budget. It must be called without the
// lock and says whether the message may be read.
func (x *deskDevice) spend() bool {
	now := time.Now()
	x.mu.Lock()
	if x.flooded {
		x.mu.Unlock()
		return false
	}
	if !x.filled.IsZero() {
		x.budget = min(deviceBudget, x.budget+now.Sub(x.filled).Seconds()*deviceRefill)
	}
	x.filled = now
	x.budget--
	over := x.budget < 0
	x.mu.Unlock()
	if over {
		x.flood(fmt.Sprintf("over %d messages that nobody asked for", deviceBudget))
	}
	return !over
}

// flood ends the device's part in the run.
func (x *deskDevice) flood(why string) {
	x.mu.Lock()
	if x.flooded {
		x.mu.Unlock()
		return
	}
	x.flooded, x.joined, x.task, x.values = true, false, 0, nil
	x.refused[ReasonFlood]++
	x.mu.Unlock()
	x.unsubscribe()
	x.desk.news.Put(DeviceNews{Device: x.index, Kind: DeviceFlooded, Text: why})
}

// ignore counts a message that does not count, and tells of the first for each
// reason. With the lock held.
func (x *deskDevice) ignore(reason, text string) {
	x.refused[reason]++
	if x.refused[reason] == 1 {
		x.desk.news.Put(DeviceNews{Device: x.index, Kind: DeviceIgnored, Text: reason + ": " + strings.TrimPrefix(text, "bus: ")})
	}
}

// answer replies to a device's request. A device chooses where it hears: on
// inboxes alone, or the answer could be a message of somebody else's.
func (x *deskDevice) answer(m *nats.Msg, v Verdict, reason string, w *Welcome) {
	if !strings.HasPrefix(m.Reply, "_INBOX") && !strings.HasPrefix(m.Reply, "_R_") {
		return
	}
	b, err := Marshal(nil, &DeviceReply{Verdict: v, Reason: ValidText(reason[:min(len(reason), maxText)]), Welcome: w})
	if err == nil {
		_ = x.desk.conn.NATS().Publish(m.Reply, b) // a device asks again
	}
}

func (x *deskDevice) onJoin(m *nats.Msg) {
	if !x.spend() {
		return
	}
	j := new(Join)
	err := Unmarshal(m.Data, j)
	x.mu.Lock()
	if err != nil {
		x.ignore(ReasonMalformed, err.Error())
		x.mu.Unlock()
		x.answer(m, Refused, err.Error(), nil)
		return
	}
	fresh := !x.joined
	x.joined = true
	x.mu.Unlock()
	x.hear()
	if fresh {
		x.desk.news.Put(DeviceNews{Device: x.index, Kind: DeviceJoined, Join: j})
	}
	x.answer(m, Accepted, "", x.welcome)
}

func (x *deskDevice) onHeartbeat(m *nats.Msg) {
	if !x.spend() {
		return
	}
	if err := Unmarshal(m.Data, new(Heartbeat)); err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ignore(ReasonMalformed, err.Error())
		return
	}
	x.hear()
	x.beats.Add(1)
}

func (x *deskDevice) onUpdate(m *nats.Msg) {
	p := new(Update)
	err := Unmarshal(m.Data, p)
	if err == nil && m.Subject != deviceSubject(x.desk.run, x.id, updateVerb(p.Chunk)) {
		err = fmt.Errorf("bus: update: chunk %d on %q", p.Chunk, m.Subject)
	}
	x.mu.Lock()
	asked := err == nil && !x.flooded && x.task != 0 && p.Task == x.task && !x.done && p.Chunk == x.next && (x.next == 0 || p.Chunks == x.chunks)
	x.mu.Unlock()
	if !asked && !x.spend() {
		return
	}
	x.mu.Lock()
	v, reason, news := x.take(p, err)
	x.mu.Unlock()
	if news.Update != nil {
		x.desk.news.Put(news)
	}
	x.answer(m, v, reason, nil)
}

// take takes one message of an update; the news has an update when the task has
// its answer. With the lock held.
func (x *deskDevice) take(p *Update, fault error) (v Verdict, reason string, news DeviceNews) {
	ignore := func(why, text string) (Verdict, string, DeviceNews) {
		x.ignore(why, text)
		return Refused, text, news
	}
	// refuse ends the task.
	refuse := func(why, text string) (Verdict, string, DeviceNews) {
		x.ignore(why, text)
		x.done, x.reason, x.values = true, text, nil
		u := &Update{Task: p.Task}
		if fault == nil && p.Last() {
			u = p
		}
		return Refused, text, DeviceNews{Device: x.index, Kind: DeviceRefused, Update: &DeviceUpdate{Update: u, Device: x.index}, Text: strings.TrimPrefix(text, "bus: ")}
	}
	switch {
	case x.flooded:
		return Refused, "the device is heard no more", news
	case fault != nil && (p.Task == 0 || p.Task != x.task || x.done):
		return ignore(ReasonMalformed, fault.Error())
	case x.task == 0 || p.Task != x.task:
		return ignore(ReasonStale, fmt.Sprintf("bus: update: task %d is not open", p.Task))
	case x.done && x.reason != "":
		return ignore(ReasonStale, x.reason)
	case x.done:
		return Repeated, "", news
	case fault != nil:
		return refuse(ReasonInvalid, fault.Error())
	}
	x.hear()
	params := int(x.welcome.Params)
	if p.Last() {
		if x.next == 0 || x.next != p.Chunks || x.chunks != p.Chunks {
			return SendValues, fmt.Sprintf("%d of %d chunks are here", x.next, p.Chunks), news
		}
		if len(x.values) != params {
			return refuse(ReasonShape, fmt.Sprintf("bus: update: %d values, the model has %d", len(x.values), params))
		}
		u := &DeviceUpdate{Update: p, Device: x.index, Values: x.values}
		if f := x.desk.config.Check; f != nil {
			if err := f(u); err != nil {
				return refuse(ReasonInvalid, err.Error())
			}
		}
		x.done, x.values = true, nil
		return Accepted, "", DeviceNews{Device: x.index, Kind: DeviceUpdated, Update: u}
	}
	switch {
	case p.Chunk == 0: // also when a device begins again
		if cap(x.values) < params {
			x.values = make([]float32, 0, params)
		}
		x.next, x.chunks, x.values = 0, p.Chunks, x.values[:0]
	case p.Chunk == x.next-1 && p.Chunks == x.chunks:
		return Continue, "", news // repeated
	case p.Chunk != x.next || p.Chunks != x.chunks:
		x.ignore(ReasonOrder, fmt.Sprintf("bus: update: chunk %d of %d, want %d of %d", p.Chunk, p.Chunks, x.next, x.chunks))
		return SendValues, "chunks go one after the other, from 0", news
	}
	if len(x.values)+len(p.Values)/4 > params {
		return refuse(ReasonShape, fmt.Sprintf("bus: update: over %d values, as many as the model has", params))
	}
	x.values = AppendFloats(x.values, p.Values)
	x.next++
	return Continue, "", news
}
