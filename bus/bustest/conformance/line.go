package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/gateway"
)

// line makes a connection as a [bus.Line].
func (b *Bus) line(t testing.TB) bus.Line { return b.Connect(t).(bus.Line) }

// subscribe subscribes to a subject, and returns the channel of its messages.
func subscribe(t testing.TB, l bus.Line, subject string) (<-chan *bus.RawMessage, bus.Subscription) {
	t.Helper()
	c := make(chan *bus.RawMessage, 64)
	s, err := l.Subscribe(subject, nil, func(m *bus.RawMessage) { c <- m })
	if err == nil {
		err = l.Settled(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// publish publishes a text, and ends the test if that fails.
func publish(t testing.TB, l bus.Line, subject, text string) {
	t.Helper()
	if err := l.Publish(subject, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// take returns the next message of a channel. The test ends if none arrives within Patience.
func take(t testing.TB, c <-chan *bus.RawMessage) *bus.RawMessage {
	t.Helper()
	select {
	case m := <-c:
		return m
	case <-time.After(Patience):
		t.Fatal("no message")
		return nil
	}
}

// messagesReachSubscribers checks that a message reaches the subscriptions to its subject, also those with a "*",
// and no others, and none that has ended.
func messagesReachSubscribers(t *testing.T, p *Bus) {
	here, there := p.line(t), p.line(t)
	one, _ := subscribe(t, here, "a.b.c")
	all, s := subscribe(t, here, "a.*.c")
	sent := []byte("1")
	if err := there.Publish("a.b.c", sent); err != nil {
		t.Fatal(err)
	}
	// The sender may change its memory again, and the receiver must not see that.
	sent[0] = 'x'
	for _, c := range []<-chan *bus.RawMessage{one, all} {
		if m := take(t, c); m.Subject != "a.b.c" || string(m.Data) != "1" || m.Reply != "" || m.Misdirected {
			t.Errorf("got %+v", m)
		}
	}
	for _, other := range []string{"a.b", "a.b.c.d", "a.b.d", "b.b.c"} {
		publish(t, there, other, "2")
	}
	publish(t, there, "a.x.c", "3")
	if m := take(t, all); string(m.Data) != "3" {
		t.Errorf("got %+v", m)
	}
	if err := s.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := here.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, there, "a.b.c", "4")
	if m := take(t, one); string(m.Data) != "4" {
		t.Errorf("got %+v", m)
	}
	select {
	case m := <-all:
		t.Errorf("after its end the subscription got %+v", m)
	default:
	}
}

// floodsDropOwnMessages sends more messages than a backlog holds: the drop is reported to that subscription,
// and the line and its other subscriptions work as before.
func floodsDropOwnMessages(t *testing.T, p *Bus) {
	here, there := p.line(t), p.line(t)
	busy, dropped := make(chan struct{}), make(chan struct{}, 1)
	t.Cleanup(func() { close(busy) })
	_, err := here.Subscribe("flood", &bus.Backlog{Messages: 4, Bytes: 1 << 20, Dropped: func() {
		select {
		case dropped <- struct{}{}:
		default:
		}
	}}, func(*bus.RawMessage) { <-busy })
	if err != nil {
		t.Fatal(err)
	}
	quiet, _ := subscribe(t, here, "quiet")
	for range 100 {
		publish(t, there, "flood", "too much")
	}
	select {
	case <-dropped:
	case <-time.After(Patience):
		t.Fatal("nobody is told that messages were dropped")
	}
	publish(t, there, "quiet", "1")
	if m := take(t, quiet); string(m.Data) != "1" || here.Err() != nil {
		t.Errorf("got %+v; %v", m, here.Err())
	}
}

// requestsRepeatedUntilAnswered checks that Ask repeats a request for as long as Retry allows it, and returns the
// error of Decode, of the timeout or of its context.
func requestsRepeatedUntilAnswered(t *testing.T, p *Bus) {
	here, there := p.line(t), p.line(t)
	asked := 0
	_, err := here.Subscribe("ask", nil, func(m *bus.RawMessage) {
		asked++
		// If the answer is lost, the sender asks again.
		_ = here.Publish(m.Reply, fmt.Appendf(m.Data, " %d", asked))
	})
	if err == nil {
		err = here.Settled(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	early := errors.New("not yet")
	r := &bus.Request{
		Subject: "ask",
		Data:    []byte("what"),
		Retry:   func(err error) bool { return err.Error() == early.Error() },
		Decode: func(b []byte) error {
			got = bytes.Clone(b)
			if !bytes.HasSuffix(b, []byte("3")) {
				return early
			}
			return nil
		},
	}
	if err := there.Ask(t.Context(), r); err != nil || string(got) != "what 3" {
		t.Errorf("the answer is %q, %v", got, err)
	}
	wrong := errors.New("wrong")
	r.Decode = func([]byte) error { return wrong }
	if err := there.Ask(t.Context(), r); !errors.Is(err, wrong) {
		t.Errorf("an answer that is no use: %v", err)
	}
	r.Subject, r.Timeout, r.Retry = "nobody", 50*time.Millisecond, func(error) bool { return true }
	if err := there.Ask(t.Context(), r); err == nil {
		t.Error("nobody answers, and that is none of the asker's business")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(wrong)
	if err := there.Ask(ctx, r); !errors.Is(err, wrong) {
		t.Errorf("the asker gives up: %v", err)
	}
}

// modelsFetched checks that AwaitModel returns a copy of a model that was put, and before that an error that wraps
// ErrNoModel.
func modelsFetched(t *testing.T, p *Bus) {
	c, there := p.CoordinatorWith(t, "fetch", bus.CoordinatorConfig{PublishModels: true}), p.line(t)
	model := []float32{1, 2, 3}
	if _, err := there.AwaitModel(t.Context(), "fetch", bus.DigestOf(model), 0); !errors.Is(err, bus.ErrNoModel) {
		t.Errorf("a model that is not there: %v", err)
	}
	if err := c.PutModel(t.Context(), bus.DigestOf(model), model); err != nil {
		t.Fatal(err)
	}
	got, err := there.AwaitModel(t.Context(), "fetch", bus.DigestOf(model), Patience)
	if err != nil || bus.DigestOf(got) != bus.DigestOf(model) || &got[0] == &model[0] {
		t.Errorf("fetched %v, %v", got, err)
	}
}

// devicesDoTasks opens a gateway and a device on two lines: the device joins, gets a task, sends its update and
// learns the end of the run.
func devicesDoTasks(t *testing.T, p *Bus) {
	welcome := &bus.Welcome{
		Clients:          12,
		Params:           3,
		HeartbeatSeconds: 0.1,
		Spec:             &bus.Spec{Model: "linear:2,2", Batch: 1},
	}
	g, err := gateway.Open(t.Context(), p.line(t), "r", gateway.Config{
		Devices: []string{"pi"},
		First:   10,
		Calls:   10 * time.Millisecond,
		Welcome: welcome,
	})
	if err != nil {
		t.Fatal(err)
	}
	// Close never fails here.
	t.Cleanup(func() { _ = g.Close() })
	join := &bus.Join{Name: "pi", Kernel: "go", Samples: 1}
	d, err := gateway.OpenDevice(t.Context(), p.line(t), gateway.DeviceConfig{ID: "pi", Join: join})
	if err != nil {
		t.Fatal(err)
	}
	// Close never fails here.
	t.Cleanup(func() { _ = d.Close() })
	failed := make(chan error, 2)
	go func() {
		task, err := d.Next(t.Context())
		if err == nil {
			update := &bus.Update{Task: task.Task.Task, Samples: 1}
			err = d.Send(task.Context, task.Run, &bus.DeviceUpdate{Values: []float32{4, 5, 6}, Update: update})
		}
		failed <- err
		_, err = d.Next(t.Context())
		failed <- err
	}()
	next := func(kind gateway.EventKind) gateway.Event {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), Patience)
		defer stop()
		for {
			events, err := g.TakeEvents(ctx, nil)
			// A Rejoined event is allowed, because the device has asked twice.
			events = slices.DeleteFunc(events, func(e gateway.Event) bool { return e.Kind == gateway.Rejoined })
			switch {
			case err != nil || len(events) > 1 || len(events) == 1 && events[0].Kind != kind:
				t.Fatalf("want kind %d, got %+v, %v", kind, events, err)
			case len(events) == 1:
				return events[0]
			}
		}
	}
	next(gateway.Joined)
	task := &bus.Task{
		Task:        1 << 52,
		Round:       1,
		LocalSteps:  1,
		ModelDigest: bus.DigestOf([]float32{1}).Bytes(),
	}
	if err := g.SendTask(0, task); err != nil {
		t.Fatal(err)
	}
	if e := next(gateway.Updated); len(e.Update.Values) != 3 || e.Update.Values[2] != 6 {
		t.Errorf("the update is %+v", e.Update)
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, gateway.ErrOver) {
		t.Errorf("the device is told %v", err)
	}
}
