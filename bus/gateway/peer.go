package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// The reasons for which messages of devices are refused.
const (
	ReasonMalformed = "malformed" // no message of the protocol
	ReasonOld       = "old"       // the device does not know the protocol that the run needs
	ReasonUnfit     = "unfit"     // the device does not fit the run
	ReasonStale     = "stale"     // the task is not open
	ReasonOrder     = "order"     // a chunk out of order
	ReasonShape     = "shape"     // not as many values as the model has
	ReasonInvalid   = "invalid"   // values or durations that cannot count
	ReasonFlood     = "flood"     // more than a device may send
	ReasonTwin      = "twin"      // another process has the device's place
	ReasonSamples   = "samples"   // more than the device's credentials let it have
)

// What a device may send beyond the chunks that it is asked for: each message
// takes one of the budget, which fills again with time.
const (
	deviceBudget = 512
	deviceRefill = 50 // a second

	devicePendingMessages = 1 << 10
	devicePendingBytes    = 8 << 20

	// A message takes one more for each so many bytes of it.
	deviceBudgetBytes = 16 << 10
)

// peer is one device, as the gateway knows it. Its handlers hold the lock.
type peer struct {
	gateway *Gateway
	index   int
	id      string
	welcome *bus.Welcome

	mu       sync.Mutex
	subs     []bus.Subscription
	heard    time.Time // zero: never
	beats    int64     // heartbeats
	join     *bus.Join // the last that let it in; nil: none did
	log      []string  // newest lines
	joined   bool
	departed bool // by itself
	flooded  bool
	refused  map[string]int // messages by reason
	budget   *rate.Limiter

	taken      bool   // the place is process's
	process    uint64 // 0: it does not say its number
	rival      *rival // waits for the place; nil: none does
	maxSamples uint64 // samples by the credentials; 0: any number
	turn       int    // subscriptions so far

	// The open task and what has come of its update.
	task         uint64 // 0: none
	reportedTask uint64 // the task that the device works on, as it last said
	taskReported bool   // it has said that the open task is there
	digest       []byte // the task's
	params       int    // values of its update
	decided      bool   // accepted or refused
	reason       string // why it was refused
	chunks       uint32
	next         uint32 // chunk
	values       []float32
	packed       []byte // what stands for them in a run that compresses
}

// packs reports whether updates come packed.
func (x *peer) packs() bool { return x.welcome.GetSpec().GetCompression() != "" }

// checkComplete returns an error unless all values of an update are there, once its chunks are.
func (x *peer) checkComplete() (err error) {
	if x.packs() {
		x.values, err = vector.Unpack(x.packed, x.params)
	} else if len(x.values) != x.params {
		err = fmt.Errorf("%d values, want %d", len(x.values), x.params)
	}
	return err
}

// subscribe hears the device, with a full budget.
func (x *peer) subscribe() error {
	x.budget = rate.NewLimiter(deviceRefill, deviceBudget)
	x.turn++
	turn := x.turn
	backlog := &bus.Backlog{Messages: devicePendingMessages, Bytes: devicePendingBytes, Dropped: func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.turn == turn { // else the device has been let in again since
			x.flood("messages were dropped since too many were waiting")
		}
	}}
	for verb, f := range map[string]func(*bus.RawMessage){
		subject.Join:          x.onJoin,
		subject.Join + ".*":   x.onJoin,
		subject.Heartbeat:     x.onHeartbeat,
		subject.Update + ".*": x.onUpdate,
	} {
		s, err := x.gateway.conn.Subscribe(subject.Device(x.gateway.run, x.id, verb), backlog, func(m *bus.RawMessage) {
			x.mu.Lock()
			defer x.mu.Unlock()
			f(m)
		})
		if err != nil {
			return fmt.Errorf("bus: subscribe for device %s: %w", x.id, err)
		}
		x.subs = append(x.subs, s)
	}
	return nil
}

// unsubscribe ends the subscriptions. A drop of before may still be told, on a
// goroutine of its own.
func (x *peer) unsubscribe() {
	for _, s := range x.subs {
		_ = s.Unsubscribe() // fails only on a closed connection, which has none
	}
	x.subs = nil
}

// expect opens a task; one that is open stays as it is.
func (x *peer) expect(t *bus.Task, params int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.task != t.Task {
		x.params = params
		x.task = t.Task
		x.digest = t.Digest
		x.decided = false
		x.reason = ""
		x.next = 0
		x.values = nil
		x.packed = nil
		x.taskReported = false
	}
}

// opened reports whether the open task is the one that a message is of. Another
// coordinator of the run may have given its number to another task.
func (x *peer) opened(p *bus.Update) bool {
	return x.task != 0 &&
		p.Task == x.task &&
		(len(p.TaskDigest) == 0 || bytes.Equal(p.TaskDigest, x.digest))
}

// leave ends the device's part in the run until it joins again, which any process may.
func (x *peer) leave() {
	x.dismiss()
	x.joined = false
	x.taken = false
	x.task = 0
	x.values = nil
	x.packed = nil
}

// spend takes a message of so many bytes off the device's budget and says whether the
// message may be read.
func (x *peer) spend(bytes int) bool {
	if x.flooded {
		return false
	}
	if x.budget.AllowN(time.Now(), 1+bytes/deviceBudgetBytes) {
		return true
	}
	x.flood(fmt.Sprintf("over %d messages that nobody asked for, of which large ones count for several", deviceBudget))
	return false
}

// flood ends the device's part in the run for good.
func (x *peer) flood(reason string) {
	if x.flooded {
		return
	}
	x.leave()
	x.flooded = true
	x.refused[ReasonFlood]++
	x.unsubscribe()
	x.gateway.events.Put(Event{Device: x.index, Kind: Flooded, Text: reason})
}

// ignore counts a message that does not count, and tells of the first for each
// reason.
func (x *peer) ignore(reason, text string) {
	x.refused[reason]++
	if x.refused[reason] == 1 {
		x.gateway.events.Put(Event{
			Device: x.index,
			Kind:   Ignored,
			Text:   reason + ": " + strings.TrimPrefix(text, "bus: "),
		})
	}
}

// answer replies to a device's request. A device chooses where it hears: on
// inboxes alone, or the answer could be a message of somebody else's.
func (x *peer) answer(m *bus.RawMessage, v bus.Status, reason string, w *bus.Welcome) {
	if !strings.HasPrefix(m.Reply, "_INBOX") && !strings.HasPrefix(m.Reply, "_R_") {
		return
	}
	b, err := bus.Marshal(
		nil,
		&bus.DeviceReply{Status: v, Reason: bus.ValidText(reason[:min(len(reason), bus.MaxText)]), Welcome: w},
	)
	if err == nil {
		_ = x.gateway.conn.Publish(m.Reply, b) // a device asks again
	}
}

func (x *peer) onJoin(m *bus.RawMessage) {
	if !x.spend(len(m.Data)) {
		return
	}
	j := new(bus.Join)
	reason := ReasonMalformed
	err := bus.Unmarshal(m.Data, j)
	if required := x.gateway.config.Protocol; err == nil && j.Protocol < required {
		feature := "algorithm"
		switch {
		case required >= bus.ProtocolState:
			feature = "compression, or what its clients keep"
		case required >= bus.ProtocolFrozen:
			feature = "frozen parameters"
		case required >= bus.ProtocolNoise:
			feature = "local noise"
		case required >= bus.ProtocolSchema:
			feature = "data"
		case j.Protocol >= bus.ProtocolAlgorithm:
			feature = "local steps"
		}
		reason = ReasonOld
		err = bus.Fault(
			"join",
			"protocol",
			j.Protocol,
			fmt.Sprintf("at least %d for the run's %s: update the device", required, feature),
		)
	}
	if f := x.gateway.config.Admit; f != nil && err == nil {
		reason = ReasonUnfit
		err = f(j)
	}
	if limit, limited := subject.JoinLimit(m.Subject); limited ||
		m.Subject == subject.Device(x.gateway.run, x.id, subject.Join) {
		x.maxSamples = limit
	} else if err == nil {
		err = fmt.Errorf("bus: join: %q has no number of samples", m.Subject)
	}
	if err != nil {
		x.ignore(reason, err.Error())
		x.answer(m, bus.Refused, err.Error(), nil)
		return
	}
	x.limit(j)
	if j.Asks {
		x.answer(m, bus.Accepted, "", x.welcome)
		return
	}
	if !x.speaks(j.Process) {
		x.contend(j, m)
		return
	}
	x.admit(j, m)
}

// admit lets the device take part.
func (x *peer) admit(j *bus.Join, m *bus.RawMessage) {
	x.heard = time.Now()
	switch {
	case !x.joined:
		x.joined = true
		x.gateway.events.Put(Event{Device: x.index, Kind: Joined, Join: j})
	case !x.works() || j.Process == 0: // without its process's number it may be another
		x.gateway.events.Put(Event{Device: x.index, Kind: Rejoined, Join: j})
	}
	x.join = j
	x.departed = false
	x.answer(m, bus.Accepted, "", x.welcome)
}

// works reports whether the device has said that it works on its open task. It is not sent that
// again: on a slow link a repeat would have it begin its message anew.
func (x *peer) works() bool { return x.task != 0 && x.reportedTask == x.task }

// limit holds a device to the samples that its credentials let it have.
func (x *peer) limit(j *bus.Join) {
	if x.maxSamples > 0 && j.Samples > x.maxSamples {
		x.ignore(
			ReasonSamples,
			fmt.Sprintf(
				"it has %d samples, and its credentials let it have %d: it counts with these",
				j.Samples,
				x.maxSamples,
			),
		)
		j.Samples = x.maxSamples
	}
}

func (x *peer) onHeartbeat(m *bus.RawMessage) {
	expected := x.task != 0 &&
		!x.taskReported &&
		!x.flooded &&
		len(m.Data) < deviceBudgetBytes // by the task, which it says is there
	x.taskReported = true
	if !expected && !x.spend(len(m.Data)) {
		return
	}
	h := new(bus.Heartbeat)
	if err := bus.Unmarshal(m.Data, h); err != nil {
		x.ignore(ReasonMalformed, err.Error())
		return
	}
	if !x.speaks(h.Process) {
		x.ignore(ReasonTwin, "a heartbeat of another process")
		return
	}
	x.heard = time.Now()
	x.reportedTask = h.Task
	x.beats++
	x.log = appendLog(x.log, h.Log...)
	if h.Leaves != "" && x.joined {
		x.leave()
		x.departed = true
		x.gateway.events.Put(Event{Device: x.index, Kind: Departed, Text: h.Leaves})
	}
}

func (x *peer) onUpdate(m *bus.RawMessage) {
	p := new(bus.Update)
	err := bus.Unmarshal(m.Data, p)
	if err == nil && m.Subject != subject.Device(x.gateway.run, x.id, subject.Chunk(p.Chunk)) {
		err = fmt.Errorf("bus: update: chunk %d on %q", p.Chunk, m.Subject)
	}
	expected := err == nil &&
		!x.flooded &&
		x.opened(p) &&
		!x.decided &&
		p.Chunk == x.next &&
		(x.next == 0 || p.Chunks == x.chunks)
	if !expected && !x.spend(len(m.Data)) {
		return
	}
	if x.taken && p.Process != x.process { // whatever else is wrong with it
		x.refuseTwin(m)
		return
	}
	if err == nil {
		x.speaks(p.Process)
	}
	v, reason := x.receive(p, err)
	x.answer(m, v, reason, nil)
}

// receive takes one message of an update and returns the answer. The message that
// decides the task is an event.
func (x *peer) receive(p *bus.Update, fault error) (v bus.Status, reason string) {
	arrived := time.Now()
	ignore := func(kind, text string) (bus.Status, string) {
		x.ignore(kind, text)
		return bus.Refused, text
	}
	decide := func(kind EventKind, u *bus.DeviceUpdate, text string) {
		x.decided = true
		x.reason = text
		x.values = nil
		x.packed = nil
		x.gateway.events.Put(Event{
			Device:  x.index,
			Kind:    kind,
			Update:  u,
			Text:    strings.TrimPrefix(text, "bus: "),
			Arrived: arrived,
		})
	}
	refuse := func(kind, text string) (bus.Status, string) {
		u := &bus.Update{Task: p.Task}
		if fault == nil && p.Last() {
			u = p
		}
		decide(Refused, &bus.DeviceUpdate{Update: u}, text)
		return ignore(kind, text)
	}
	switch {
	case x.flooded:
		return bus.Refused, "the device is heard no more"
	case fault != nil && (!x.opened(p) || x.decided):
		return ignore(ReasonMalformed, fault.Error())
	case x.task != 0 && p.Task == x.task && !x.opened(p):
		return ignore(ReasonStale, fmt.Sprintf("bus: update: the open task %d has another digest", p.Task))
	case !x.opened(p):
		return ignore(ReasonStale, fmt.Sprintf("bus: update: task %d is not open", p.Task))
	case x.decided && x.reason != "":
		return ignore(ReasonStale, x.reason)
	case x.decided:
		return bus.Repeated, ""
	case fault != nil:
		return refuse(ReasonInvalid, fault.Error())
	}
	x.heard = time.Now()
	x.reportedTask = p.Task
	params := x.params
	switch {
	case p.Last() &&
		(x.next == 0 || x.next != p.Chunks || x.chunks != p.Chunks):
		return bus.SendValues, fmt.Sprintf("%d of %d chunks are here", x.next, p.Chunks)
	case p.Last():
		if err := x.checkComplete(); err != nil {
			return refuse(ReasonShape, fmt.Sprintf("bus: update: %v", err))
		}
		if x.maxSamples > 0 {
			p.Samples = min(p.Samples, x.maxSamples)
		}
		u := &bus.DeviceUpdate{Update: p, Values: x.values}
		if f := x.gateway.config.Check; f != nil {
			if err := f(u); err != nil {
				return refuse(ReasonInvalid, err.Error())
			}
		}
		decide(Updated, u, "")
		return bus.Accepted, ""
	case p.Chunk == 0: // also when a device begins again
		if cap(x.values) < params && !x.packs() {
			x.values = make([]float32, 0, params)
		}
		x.next = 0
		x.chunks = p.Chunks
		x.values = x.values[:0]
		x.packed = x.packed[:0]
	case p.Chunk == x.next-1 && p.Chunks == x.chunks:
		return bus.Continue, "" // repeated
	case p.Chunk != x.next || p.Chunks != x.chunks:
		x.ignore(
			ReasonOrder,
			fmt.Sprintf("bus: update: chunk %d of %d, want %d of %d", p.Chunk, p.Chunks, x.next, x.chunks),
		)
		return bus.SendValues, "chunks go one after the other, from 0"
	}
	switch {
	case x.packs() != (len(p.Packed) > 0):
		return refuse(
			ReasonShape,
			"bus: update: its values are packed where the run compresses updates, and only there",
		)
	case len(x.values)+len(p.Values)/4 > params, len(x.packed)+len(p.Packed) > vector.MostPacked(params):
		return refuse(ReasonShape, fmt.Sprintf("bus: update: over %d values, want so many", params))
	}
	x.values = vector.Append(x.values, p.Values)
	x.packed = append(x.packed, p.Packed...)
	x.next++
	return bus.Continue, ""
}
