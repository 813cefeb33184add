package gateway

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

	"fedpace/bus"
	"fedpace/bus/internal/mailbox"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsbus"
	"fedpace/internal/names"
	"fedpace/internal/vector"
)

// Config is what a run's gateway for real devices needs.
type Config struct {
	Devices []string     // ids; a device's index here is its number in events
	First   int          // client number of the first, see Welcome.Client
	Welcome *bus.Welcome // Client is filled in
	// Check says why a whole update of the right task and shape cannot count;
	// nil: it can. It is called on one goroutine for each device.
	Check func(*bus.DeviceUpdate) error
	// Calls is the pause between two calls to devices that have not joined; 0 is
	// one second.
	Calls time.Duration
}

// EventKind is what has happened to a device.
type EventKind uint8

// The kinds of event.
const (
	Joined      EventKind = iota // it is there
	Updated                      // its update for the open task is here and can count
	Refused                      // its update for the open task cannot count; Text says why
	Flooded                      // it sent so much that it is heard no more
	Ignored                      // a message of a kind that was not ignored before; Text says why
	Reconnected                  // the connection was away: tasks may be lost
)

// Event is what has happened to a device. Update is whole for Updated, and
// without values for Refused, whose durations are 0 where they are not known.
type Event struct {
	Device int
	Kind   EventKind
	Join   *bus.Join // of DeviceJoined
	Update *bus.DeviceUpdate
	Text   string
}

// Gateway is the coordinator's end for real devices: it calls them, sends them
// tasks and takes their updates. It uses a connection of its own, so that a flood
// from one device drops only that device's messages.
//
// A device's messages are all checked: what cannot count is refused with a
// reason, counted by kind and told once. A device that sends far more than the
// protocol asks for is heard no more for the rest of the run.
type Gateway struct {
	run     string
	config  Config
	conn    *natsbus.Conn
	devices []*peer
	events  *mailbox.Mailbox[Event]

	opened  time.Time // the times of devices' last messages count from it, by the monotonic clock
	stop    context.CancelFunc
	calls   sync.WaitGroup
	unwatch func()
	closed  sync.Once
}

// Open subscribes for the run's devices, and calls them from now on.
func Open(ctx context.Context, conn *natsbus.Conn, run string, c Config) (*Gateway, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if len(c.Devices) == 0 || len(c.Devices) > bus.MaxDevices {
		return nil, fmt.Errorf("bus: a gateway for %d devices, want 1 to %d", len(c.Devices), bus.MaxDevices)
	}
	if c.Calls == 0 {
		c.Calls = time.Second
	}
	g := &Gateway{run: run, config: c, conn: conn, events: mailbox.New[Event](natsbus.PendingMessages), opened: time.Now()}
	for i, id := range c.Devices {
		if err := names.CheckDevice(id); err != nil {
			return nil, err
		}
		w := proto.CloneOf(c.Welcome)
		w.Client = uint64(c.First + i)
		if err := w.Validate(); err != nil {
			return nil, err
		}
		g.devices = append(g.devices, &peer{gateway: g, index: i, id: id, welcome: w, refused: map[string]int{}, budget: deviceBudget})
	}
	g.unwatch = conn.Watch(g.failed, g.interrupted)
	for _, x := range g.devices {
		if err := x.subscribe(); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if err := conn.Settled(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	calling, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.calls.Go(func() { g.call(calling) })
	return g, nil
}

// Close tells the devices that the run is over and ends the subscriptions.
func (g *Gateway) Close() (err error) {
	g.closed.Do(func() {
		if g.stop != nil {
			g.stop()
			g.calls.Wait()
		}
		g.unwatch()
		over, e := bus.Marshal(nil, &bus.Task{Over: true})
		err = e
		for _, x := range g.devices {
			x.unsubscribe()
			if e == nil {
				_ = g.conn.NATS().Publish(subject.Device(g.run, x.id, subject.Task), over) // a lost connection has told them, too
			}
		}
		_ = g.conn.NATS().FlushTimeout(natsbus.RequestTimeout)
		g.events.Fail(fmt.Errorf("bus: run %s: the device gateway is closed", g.run))
	})
	return err
}

func (g *Gateway) failed(err error)      { g.events.Fail(err) }
func (g *Gateway) interrupted(err error) { g.events.Put(Event{Kind: Reconnected, Text: err.Error()}) }

// call calls those who have not joined, until ctx ends.
func (g *Gateway) call(ctx context.Context) {
	var message []byte // a task without a number
	tick := time.NewTicker(g.config.Calls)
	defer tick.Stop()
	for {
		for _, x := range g.devices {
			if x.absent() {
				_ = g.conn.NATS().Publish(subject.Device(g.run, x.id, subject.Task), message) // the next call is soon
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
func (g *Gateway) SendTask(device int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	b, err := bus.Marshal(nil, t)
	if err != nil {
		return err
	}
	g.devices[device].expect(t.Task)
	if err := g.conn.NATS().Publish(subject.Device(g.run, g.devices[device].id, subject.Task), b); err != nil {
		return fmt.Errorf("bus: task %d to device %s: %w", t.Task, g.devices[device].id, err)
	}
	return nil
}

// Lost gives a device up until it joins again.
func (g *Gateway) Lost(device int) { g.devices[device].lost() }

// Heard is when a device was last heard of; the zero time: never.
func (g *Gateway) Heard(device int) time.Time {
	return g.devices[device].lastHeard()
}

// TakeEvents waits until there are events and returns all of them, by device in
// the order of arrival. It returns the connection's failure with its cause. The
// result uses another buffer than buf, which is kept for the next.
func (g *Gateway) TakeEvents(ctx context.Context, buf []Event) ([]Event, error) {
	return g.events.Take(ctx, buf)
}

// Refused counts the messages of a device that did not count, by reason.
func (g *Gateway) Refused(device int) map[string]int {
	x := g.devices[device]
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

// peer is one device, as the gateway knows it.
type peer struct {
	gateway *Gateway
	index   int
	id      string
	welcome *bus.Welcome
	heard   atomic.Int64 // nanoseconds since the gateway was opened; 0: never
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

func (x *peer) subscribe() error {
	for verb, f := range map[string]func(*nats.Msg){
		subject.Join: x.onJoin, subject.Heartbeat: x.onHeartbeat, subject.Update + ".*": x.onUpdate,
	} {
		s, err := x.gateway.conn.NATS().Subscribe(subject.Device(x.gateway.run, x.id, verb), f)
		if err == nil {
			x.gateway.conn.Tolerate(s, func() { x.flood("messages were dropped since too many were waiting") })
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
func (x *peer) unsubscribe() {
	x.mu.Lock()
	subs := x.subs
	x.subs = nil
	x.mu.Unlock()
	for _, s := range subs {
		_ = s.Unsubscribe() // fails only on a closed connection, which has none
	}
}

func (x *peer) hear() { x.heard.Store(max(1, int64(time.Since(x.gateway.opened)))) }

func (x *peer) lastHeard() time.Time {
	if ns := x.heard.Load(); ns != 0 {
		return x.gateway.opened.Add(time.Duration(ns))
	}
	return time.Time{}
}

func (x *peer) absent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.joined && !x.flooded
}

func (x *peer) expect(task uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.task != task {
		x.task, x.done, x.reason, x.next, x.values = task, false, "", 0, nil
	}
}

func (x *peer) lost() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.joined, x.task, x.values = false, 0, nil
}

// spend takes a message off the device's budget. It must be called without the
// lock and says whether the message may be read.
func (x *peer) spend() bool {
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
func (x *peer) flood(why string) {
	x.mu.Lock()
	if x.flooded {
		x.mu.Unlock()
		return
	}
	x.flooded, x.joined, x.task, x.values = true, false, 0, nil
	x.refused[ReasonFlood]++
	x.mu.Unlock()
	x.unsubscribe()
	x.gateway.events.Put(Event{Device: x.index, Kind: Flooded, Text: why})
}

// ignore counts a message that does not count, and tells of the first for each
// reason. With the lock held.
func (x *peer) ignore(reason, text string) {
	x.refused[reason]++
	if x.refused[reason] == 1 {
		x.gateway.events.Put(Event{Device: x.index, Kind: Ignored, Text: reason + ": " + strings.TrimPrefix(text, "bus: ")})
	}
}

// answer replies to a device's request. A device chooses where it hears: on
// inboxes alone, or the answer could be a message of somebody else's.
func (x *peer) answer(m *nats.Msg, v bus.Verdict, reason string, w *bus.Welcome) {
	if !strings.HasPrefix(m.Reply, "_INBOX") && !strings.HasPrefix(m.Reply, "_R_") {
		return
	}
	b, err := bus.Marshal(nil, &bus.DeviceReply{Verdict: v, Reason: bus.ValidText(reason[:min(len(reason), bus.MaxText)]), Welcome: w})
	if err == nil {
		_ = x.gateway.conn.NATS().Publish(m.Reply, b) // a device asks again
	}
}

func (x *peer) onJoin(m *nats.Msg) {
	if !x.spend() {
		return
	}
	j := new(bus.Join)
	err := bus.Unmarshal(m.Data, j)
	x.mu.Lock()
	if err != nil {
		x.ignore(ReasonMalformed, err.Error())
		x.mu.Unlock()
		x.answer(m, bus.Refused, err.Error(), nil)
		return
	}
	fresh := !x.joined
	x.joined = true
	x.mu.Unlock()
	x.hear()
	if fresh {
		x.gateway.events.Put(Event{Device: x.index, Kind: Joined, Join: j})
	}
	x.answer(m, bus.Accepted, "", x.welcome)
}

func (x *peer) onHeartbeat(m *nats.Msg) {
	if !x.spend() {
		return
	}
	if err := bus.Unmarshal(m.Data, new(bus.Heartbeat)); err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ignore(ReasonMalformed, err.Error())
		return
	}
	x.hear()
	x.beats.Add(1)
}

func (x *peer) onUpdate(m *nats.Msg) {
	p := new(bus.Update)
	err := bus.Unmarshal(m.Data, p)
	if err == nil && m.Subject != subject.Device(x.gateway.run, x.id, subject.Chunk(p.Chunk)) {
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
		x.gateway.events.Put(news)
	}
	x.answer(m, v, reason, nil)
}

// take takes one message of an update; the news has an update when the task has
// its answer. With the lock held.
func (x *peer) take(p *bus.Update, fault error) (v bus.Verdict, reason string, news Event) {
	ignore := func(why, text string) (bus.Verdict, string, Event) {
		x.ignore(why, text)
		return bus.Refused, text, news
	}
	// refuse ends the task.
	refuse := func(why, text string) (bus.Verdict, string, Event) {
		x.ignore(why, text)
		x.done, x.reason, x.values = true, text, nil
		u := &bus.Update{Task: p.Task}
		if fault == nil && p.Last() {
			u = p
		}
		return bus.Refused, text, Event{Device: x.index, Kind: Refused, Update: &bus.DeviceUpdate{Update: u, Device: x.index}, Text: strings.TrimPrefix(text, "bus: ")}
	}
	switch {
	case x.flooded:
		return bus.Refused, "the device is heard no more", news
	case fault != nil && (p.Task == 0 || p.Task != x.task || x.done):
		return ignore(ReasonMalformed, fault.Error())
	case x.task == 0 || p.Task != x.task:
		return ignore(ReasonStale, fmt.Sprintf("bus: update: task %d is not open", p.Task))
	case x.done && x.reason != "":
		return ignore(ReasonStale, x.reason)
	case x.done:
		return bus.Repeated, "", news
	case fault != nil:
		return refuse(ReasonInvalid, fault.Error())
	}
	x.hear()
	params := int(x.welcome.Params)
	if p.Last() {
		if x.next == 0 || x.next != p.Chunks || x.chunks != p.Chunks {
			return bus.SendValues, fmt.Sprintf("%d of %d chunks are here", x.next, p.Chunks), news
		}
		if len(x.values) != params {
			return refuse(ReasonShape, fmt.Sprintf("bus: update: %d values, the model has %d", len(x.values), params))
		}
		u := &bus.DeviceUpdate{Update: p, Device: x.index, Values: x.values}
		if f := x.gateway.config.Check; f != nil {
			if err := f(u); err != nil {
				return refuse(ReasonInvalid, err.Error())
			}
		}
		x.done, x.values = true, nil
		return bus.Accepted, "", Event{Device: x.index, Kind: Updated, Update: u}
	}
	switch {
	case p.Chunk == 0: // also when a device begins again
		if cap(x.values) < params {
			x.values = make([]float32, 0, params)
		}
		x.next, x.chunks, x.values = 0, p.Chunks, x.values[:0]
	case p.Chunk == x.next-1 && p.Chunks == x.chunks:
		return bus.Continue, "", news // repeated
	case p.Chunk != x.next || p.Chunks != x.chunks:
		x.ignore(ReasonOrder, fmt.Sprintf("bus: update: chunk %d of %d, want %d of %d", p.Chunk, p.Chunks, x.next, x.chunks))
		return bus.SendValues, "chunks go one after the other, from 0", news
	}
	if len(x.values)+len(p.Values)/4 > params {
		return refuse(ReasonShape, fmt.Sprintf("bus: update: over %d values, as many as the model has", params))
	}
	x.values = vector.Append(x.values, p.Values)
	x.next++
	return bus.Continue, "", news
}
