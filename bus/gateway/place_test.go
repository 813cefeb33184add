package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/gateway"
)

// pair opens a run whose one device is "pi", beside the office's own run. It returns a function that starts a process
// of that device with a connection of its own. yield is gateway.Config.Yield.
func (o *office) pair(yield time.Duration) (start func() *gateway.Device) {
	o.Helper()
	creds := o.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi", Renew: true})
	g, err := gateway.Open(o.Context(), o.Inside(), "pair", gateway.Config{
		Devices: []string{"pi"}, Calls: 50 * time.Millisecond, Yield: yield,
		Welcome: &bus.Welcome{Clients: 1, Params: uint32(len(model)), HeartbeatSeconds: 60, Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}},
	})
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = g.Close() })
	o.gateway = g
	return func() *gateway.Device {
		o.Helper()
		d, err := gateway.OpenDevice(o.Context(), o.Connect(creds), gateway.DeviceConfig{ID: "pi", Run: "pair", Join: &bus.Join{Name: "pi"}})
		if err != nil {
			o.Fatal(err)
		}
		o.Cleanup(func() { _ = d.Close() })
		return d
	}
}

// A second process with a device's credentials is refused while the first answers, also
// where that is at work, and both ends say so. The first works on as if nothing were.
func TestGateway_SecondProcess(t *testing.T) {
	o := openOffice(t, "r", nil)
	start := o.pair(time.Minute)
	first := start()
	tasks := make(chan *gateway.DeviceTask, 1)
	next := func() {
		task, err := first.Next(t.Context())
		if err != nil {
			t.Error(err)
		}
		tasks <- task
	}
	go next()
	o.await(gateway.Joined)
	for _, during := range []string{"its wait for a task", "its work"} {
		_, err := start().Next(t.Context())
		if err == nil || !strings.Contains(err.Error(), "run pair does not take device pi: another process takes part as this device") {
			t.Fatalf("during %s a second process is told %v", during, err)
		}
		if during == "its work" {
			break
		}
		if n := o.await(gateway.Ignored); !strings.HasPrefix(n.Text, gateway.ReasonTwin+": a second process with its credentials is refused") {
			t.Errorf("the coordinator is told %q", n.Text)
		}
		if err := o.gateway.SendTask(0, deviceTask(1)); err != nil {
			t.Fatal(err)
		}
		<-tasks
	}
	if err := first.Send(t.Context(), "pair", &bus.DeviceUpdate{Values: model, Update: &bus.Update{Task: deviceTask(1).Task, Samples: 1}}); err != nil {
		t.Error(err)
	}
	o.await(gateway.Updated)
}

// A device that works on its task, and joins anew because of a second process, does not get the
// task again: it would begin its message anew, each time that the other is started.
func TestGateway_DeviceAtWork(t *testing.T) {
	o := openOffice(t, "r", nil)
	start := o.pair(time.Minute)
	first := start()
	sent := make(chan error, 1)
	at, begin := make(chan bool), make(chan bool)
	go func() {
		task, err := first.Next(t.Context())
		at <- true
		<-begin
		if err == nil {
			err = first.Send(t.Context(), "pair", update(task, len(model)))
		}
		sent <- err
	}()
	o.await(gateway.Joined)
	if err := o.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	<-at
	for !o.gateway.WorksOnTask(0) {
		time.Sleep(time.Millisecond)
	}
	past, end := context.WithCancel(t.Context())
	end()
	_, _ = o.gateway.TakeEvents(past, nil) // the answers to two calls, of before it was at work
	if _, err := start().Next(t.Context()); err == nil {
		t.Fatal("a second process has the place")
	}
	close(begin)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for updated := false; !updated; {
		news, err := o.gateway.TakeEvents(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range news {
			updated = updated || n.Kind == gateway.Updated
			if n.Kind == gateway.Rejoined {
				t.Error("the run takes its task for lost")
			}
		}
	}
}

// A copy of the credentials that sends what the device does, without having its place,
// moves nothing.
func TestGateway_CopyOfDevice(t *testing.T) {
	o := openOffice(t, "r", nil)
	start := o.pair(time.Minute)
	first := start()
	go func() { _, _ = first.Next(t.Context()) }() // until the task
	o.await(gateway.Joined)
	if err := o.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	copied, _ := o.Raw(o.Folder+"/pi.creds", nats.CustomInboxPrefix("_INBOX_pi"))
	for _, process := range []uint64{0, 7} {
		heartbeat, err := bus.Marshal(nil, &bus.Heartbeat{Process: process})
		if err != nil {
			t.Fatal(err)
		}
		if err := copied.Publish("fedpace.pair.client.pi.heartbeat", heartbeat); err != nil {
			t.Fatal(err)
		}
		update, err := bus.Marshal(nil, &bus.Update{Task: deviceTask(1).Task, Chunks: 1, Process: process, Values: make([]byte, 12)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := copied.Request("fedpace.pair.client.pi.update.0", update, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		r := new(bus.DeviceReply)
		if err := bus.Unmarshal(m.Data, r); err != nil || r.Status != bus.Refused || !strings.Contains(r.Reason, "another process") {
			t.Errorf("process %d: a chunk of another process is answered %v, %v", process, r, err)
		}
	}
	if n := o.gateway.Stats(); n.Heartbeats > 1 { // by which the first says that it has the task
		t.Errorf("%d heartbeats count", n.Heartbeats)
	}
}

// A device that is started again while the run still takes its first process for there
// gets its place, and the open task.
func TestGateway_RestartedDevice(t *testing.T) {
	o := openOffice(t, "r", nil)
	start := o.pair(200 * time.Millisecond)
	first := start()
	go func() { _, _ = first.Next(t.Context()) }()
	o.await(gateway.Joined)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := start()
	done := make(chan error, 1)
	go func() {
		task, err := second.Next(t.Context())
		if err == nil {
			err = second.Send(t.Context(), "pair", &bus.DeviceUpdate{Values: model, Update: &bus.Update{Task: task.Task.Task, Samples: 1}})
		}
		done <- err
	}()
	o.await(gateway.Joined)
	if err := o.gateway.SendTask(0, deviceTask(2)); err != nil {
		t.Fatal(err)
	}
	o.await(gateway.Updated)
	if err := <-done; err != nil && !errors.Is(err, gateway.ErrOver) {
		t.Error(err)
	}
}

// A new process of a device has not got the task on which the one before worked, until it says so itself.
func TestGateway_NewProcessLacksTask(t *testing.T) {
	o := openOffice(t, "r", nil)
	o.pair(50 * time.Millisecond)
	raw, _ := o.Raw(o.Folder+"/pi.creds", nats.CustomInboxPrefix("_INBOX_pi"))
	join := func(process uint64) {
		t.Helper()
		b, err := bus.Marshal(nil, &bus.Join{Name: "pi", Process: process})
		if err != nil {
			t.Fatal(err)
		}
		m, err := raw.Request("fedpace.pair.client.pi.join", b, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		r := new(bus.DeviceReply)
		if err := bus.Unmarshal(m.Data, r); err != nil || r.Status != bus.Accepted {
			t.Fatalf("process %d: its join is answered %v, %v", process, r, err)
		}
		o.await(gateway.Joined)
	}
	// report says that a process works on the task, and waits until the gateway knows.
	report := func(process uint64) {
		t.Helper()
		b, err := bus.Marshal(nil, &bus.Heartbeat{Process: process, Task: deviceTask(1).Task})
		if err == nil {
			err = raw.Publish("fedpace.pair.client.pi.heartbeat", b)
		}
		if err != nil {
			t.Fatal(err)
		}
		for !o.gateway.WorksOnTask(0) {
			time.Sleep(time.Millisecond)
		}
	}
	for process := uint64(1); process <= 3; process++ {
		join(process)
		if err := o.gateway.SendTask(0, deviceTask(1)); err != nil {
			t.Fatal(err)
		}
		if o.gateway.WorksOnTask(0) {
			t.Fatalf("process %d counts as at work on a task that another got", process)
		}
		report(process)
	}
}

// How many samples a device counts with is in its credentials, where they say so.
func TestSamples_LimitedByCredentials(t *testing.T) {
	o := openOffice(t, "r", nil)
	creds := o.Creds(auth.Grant{Role: auth.RoleDevice, ID: "other", Samples: 100})
	d, err := gateway.OpenDevice(t.Context(), o.Connect(creds), gateway.DeviceConfig{ID: "other", Run: "r", Samples: 100, Join: &bus.Join{Name: "other", Samples: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	done := make(chan error, 1)
	go func() {
		task, err := d.Next(t.Context())
		if err == nil {
			err = d.Send(t.Context(), "r", &bus.DeviceUpdate{Values: model, Update: &bus.Update{Task: task.Task.Task, Samples: 1 << 24}})
		}
		done <- err
	}()
	var events []gateway.Event
	for len(events) < 2 {
		more, err := o.gateway.TakeEvents(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, more...)
	}
	if n := events[0]; n.Kind != gateway.Ignored || n.Text != "samples: it has 5000 samples, and its credentials let it have 100: it counts with these" {
		t.Errorf("the coordinator is told %+v", n)
	}
	if n := events[1]; n.Kind != gateway.Joined || n.Device != 1 || n.Join.Samples != 100 {
		t.Errorf("it joins: %+v", n)
	}
	if err := o.gateway.SendTask(1, deviceTask(3)); err != nil {
		t.Fatal(err)
	}
	if n := o.await(gateway.Updated); n.Update.Samples != 100 {
		t.Errorf("its update counts with %d samples", n.Update.Samples)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	raw, refused := o.Raw(creds, nats.CustomInboxPrefix("_INBOX_other"))
	for _, s := range []string{"join", "join.101", "join.1000000", "join.0"} {
		if err := raw.Publish("fedpace.r.client.other."+s, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", s, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("it may join by %s", s)
		}
	}
}
