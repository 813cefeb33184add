package gateway_test

import (
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/throttle"
)

// link is a run's gateway and its one device, pi, whose line goes through a proxy.
type link struct {
	*testing.T
	server  *embedded.Embedded
	proxy   *throttle.Proxy
	gateway *gateway.Gateway
	device  *gateway.Device
}

// openLink has a device join a run, whose model has this many parameters, over a link with this speed of uploads.
func openLink(t *testing.T, params int, upload float64) *link {
	t.Helper()
	l := &link{T: t}
	var err error
	l.server, err = embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.server.Close)
	l.gateway, err = gateway.Open(t.Context(), l.line(natsconn.Config{Server: l.server}), "r", gateway.Config{
		Devices: []string{"pi"}, Calls: time.Hour, // the device asks by itself
		Welcome: &bus.Welcome{Clients: 1, Params: uint32(params), HeartbeatSeconds: 60, Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.gateway.Close() })
	l.connect("", upload)
	t.Cleanup(func() { l.proxy.Close() })
	line := l.line(natsconn.Config{URL: "nats://" + l.proxy.Address(), Patience: -1, Slow: true})
	l.device, err = gateway.OpenDevice(t.Context(), line, gateway.DeviceConfig{ID: "pi", Run: "r", Join: &bus.Join{Name: "pi"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.device.Close() })
	return l
}

// line makes a connection that is closed at the end of the test.
func (l *link) line(c natsconn.Config) *natsconn.Conn {
	l.Helper()
	conn, err := natsconn.Connect(l.Context(), c)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(conn.Close)
	return conn
}

// connect starts the proxy between device and server at an address, a free one if at is empty, with this speed of
// uploads.
func (l *link) connect(at string, upload float64) {
	l.Helper()
	var err error
	l.proxy, err = throttle.Start(throttle.Config{Server: strings.TrimPrefix(l.server.URL(), "nats://"), Listen: at, Upload: upload})
	if err != nil {
		l.Fatal(err)
	}
}

// await takes events of the gateway until one of this kind comes, and returns it.
func (l *link) await(kind gateway.EventKind) gateway.Event {
	l.Helper()
	return await(l.T, l.gateway, kind)
}

// update returns the device's update for a task.
func update(task *gateway.DeviceTask, params int) *bus.DeviceUpdate {
	return &bus.DeviceUpdate{Values: make([]float32, params), Update: &bus.Update{Task: task.Task.Task, DownloadNs: 5, ComputeNs: 6, FirstStepLoss: 4, Samples: 170}}
}

// A device whose line was away says that it is back, and gets the task that was sent
// meanwhile.
func TestDevice_ConnectionBack(t *testing.T) {
	t.Parallel()
	l := openLink(t, 3, 0)
	tasks := make(chan *gateway.DeviceTask)
	go func() {
		task, _ := l.device.Next(t.Context())
		tasks <- task
	}()
	l.await(gateway.Joined)
	at := l.proxy.Address()
	l.proxy.Close()
	if err := l.gateway.SendTask(0, deviceTask(1)); err != nil { // nobody hears it
		t.Fatal(err)
	}
	l.connect(at, 0)
	l.await(gateway.Rejoined)
	if err := l.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	if task := <-tasks; task == nil || task.Task.Task != deviceTask(1).Task {
		t.Errorf("it got %+v", task)
	}
}

// A task that is repeated while its update is sent has the message under way sent again: it
// may be lost, or its answer.
func TestDevice_RepeatedTask(t *testing.T) {
	t.Parallel()
	l := openLink(t, 3, 0)
	deaf := l.line(natsconn.Config{Server: l.server})
	at, deafened := make(chan bool), make(chan bool)
	go func() {
		task, err := l.device.Next(t.Context())
		at <- err == nil
		<-deafened
		if err == nil {
			_ = l.device.Send(task.Context, task.Run, update(task, 3)) // until the test ends
		}
	}()
	l.await(gateway.Joined)
	if err := l.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	if !<-at {
		t.Fatal("the device has no task")
	}
	l.gateway.Ban(0) // it hears nothing from now on
	heard := make(chan bool, 100)
	if _, err := deaf.Subscribe("fedpace.r.client.pi.update.*", nil, func(*bus.RawMessage) { heard <- true }); err != nil {
		t.Fatal(err)
	}
	if err := deaf.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(deafened)
	<-heard
	// More repeats within the test than attempts could be without them.
	const repeats = 50
	for range repeats {
		if err := l.gateway.SendTask(0, deviceTask(1)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatal("the update is not sent again")
		}
	}
}

// A chunk of a model takes ten seconds on a link of 0.4 Mbit/s: it is sent once.
func TestDevice_SlowLinkSendsChunkOnce(t *testing.T) {
	slow.Test(t, "a chunk of a model takes ten seconds")
	t.Parallel()
	const params = bus.ChunkBytes / 4
	l := openLink(t, params, 0.4)
	sent := make(chan error, 1)
	go func() {
		task, err := l.device.Next(t.Context())
		if err == nil {
			err = l.device.Send(task.Context, task.Run, update(task, params))
		}
		sent <- err
	}()
	l.await(gateway.Joined)
	messages := make(chan bool, 100)
	aside := l.line(natsconn.Config{Server: l.server})
	if _, err := aside.Subscribe("fedpace.r.client.pi.update.*", nil, func(*bus.RawMessage) { messages <- true }); err != nil {
		t.Fatal(err)
	}
	if err := aside.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	l.await(gateway.Updated)
	if n := len(messages); n != 2 { // the values, and that they are all
		t.Errorf("%d messages of the update, want 2", n)
	}
	if !l.gateway.WorksOnTask(0) {
		t.Error("the gateway does not know that the device has the task")
	}
}
