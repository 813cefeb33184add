package gateway

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

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
