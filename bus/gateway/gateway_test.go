package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"

	"fedpace/bus/bustest"
)

// model is small enough for one chunk.
var model = []float32{1, 2, 3}

// office is a gateway for two devices and the first of them, each with its own
// credentials and connection.
type office struct {
	*bustest.Guarded
	gateway *gateway.Gateway
	line    *natsconn.Conn // the gateway's
	device  *gateway.Device
	run     bus.Coordinator
}

// openOffice opens a guarded server, run "r" with its gateway, and the device "pi", which takes part in the run named
// run. check judges updates, as gateway.Config.Check does.
func openOffice(t *testing.T, run string, check func(*bus.DeviceUpdate) error) *office {
	t.Helper()
	o := &office{Guarded: bustest.NewGuarded(t)}
	inside := o.Inside()
	var err error
	o.run, err = inside.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go", PublishModels: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.run.Close(context.Background()) })
	o.gateway, o.line = o.openGateway("r", check)
	o.device, err = gateway.OpenDevice(t.Context(), o.Connect(o.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"})), gateway.DeviceConfig{
		ID: "pi", Run: run, Patience: 5 * time.Second, Join: &bus.Join{Name: "pi", Kernel: "neon", Samples: 170},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.device.Close() })
	return o
}

// openGateway opens the gateway of a run with the office's two devices.
func (o *office) openGateway(run string, check func(*bus.DeviceUpdate) error) (*gateway.Gateway, *natsconn.Conn) {
	o.Helper()
	own, err := natsconn.Connect(o.Context(), natsconn.Config{Server: o.Server})
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(own.Close)
	g, err := gateway.Open(o.Context(), own, run, gateway.Config{
		Devices: []string{"pi", "other"}, First: 10, Calls: 50 * time.Millisecond, Check: check,
		Welcome: &bus.Welcome{Clients: 12, Params: uint32(len(model)), HeartbeatSeconds: 0.1, Task: "femnist", Version: "v1", Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}},
	})
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = g.Close() })
	return g, own
}

// await takes events of the office's gateway until one of this kind comes, and returns it.
func (o *office) await(kind gateway.EventKind) gateway.Event {
	o.Helper()
	return await(o.T, o.gateway, kind)
}

// await takes events of gateway g until one of this kind comes, and returns it.
func await(t *testing.T, g *gateway.Gateway, kind gateway.EventKind) gateway.Event {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		news, err := g.TakeEvents(ctx, nil)
		if err != nil {
			t.Fatalf("no news of kind %d: %v", kind, err)
		}
		for _, n := range news {
			if n.Kind == kind {
				return n
			}
		}
	}
}

// work has the device do one task: it sends the model of the task with every value one more.
func (o *office) work() error {
	t, err := o.device.Next(o.Context())
	if err != nil {
		return err
	}
	params, err := o.device.Model(o.Context(), t.Run, bus.DigestFrom(t.Task.ModelDigest))
	if err != nil {
		return err
	}
	values := make([]float32, len(params))
	for i, x := range params {
		values[i] = x + 1
	}
	return o.device.Send(t.Context, t.Run, &bus.DeviceUpdate{Values: values, Update: &bus.Update{Task: t.Task.Task, DownloadNs: 5, ComputeNs: 6, FirstStepLoss: 4, Samples: 170}})
}

// A device that reads its data with its first task joins before it knows its number of samples. The
// number is then that of its update.
func TestGateway_SamplesByUpdate(t *testing.T) {
	o := openOffice(t, "r", nil)
	other, err := gateway.OpenDevice(t.Context(), o.Connect(o.Creds(auth.Grant{Role: auth.RoleDevice, ID: "other"})), gateway.DeviceConfig{
		ID: "other", Run: "r", Patience: 5 * time.Second, Join: &bus.Join{Name: "other", Kernel: "neon"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	done := make(chan error, 1)
	go func() {
		task, err := other.Next(t.Context())
		if err == nil {
			err = other.Send(t.Context(), "r", &bus.DeviceUpdate{Values: model, Update: &bus.Update{Task: task.Task.Task, Samples: 170}})
		}
		done <- err
	}()
	o.await(gateway.Joined)
	if n := o.gateway.Stats().Each[1].Samples; n != 0 {
		t.Errorf("%d samples before any report", n)
	}
	if err := o.gateway.SendTask(1, deviceTask(3)); err != nil {
		t.Fatal(err)
	}
	o.await(gateway.Updated)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := o.gateway.Stats().Each[1].Samples; n != 170 {
		t.Errorf("%d samples after an update of 170", n)
	}
}

// A device that knows no run waits until one calls it, joins, fetches the model,
// and its update arrives once, with what it measured.
func TestDevice_WithGateway(t *testing.T) {
	for _, run := range []string{"", "r"} {
		o := openOffice(t, run, nil)
		if err := o.run.PutModel(t.Context(), bus.DigestOf(model), model); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- o.work() }()
		if n := o.await(gateway.Joined); n.Device != 0 || n.Join.Samples != 170 || n.Join.Kernel != "neon" {
			t.Errorf("joined: %+v", n)
		}
		task := &bus.Task{Task: 1 << 52, Round: 1, LocalSteps: 2, LearningRate: 0.1, ModelDigest: bus.DigestOf(model).Bytes()}
		for range 3 { // a repeat is harmless
			if err := o.gateway.SendTask(0, task); err != nil {
				t.Fatal(err)
			}
		}
		n := o.await(gateway.Updated)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		u := n.Update
		if u.Task != task.Task || u.DownloadNs != 5 || u.ComputeNs != 6 || u.UploadNs <= 0 || u.FirstStepLoss != 4 || u.Samples != 170 ||
			len(u.Values) != len(model) || u.Values[0] != model[0]+1 {
			t.Errorf("the update is %+v", u)
		}
		if time.Since(o.gateway.LastHeard(0)) > time.Minute || !o.gateway.LastHeard(1).IsZero() {
			t.Errorf("heard at %v and %v", o.gateway.LastHeard(0), o.gateway.LastHeard(1))
		}
		if err := o.gateway.Close(); err != nil {
			t.Fatal(err)
		}
		if err := o.work(); !errors.Is(err, gateway.ErrOver) {
			t.Errorf("after the run: %v", err)
		}
	}
}

// Where the tasks of a run have models of several sizes, an update has as many values as
// its task's model, and no other number, also where updates are packed.
func TestGateway_UpdateSizes(t *testing.T) {
	for _, compression := range []string{"", "sign"} {
		updatesOfSeveralSizes(t, compression)
	}
}

// updatesOfSeveralSizes checks that a gateway whose tasks have different numbers of values takes an update only if it
// has the number of its task.
func updatesOfSeveralSizes(t *testing.T, compression string) {
	o, run := openOffice(t, "r", nil), "sizes"+compression
	g, err := gateway.Open(t.Context(), o.line, run, gateway.Config{
		Devices: []string{"pi"}, Calls: 50 * time.Millisecond, Params: func(t *bus.Task) int { return int(t.ModelBits / 32) },
		Welcome: &bus.Welcome{Clients: 1, Params: 1, HeartbeatSeconds: 0.1, Spec: &bus.Spec{Batch: 1, Compression: compression}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	o.gateway = g
	d, err := gateway.OpenDevice(t.Context(), o.Inside(), gateway.DeviceConfig{ID: "pi", Run: run, Join: &bus.Join{Name: "pi"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for i, c := range []struct {
		params, sent int
		want         gateway.EventKind
	}{{5, 5, gateway.Updated}, {2, 2, gateway.Updated}, {2, 3, gateway.Refused}, {200_000, 200_000, gateway.Updated}, {3, 1, gateway.Refused}} {
		done := make(chan error, 1)
		go func() {
			task, err := d.Next(t.Context())
			if err == nil {
				err = d.Send(t.Context(), task.Run, &bus.DeviceUpdate{Values: make([]float32, c.sent), Update: &bus.Update{Task: task.Task.Task, Samples: 1}})
			}
			done <- err
		}()
		if err := g.SendTask(0, &bus.Task{Task: 1<<52 + uint64(i), Round: 1, LocalSteps: 1, ModelBits: 32 * uint64(c.params), ModelDigest: bus.DigestOf(model).Bytes()}); err != nil {
			t.Fatal(err)
		}
		if n := o.await(c.want); n.Kind == gateway.Updated && len(n.Update.Values) != c.params {
			t.Errorf("%d values arrive of %d", len(n.Update.Values), c.params)
		} else if n.Kind == gateway.Refused && strings.Contains(n.Text, "packed values") != (compression != "") {
			t.Errorf("%d values of %d are refused: %s", c.sent, c.params, n.Text)
		}
		if err := <-done; (err != nil) != (c.want == gateway.Refused) {
			t.Errorf("%d values for a model of %d: %v", c.sent, c.params, err)
		}
	}
}

// The device learns why its update is refused, and the gateway how long it took.
func TestDevice_UpdateRefused(t *testing.T) {
	o := openOffice(t, "r", func(*bus.DeviceUpdate) error { return errors.New("too far from home") })
	if err := o.run.PutModel(t.Context(), bus.DigestOf(model), model); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- o.work() }()
	o.await(gateway.Joined)
	if err := o.gateway.SendTask(0, &bus.Task{Task: 1 << 52, Round: 1, LocalSteps: 2, ModelDigest: bus.DigestOf(model).Bytes()}); err != nil {
		t.Fatal(err)
	}
	n := o.await(gateway.Refused)
	if n.Text != "too far from home" || n.Update.Values != nil || n.Update.ComputeNs != 6 {
		t.Errorf("%+v, %+v", n, n.Update)
	}
	if err := <-done; !errors.Is(err, gateway.ErrUpdateRefused) || !strings.Contains(err.Error(), "too far from home") {
		t.Errorf("the device is told %v", err)
	}
	if got := o.gateway.Stats().Refused; got != 1 {
		t.Errorf("%d messages are counted as refused, want the update", got)
	}
}

// A device that was given up is called again, and joins when it hears that.
func TestGateway_DeviceComesBack(t *testing.T) {
	o := openOffice(t, "", nil)
	done := make(chan error, 1)
	go func() { done <- o.work() }()
	o.await(gateway.Joined)
	o.gateway.GiveUp(0)
	if n := o.await(gateway.Joined); n.Device != 0 {
		t.Errorf("%+v", n)
	}
	if err := o.gateway.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, gateway.ErrOver) {
		t.Errorf("after the run: %v", err)
	}
}

// A device that trains plain SGD whatever the algorithm is not taken where that
// would be wrong.
func TestGateway_OldProtocol(t *testing.T) {
	for required, feature := range map[uint32]string{
		bus.ProtocolAlgorithm: "algorithm",
		bus.ProtocolOptimizer: "local optimizer",
		bus.ProtocolSchema:    "data",
		bus.ProtocolNoise:     "local noise",
		bus.ProtocolFrozen:    "frozen parameters",
		bus.ProtocolState:     "compression, or what its clients keep",
		bus.ProtocolTargets:   "scaled targets",
		bus.ProtocolMasks:     "secure aggregation",
	} {
		t.Run(feature, func(t *testing.T) { refuseOldProtocol(t, required, feature) })
	}
}

// refuseOldProtocol checks that a device of protocol 0 is told which feature of a run it does not know.
func refuseOldProtocol(t *testing.T, required uint32, feature string) {
	o := openOffice(t, "old", nil)
	inside := o.Inside()
	g, err := gateway.Open(t.Context(), inside, "old", gateway.Config{
		Devices: []string{"pi"}, Protocol: required,
		Welcome: &bus.Welcome{Clients: 1, Params: 3, HeartbeatSeconds: 0.1, Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	want := fmt.Sprintf("join: protocol is 0, want at least %d for the run's %s: update the device", required, feature)
	if _, err := o.device.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "run old does not take device pi") || !strings.Contains(err.Error(), want) {
		t.Errorf("the device is told %v, want %q", err, want)
	}
	if news, err := g.TakeEvents(t.Context(), nil); err != nil || len(news) != 1 || news[0].Kind != gateway.Ignored || !strings.HasPrefix(news[0].Text, gateway.ReasonOld) {
		t.Errorf("news %+v, %v", news, err)
	}
}

func TestGateway_ImpossibleOptions(t *testing.T) {
	o := openOffice(t, "r", nil)
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{Server: o.Server})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	good := &bus.Welcome{Clients: 12, Params: 1, HeartbeatSeconds: 1, Spec: &bus.Spec{Batch: 1}}
	for name, c := range map[string]struct {
		config gateway.Config
		want   string
	}{
		"nobody":    {gateway.Config{Welcome: good}, "0 devices, want 1 to 4096"},
		"a number":  {gateway.Config{Welcome: good, Devices: []string{"7"}}, "want a letter"},
		"no params": {gateway.Config{Devices: []string{"pi"}, Welcome: &bus.Welcome{Clients: 1, HeartbeatSeconds: 1, Spec: &bus.Spec{Batch: 1}}}, "params is 0"},
	} {
		if _, err := gateway.Open(t.Context(), conn, "r", c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
