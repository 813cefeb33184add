package gateway

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
)

// stubLine is a line whose other end the test is.
type stubLine struct {
	bus.Line
	mu        sync.Mutex
	handlers  map[string]func(*bus.RawMessage)
	published chan *bus.RawMessage
	// moved gets the reasons of MoveOn.
	moved chan string
	// answer answers requests; nil leaves them without an answer.
	answer func(*bus.Request) error
}

func newStubLine() *stubLine {
	return &stubLine{
		handlers:  map[string]func(*bus.RawMessage){},
		published: make(chan *bus.RawMessage, 1<<10),
		moved:     make(chan string, 1),
	}
}

type stubSubscription struct{}

func (stubSubscription) Unsubscribe() error { return nil }

func (l *stubLine) Publish(subject string, data []byte) error {
	l.published <- &bus.RawMessage{Subject: subject, Data: data}
	return nil
}

func (l *stubLine) Subscribe(subject string, _ *bus.Backlog, f func(*bus.RawMessage)) (bus.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handlers[subject] = f
	return stubSubscription{}, nil
}

func (l *stubLine) Ask(ctx context.Context, r *bus.Request) error {
	if l.answer != nil {
		return l.answer(r)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (l *stubLine) MoveOn(reason string) bool {
	l.moved <- reason
	return true
}

func (l *stubLine) Settled(context.Context) error             { return nil }
func (l *stubLine) Watch(_, _ func(error)) (stop func())      { return func() {} }
func (l *stubLine) Life() context.Context                     { return context.Background() }
func (l *stubLine) Err() error                                { return nil }
func (l *stubLine) deliver(pattern string, m *bus.RawMessage) { l.handlers[pattern](m) }

// next returns the next message on a subject.
func (l *stubLine) next(t *testing.T, subject string) []byte {
	t.Helper()
	for {
		select {
		case m := <-l.published:
			if m.Subject == subject {
				return m.Data
			}
		case <-t.Context().Done():
			t.Fatalf("nothing comes on %s", subject)
		}
	}
}

// bench is a gateway with one device, pi, whose line the test is.
type bench struct {
	*testing.T
	line    *stubLine
	gateway *Gateway
	token   uint64
}

const inbox = "_INBOX_pi.x"

// newBench opens a gateway that does not call by itself, and joins pi.
func newBench(t *testing.T, heedsFences bool) *bench {
	t.Helper()
	b := &bench{T: t, line: newStubLine()}
	var err error
	b.gateway, err = Open(t.Context(), b.line, "r", Config{
		Devices: []string{"pi"},
		Calls:   time.Hour,
		Fence:   func() uint64 { return b.token },
		Welcome: &bus.Welcome{Clients: 1, Params: 1 << 18, HeartbeatSeconds: 60, Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.gateway.Close() })
	// The gateway calls at once, on a goroutine of its own. A test that waits for a task must not find the call.
	b.line.next(t, "fedpace.r.client.pi.task")
	b.join(heedsFences, inbox)
	b.want(Joined)
	return b
}

// message returns a message of the device with the subject, which wants an answer on reply.
func (b *bench) message(verb, reply string, m proto.Message) *bus.RawMessage {
	b.Helper()
	data, err := bus.Marshal(nil, m)
	if err != nil {
		b.Fatal(err)
	}
	return &bus.RawMessage{Subject: subject.Device("r", "pi", verb), Reply: reply, Data: data}
}

func (b *bench) join(heedsFences bool, reply string) {
	b.Helper()
	join := &bus.Join{Name: "pi", Process: 1, HeedsFences: heedsFences, ReportsEchoes: true}
	b.line.deliver("fedpace.r.client.pi.join", b.message(subject.Join, reply, join))
}

func (b *bench) beat(h *bus.Heartbeat) {
	b.Helper()
	h.Process = 1
	b.line.deliver("fedpace.r.client.pi.heartbeat", b.message(subject.Heartbeat, "", h))
}

// chunk delivers the first of two chunks of the update for a task.
func (b *bench) chunk(task *bus.Task, fence uint64) {
	b.Helper()
	part := &bus.Update{
		Task:       task.Task,
		TaskDigest: task.Digest,
		Process:    1,
		Chunks:     2,
		Values:     make([]byte, 8),
		Fence:      fence,
	}
	b.line.deliver("fedpace.r.client.pi.update.*", b.message(subject.Chunk(0), inbox, part))
}

// sent sends the device a task this often.
func (b *bench) sent(times int) *bus.Task {
	b.Helper()
	task := &bus.Task{Task: 1 << 52, Round: 1, LocalSteps: 1, LearningRate: 0.1}
	for range times {
		if err := b.gateway.SendTask(0, task); err != nil {
			b.Fatal(err)
		}
	}
	return task
}

// events returns what has happened without a wait.
func (b *bench) events() []Event {
	past, end := context.WithCancel(b.Context())
	end()
	events, _ := b.gateway.TakeEvents(past, nil)
	return events
}

// want waits for an event of a kind.
func (b *bench) want(kind EventKind) Event {
	b.Helper()
	for {
		events, err := b.gateway.TakeEvents(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == kind {
				return e
			}
		}
	}
}

// departs expects that the device has left for a reason that contains text, or that it has not if text is empty.
func (b *bench) departs(text string) {
	b.Helper()
	reason := ""
	for _, e := range b.events() {
		if e.Kind == Departed {
			reason = e.Text
		}
	}
	if (reason == "") != (text == "") || !strings.Contains(reason, text) {
		b.Errorf("the device leaves because %q, want %q", reason, text)
	}
	present := 1
	if text != "" {
		present = 0
	}
	if got := b.gateway.Stats().Present; got != present {
		b.Errorf("%d devices are present, want %d", got, present)
	}
}

// shift moves what the gateway remembers of the device into the past.
func (b *bench) shift(by time.Duration) {
	b.gateway.withPeer(0, func(x *peer) {
		x.lastAnswered.lastAnswer = x.lastAnswered.lastAnswer.Add(-by)
		x.firstSent = x.firstSent.Add(-by)
	})
}

// A device that repeats a chunk that was answered twice gets no answers: it leaves, and takes part again once it has
// let an answered join alone.
func TestReach_AnswersLost(t *testing.T) {
	b := newBench(t, true)
	task := b.sent(1)
	b.chunk(task, 0)
	b.chunk(task, 0)
	b.departs("")
	b.shift(answerTime)
	b.chunk(task, 0)
	b.departs("")
	b.shift(answerTime)
	b.chunk(task, 0)
	b.departs("it gets no answers")
	b.join(true, "")
	if got := b.gateway.Stats().Present; got != 0 {
		t.Error("a join without a reply subject shows that answers arrive")
	}
	defer func(before time.Duration) { trialTime = before }(trialTime)
	trialTime = time.Hour
	b.join(true, inbox)
	for len(b.line.published) > 0 {
		<-b.line.published
	}
	b.gateway.call()
	if len(b.line.published) > 0 {
		t.Error("a device on trial is called, and would join again")
	}
	trialTime = 0
	b.join(true, inbox)
	b.want(Joined)
}

// A device that was fast before gets its task again, which makes it repeat its message, or not.
func TestReach_RepeatIsAskedFor(t *testing.T) {
	defer func(before time.Duration) { progressTime = before }(progressTime)
	progressTime = time.Millisecond
	b := newBench(t, true)
	task := b.sent(1)
	b.gateway.withPeer(0, func(x *peer) { x.messageTime = time.Nanosecond })
	b.line.next(t, "fedpace.r.client.pi.task")
	b.chunk(task, 0)
	b.shift(answerTime)
	b.chunk(task, 0)
	var again bus.Task
	if err := decodeDeviceTask(b.line.next(t, "fedpace.r.client.pi.task"), &again); err != nil || !sameTask(&again, task) {
		t.Errorf("sent is %v, %v; want the open task", &again, err)
	}
}

// A device that is heard for ten seconds, and three messages with its task, without it has not got it.
func TestReach_TasksLost(t *testing.T) {
	idle := &bus.Heartbeat{}
	for name, c := range map[string]struct {
		heedsFences bool
		sends       int
		after       time.Duration
		beat        *bus.Heartbeat
		joins       bool
		want        string
	}{
		"idle":                {true, 3, taskTime, idle, false, "it gets no tasks"},
		"sent twice":          {true, 2, taskTime, idle, false, ""},
		"sent lately":         {true, 3, taskTime / 2, idle, false, ""},
		"arrived":             {true, 3, taskTime, &bus.Heartbeat{Arrived: 1 << 52}, false, ""},
		"at work":             {true, 3, taskTime, &bus.Heartbeat{Task: 1 << 52}, false, ""},
		"with another":        {true, 3, taskTime, &bus.Heartbeat{Task: 1<<52 + 1}, false, ""},
		"earlier version":     {false, 3, taskTime, idle, false, ""},
		"joins again":         {false, 3, taskTime, nil, true, "it gets no tasks"},
		"joins again at once": {false, 3, 0, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.heedsFences)
			b.sent(c.sends)
			b.shift(c.after)
			if c.beat != nil {
				b.beat(proto.CloneOf(c.beat))
			}
			if c.joins {
				b.join(c.heedsFences, inbox)
			}
			b.departs(c.want)
		})
	}
}

// task delivers a message on the task subject of pi in the run r.
func (l *stubLine) task(t *testing.T, task *bus.Task) {
	t.Helper()
	data, err := bus.Marshal(nil, task)
	if err != nil {
		t.Fatal(err)
	}
	l.deliver("fedpace.r.client.pi.task", &bus.RawMessage{Subject: "fedpace.r.client.pi.task", Data: data})
}

// A device whose message is larger than the server takes says so to its run, in a message that is smaller.
func TestDevice_MessageTooLarge(t *testing.T) {
	line := newStubLine()
	ctx, cancel := context.WithCancel(t.Context())
	line.answer = func(r *bus.Request) error {
		if r.Retry(bus.ErrTooLarge) {
			cancel()
		}
		return bus.ErrTooLarge
	}
	d, err := OpenDevice(t.Context(), line, DeviceConfig{ID: "pi", Run: "r", Join: &bus.Join{Name: "pi"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.mu.Lock()
	d.run = "r"
	d.welcome = &bus.Welcome{HeartbeatSeconds: 3600}
	d.mu.Unlock()
	_ = d.Send(ctx, "r", &bus.DeviceUpdate{Update: &bus.Update{Task: 1, Samples: 1}, Values: []float32{1}})
	h := new(bus.Heartbeat)
	// Heartbeats with the phase of the task may come before.
	for err == nil && h.Leaves == "" {
		err = bus.Unmarshal(line.next(t, "fedpace.r.client.pi.heartbeat"), h)
	}
	if err != nil || h.Leaves != bus.ErrTooLarge.Error() {
		t.Errorf("the run hears %v, %v", h, err)
	}
}

// A quick device that makes no progress after its repeat was answered is not reached, once it is heard. A silent one
// may have lost its connection, and a slow one needs longer for its next message.
func TestReach_StandsStill(t *testing.T) {
	defer func(before time.Duration) { stuckTime = before }(stuckTime)
	stuckTime = time.Millisecond
	for name, c := range map[string]struct {
		pace   time.Duration
		repeat time.Duration
		quick  bool
	}{
		"quick":                {time.Microsecond, promptTime, true},
		"unknown, soon":        {0, answerTime, true},
		"unknown, late":        {0, promptTime, false},
		"slow, though it asks": {time.Second, answerTime, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, true)
			task := b.sent(1)
			b.chunk(task, 0)
			b.gateway.withPeer(0, func(x *peer) { x.messageTime = c.pace })
			b.shift(c.repeat)
			b.chunk(task, 0)
			watched := false
			b.gateway.withPeer(0, func(x *peer) { watched = x.lastAnswered.stuckTimer != nil })
			if watched != c.quick {
				t.Fatalf("its progress is waited for: %v, want %v", watched, c.quick)
			}
			if !c.quick {
				return
			}
			for stuck := false; !stuck; {
				b.gateway.withPeer(0, func(x *peer) { stuck = x.lastAnswered.isStuck })
			}
			b.departs("")
			b.beat(&bus.Heartbeat{Task: task.Task})
			b.departs("it gets no answers")
		})
	}
}

// A device whose heartbeats are late has a link that is full with the message that it repeats: it may do so four times.
func TestReach_SlowLinkRepeats(t *testing.T) {
	b := newBench(t, true)
	b.gateway.withPeer(0, func(x *peer) { x.welcome.HeartbeatSeconds = 2 })
	task := b.sent(1)
	b.beat(&bus.Heartbeat{Task: task.Task})
	b.chunk(task, 0)
	for repeat := 1; repeat <= maxSlowRepeats+1; repeat++ {
		b.departs("")
		b.shift(20 * time.Second)
		b.gateway.withPeer(0, func(x *peer) {
			x.lastHeartbeat = x.lastHeartbeat.Add(-20 * time.Second)
			x.lastLateHeartbeat = time.Time{}
		})
		// Heartbeats may be handled before the message that they were behind.
		if repeat%2 == 0 {
			b.beat(&bus.Heartbeat{Task: task.Task})
		}
		b.chunk(task, 0)
	}
	b.departs("it gets no answers")
}
