package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/internal/mailbox"
	"fedpace/internal/names"
)

// Config is what a run's gateway for real devices needs.
type Config struct {
	// Devices are the ids of the devices. A device's index in this list is its number in events.
	Devices []string
	// First is the client number of the first device, see Welcome.Client.
	First int
	// Welcome is the answer to each device that joins. The gateway fills in its Client.
	Welcome *bus.Welcome
	// Check returns why a complete update of the right task and shape cannot count,
	// nil if it can. It is called on one goroutine for each device.
	Check func(*bus.DeviceUpdate) error
	// Admit returns why a device that joins cannot take part, nil if it can. It is called
	// as Check is.
	Admit func(*bus.Join) error
	// Params returns how many values a task's update has. If it is nil, an update has those of the
	// welcome's model and of the device's state.
	Params func(*bus.Task) int
	// Protocol is the lowest version of the protocol that devices must speak.
	Protocol uint32
	// Calls is the pause between two calls to devices that have not joined, 0 for
	// one second.
	Calls time.Duration
	// Secure says that devices mask their updates: their messages in the stages become events, and an
	// update is taken only after OpenUpload.
	Secure bool
	// Yield is how long the process that has a device's place may take to answer a call
	// before another process gets the place, 0 for three seconds.
	Yield time.Duration
	// Fence returns the fencing token of the run's coordinator, which devices get with each message. If
	// it is nil, there is none.
	Fence func() uint64
}

// EventKind says what has happened to a device.
type EventKind uint8

// The kinds of event.
const (
	// Joined means that the device takes part from now on.
	Joined EventKind = iota
	// Updated means that the device's update for the open task has arrived and can count.
	Updated
	// Refused means that the device's update for the open task cannot count; Text has the reason.
	Refused
	// Flooded means that the device sent too much and is ignored from now on; Text has the reason.
	Flooded
	// Ignored means that a message was refused, the first for its reason; Text has the reason.
	Ignored
	// Reconnected means that the gateway's connection was lost and is back, so tasks may be lost.
	Reconnected
	// Rejoined means that the device was away and did not report its open task, which may be lost.
	Rejoined
	// Departed means that the device has announced that it leaves; Text has its reason.
	Departed
	// Secure means that the device has sent a message in a stage of secure aggregation of its open
	// task.
	Secure
)

// Event is what has happened to a device. Update is complete for Updated; for Refused it
// has no values, and durations of 0 where they are not known.
type Event struct {
	// Device is the index of the device in Config.Devices.
	Device int
	// Kind says what has happened and which of the fields below are set.
	Kind EventKind
	// Join is the device's message when it joined, for Joined.
	Join *bus.Join
	// Update is the device's update of the open task, for Updated and Refused.
	Update *bus.DeviceUpdate
	// Text is the reason, for people.
	Text string
	// Message is the message of a Secure event, and Reply answers it; it may be called once, later, from
	// any goroutine.
	Message *bus.SecureMessage
	Reply   func(*bus.DeviceReply)
	// Arrived is when the last message of an update arrived, by a clock that includes the monotonic
	// one.
	Arrived time.Time
}

const (
	// maxEvents is how many events may wait to be taken.
	maxEvents = 4 << 20
	// closeTimeout bounds how long Close waits until the server has the messages that inform devices of
	// the end of the run.
	closeTimeout = 5 * time.Second
)

// Gateway is the coordinator's end for real devices: it calls devices to join, sends them
// tasks and takes their updates. It uses a connection of its own, so that a flood
// from one device drops only that device's messages. Its methods may be called
// concurrently.
type Gateway struct {
	// run is the name of the run.
	run string
	// config is what Open was given, with its defaults filled in.
	config Config
	// conn is the gateway's own connection to the server.
	conn bus.Line
	// devices are the records of the devices, in the order of Config.Devices.
	devices []*peer
	// events holds what TakeEvents has not returned yet.
	events *mailbox.Mailbox[Event]

	// stop ends the goroutine that calls devices, and calls waits for it.
	stop  context.CancelFunc
	calls sync.WaitGroup
	// unwatch ends the watch for interruptions of the connection.
	unwatch func()
	// closed lets only the first Close do something.
	closed sync.Once
}

// Open subscribes to the messages of the run's devices and calls those devices repeatedly until they
// join. ctx bounds the opening. Close the gateway after use.
func Open(ctx context.Context, conn bus.Line, run string, c Config) (*Gateway, error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	if len(c.Devices) == 0 || len(c.Devices) > bus.MaxDevices {
		return nil, fmt.Errorf("bus: a gateway for %d devices, want 1 to %d", len(c.Devices), bus.MaxDevices)
	}
	// Times of 0 get their defaults.
	c.Calls = cmp.Or(c.Calls, time.Second)
	c.Yield = cmp.Or(c.Yield, yieldAfter)
	g := &Gateway{
		run:    run,
		config: c,
		conn:   conn,
		events: mailbox.New[Event](maxEvents),
		stop:   func() {},
	}
	// All records exist before the first message can arrive.
	for i := range c.Devices {
		p, err := g.newPeer(i)
		if err != nil {
			return nil, err
		}
		g.devices = append(g.devices, p)
	}
	// A failed connection ends TakeEvents; one that is back is an event.
	g.unwatch = conn.Watch(g.events.Fail, func(err error) {
		for i := range g.devices {
			g.withPeer(i, (*peer).restartTask)
		}
		g.events.Put(Event{Kind: Reconnected, Text: err.Error()})
	})
	for _, p := range g.devices {
		if err := p.subscribe(); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if err := conn.Settled(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	calling, stop := context.WithCancel(context.Background())
	g.stop = stop
	// The first call goes out at once, and the others at even intervals.
	g.calls.Go(func() {
		g.call()
		for range bus.Ticks(calling, g.config.Calls) {
			g.call()
		}
	})
	return g, nil
}

// newPeer makes the record of the device with this index in Config.Devices, which has not joined,
// and its welcome, which holds its client number. It fails if the id or the welcome is not valid.
func (g *Gateway) newPeer(index int) (*peer, error) {
	id := g.config.Devices[index]
	if err := names.CheckDevice(id); err != nil {
		return nil, err
	}
	w := proto.CloneOf(g.config.Welcome)
	w.Client = uint64(g.config.First + index)
	w.Echoes = true
	w.AnswersHeartbeats = true
	if err := w.Validate(); err != nil {
		return nil, err
	}
	return &peer{
		gateway: g,
		index:   index,
		id:      id,
		welcome: w,
		traffic: traffic{refused: map[string]int{}},
	}, nil
}

// Close sends the devices the end of the run and ends the gateway. Calls of TakeEvents return an error
// once the events that came before were taken. A second Close does nothing.
func (g *Gateway) Close() error {
	g.closed.Do(func() {
		g.stop()
		g.calls.Wait()
		g.unwatch()
		// The gateway stops listening to a device before it says that the run is over.
		for _, p := range g.devices {
			p.mu.Lock()
			p.unsubscribe()
			p.dismiss()
			p.mu.Unlock()
			// If the message is lost, the device only waits for a task that does not come.
			_ = g.publish(p, &bus.Task{Over: true})
		}
		settling, stop := context.WithTimeout(context.Background(), closeTimeout)
		defer stop()
		_ = g.conn.Settled(settling)
		g.events.Fail(fmt.Errorf("bus: run %s: the device gateway is closed", g.run))
	})
	return nil
}

// publish sends message t to the device p, on its task subject, with the coordinator's fencing token. t
// has no number: it is a call, an echo or the end of the run. The message may be lost without an error.
func (g *Gateway) publish(p *peer, t *bus.Task) error {
	t.Fence = g.fence()
	b, err := bus.Marshal(nil, t)
	if err == nil {
		err = g.conn.Publish(p.taskSubject(), b)
	}
	return err
}

// fence returns the coordinator's fencing token, noFence if it has none.
func (g *Gateway) fence() uint64 {
	if g.config.Fence == nil {
		return noFence
	}
	return g.config.Fence()
}

// call invites every device to join for which a call is due. It is called at even intervals, so that a lost call
// does not matter.
func (g *Gateway) call() {
	now := time.Now()
	for _, p := range g.devices {
		p.mu.Lock()
		isDue := p.isCallDue(now)
		p.mu.Unlock()
		if isDue {
			// If the call is lost, the next one follows soon.
			_ = g.publish(p, &bus.Task{Version: g.config.Welcome.Version})
		}
	}
}

// SendTask sends a task to a device and expects its update; an update for the task before is no
// longer expected. Sending the open task once more is harmless.
func (g *Gateway) SendTask(device int, t *bus.Task) error {
	if err := t.Validate(); err != nil {
		return err
	}
	// By its digest the task differs from one with the same number of an earlier coordinator.
	if err := t.Seal(); err != nil {
		return err
	}
	p := g.devices[device]
	// An update ends with the values that the device keeps from task to task.
	params := int(g.config.Welcome.Params + g.config.Welcome.Kept)
	if g.config.Params != nil {
		params = g.config.Params(t)
	}
	// The update may arrive as soon as the task is sent, so it is expected before.
	p.expect(t, params)
	if err := p.sendTask(t); err != nil {
		return fmt.Errorf("bus: task %d to device %s: %w", t.Task, p.id, err)
	}
	return nil
}

// sendTask sends the open task t to the device. A device that does not heed fencing tokens compares all fields with
// those of the task before, so it gets no token, which would change when the run is resumed.
func (p *peer) sendTask(t *bus.Task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.join.GetHeedsFences() {
		t.Fence = p.gateway.fence()
	}
	b, err := bus.Marshal(nil, t)
	if err != nil {
		return err
	}
	p.message = b
	p.sendCount++
	return p.gateway.conn.Publish(p.taskSubject(), b)
}

// withPeer calls f with a device's record while its lock is held.
func (g *Gateway) withPeer(device int, f func(*peer)) {
	p := g.devices[device]
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// GiveUp treats a device as gone until it joins again.
func (g *Gateway) GiveUp(device int) { g.withPeer(device, (*peer).leave) }

// Ban ends a device's part in the run and ignores its messages until Readmit. device is its index
// in Config.Devices.
func (g *Gateway) Ban(device int) {
	g.withPeer(device, func(p *peer) {
		p.leave()
		p.banned = true
		p.unsubscribe()
	})
}

// Readmit listens again to a device that was banned, by Ban or because it had sent too much; the next call invites
// it. For any other device it does nothing. device is its index in Config.Devices.
func (g *Gateway) Readmit(device int) (err error) {
	g.withPeer(device, func(p *peer) {
		if p.banned {
			p.banned = false
			err = p.subscribe()
		}
	})
	return err
}

// DropTask expects no update for a device's open task any more. The device still takes part and may
// get another task.
func (g *Gateway) DropTask(device int) {
	g.withPeer(device, func(p *peer) {
		p.task = noTask
		p.values = nil
	})
}

// OpenUpload lets a device send its masked update for its open task. Chunks that have arrived before do
// not count.
func (g *Gateway) OpenUpload(device int) {
	g.withPeer(device, func(p *peer) {
		p.takesMaskedUpdate = true
		p.nextChunk = 0
	})
}

// MaxSamples returns the largest number of samples that a device's credentials allow, 0 for any number.
func (g *Gateway) MaxSamples(device int) (n uint64) {
	g.withPeer(device, func(p *peer) { n = p.maxSamples })
	return n
}

// LastHeard returns when the last valid message of a device arrived, the zero time if none did.
func (g *Gateway) LastHeard(device int) (heard time.Time) {
	g.withPeer(device, func(p *peer) { heard = p.lastHeard })
	return heard
}

// WorksOnTask reports whether a device has shown, by a heartbeat or a part of its update, that it
// works on its open task.
func (g *Gateway) WorksOnTask(device int) (yes bool) {
	g.withPeer(device, func(p *peer) { yes = p.worksOnTask() })
	return yes
}

// TakeEvents waits until there are events and returns all of them; those of one device are in the
// order of arrival. It returns an error when ctx ends, when the connection fails and when the gateway
// is closed. buf is the last result, whose memory a later result uses.
func (g *Gateway) TakeEvents(ctx context.Context, buf []Event) ([]Event, error) {
	return g.events.Take(ctx, buf)
}

// Stats are figures of a gateway over all its devices.
type Stats struct {
	// Present counts the devices that have joined and are not given up.
	Present int
	// Silent counts the devices that were given up although they neither announced that they leave
	// nor are banned.
	Silent int
	// Heartbeats counts the heartbeats received.
	Heartbeats int64
	// Refused counts the messages that did not count.
	Refused int64
	// Oldest is the earliest LastHeard of the present devices, the zero time if none is present.
	Oldest time.Time
	// Each describes every device, in the order of Config.Devices.
	Each []Seen
}

// Seen is what is known of one device, mostly from its join.
type Seen struct {
	// Name is the id of the device.
	Name string `json:"name"`
	// State is present, gone, banned, or not joined.
	State string `json:"state"`
	// Heard is when the device's last message arrived, the zero time for never.
	Heard time.Time `json:"heard,omitzero"`
	// Version is the version of the device's program.
	Version string `json:"version"`
	// Kernel is the name of the kernel with which it computes.
	Kernel string `json:"kernel"`
	// Samples is the number of training samples by its last accepted update, or else by its join; 0 if
	// neither gave it.
	Samples uint64 `json:"samples"`
	// Log holds the newest lines of the device's log.
	Log []string `json:"log"`
}

// status returns what is known of the device, for people and metrics. The fields from its join are
// empty until it has joined. The caller holds the lock.
func (p *peer) status() Seen {
	s := Seen{
		Name:    p.id,
		State:   "not joined",
		Heard:   p.lastHeard,
		Version: p.join.GetVersion(),
		Kernel:  p.join.GetKernel(),
		Samples: cmp.Or(p.samples, p.join.GetSamples()),
		Log:     slices.Clone(p.log),
	}
	switch {
	case p.joined:
		s.State = "present"
	case p.banned:
		s.State = "banned"
	// The device took part before, and has left or was given up.
	case p.join != nil:
		s.State = "gone"
	}
	return s
}

// Stats sums up what is known of all devices. It may be called at any time, also after Close; it
// locks one device after the other, so the sums are of slightly different moments.
func (g *Gateway) Stats() (stats Stats) {
	for _, p := range g.devices {
		p.mu.Lock()
		stats.Heartbeats += p.heartbeats
		stats.Each = append(stats.Each, p.status())
		for _, n := range p.refused {
			stats.Refused += int64(n)
		}
		switch {
		// Of the devices that take part, the one that was silent the longest decides stats.Oldest.
		case p.joined:
			stats.Present++
			if stats.Oldest.IsZero() || p.lastHeard.Before(stats.Oldest) {
				stats.Oldest = p.lastHeard
			}
		// This device took part, and neither said that it leaves nor was banned for a flood of messages.
		case !p.lastHeard.IsZero() && !p.departed && !p.banned:
			stats.Silent++
		}
		p.mu.Unlock()
	}
	return stats
}
