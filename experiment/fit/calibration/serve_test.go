package calibration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/actors/calibrate"
	"fedpace/bus"
	"fedpace/bus/bustest/simbus"
	"fedpace/bus/gateway"
)

// laboratoryRun is not the name of every day, so that devices wait until they are called: a
// request before would be lost on this bus.
const laboratoryRun = "laboratory"

// laboratory is a coordinator that calibrates, on a bus within the process.
type laboratory struct {
	*testing.T
	bus    *simbus.Bus
	models bus.Coordinator

	mu   sync.Mutex
	said []string
}

func newLaboratory(t *testing.T) *laboratory {
	t.Helper()
	l := &laboratory{T: t, bus: simbus.New(nil)}
	var err error
	l.models, err = l.bus.Connect("coordinator").OpenCoordinator(t.Context(), laboratoryRun, bus.CoordinatorConfig{PublishModels: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.models.Close(context.Background()) })
	return l
}

func (l *laboratory) notice(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, line)
}

func (l *laboratory) heard(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.said, "\n"), text)
}

func (l *laboratory) serve(ctx context.Context, c Config) ([]Measured, error) {
	c.Run, c.Seconds, c.Notice, c.Calls = laboratoryRun, 100, l.notice, 10*time.Millisecond
	return Serve(ctx, l.bus.Connect("gateway"), l.models, c)
}

// enough is the number of rounds of transfers, each of three models, that are as good as the
// seconds asked for (calibrate.Exchange); the one before them warms up.
const enough = 20

// Two devices are measured, one after the other, and both ends come to the same figures.
// The device knows then what the coordinator's runs learn.
func TestServe_DevicesInTurns(t *testing.T) {
	l := newLaboratory(t)
	var group errgroup.Group
	welcome := &bus.Welcome{Params: 1000, Task: "femnist", Spec: &bus.Spec{Model: "mlp:4,16,3", Batch: 8}}
	var all []Measured
	group.Go(func() (err error) {
		all, err = l.serve(t.Context(), Config{Devices: []string{"pi1", "pi2"}, Welcome: welcome, LocalSteps: 30})
		return err
	})
	links := map[string]calibrate.Network{}
	var phases []bus.Phase
	var mu sync.Mutex
	for _, id := range []string{"pi1", "pi2"} {
		group.Go(func() error {
			n, w, err := calibrate.MeasureNetwork(t.Context(), l.bus.Connect(id), calibrate.NetworkConfig{ID: id, Notice: l.notice, Begin: func(p bus.Phase) {
				mu.Lock()
				defer mu.Unlock()
				if id == "pi1" && len(phases) < 4 {
					phases = append(phases, p)
				}
			}})
			if err == nil && (w.Spec.Model != "mlp:4,16,3" || w.Params != 1000 || w.Task != "femnist") {
				t.Errorf("%s is told %+v", id, w)
			}
			mu.Lock()
			defer mu.Unlock()
			links[id] = n
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Device != "pi1" || all[1].Device != "pi2" {
		t.Fatalf("%+v", all)
	}
	for _, m := range all {
		n := links[m.Device]
		if n.LocalSteps != 30 {
			t.Errorf("device %s is told of %d local steps", m.Device, n.LocalSteps)
		}
		if n.Params != 1000 || n.Download.Transfers < enough || n.Download.ModelSeconds != m.Network.Download.ModelSeconds || n.Upload.ModelSeconds != m.Network.Upload.ModelSeconds || m.Transfers != 3*(1+n.Download.Transfers) {
			t.Errorf("device %s has %+v, its coordinator %+v", m.Device, n, m)
		}
		if !(n.Download.Mbps.Value > 0 && n.Upload.Mbps.Value > 0 && n.RoundTrip.Value > 0) {
			t.Errorf("%+v", n)
		}
	}
	if len(phases) != 4 || phases[0] != bus.NoPhase || phases[1] != bus.Download || phases[2] != bus.Upload || phases[3] != bus.NoPhase {
		t.Errorf("%v", phases)
	}
}

// A device that falls silent loses its turn and is measured when it is back.
func TestServe_SilentDevice(t *testing.T) {
	l := newLaboratory(t)
	ctx, leave := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error {
		all, err := l.serve(t.Context(), Config{Devices: []string{"pi"}, Silence: 200 * time.Millisecond})
		if err == nil && len(all) != 1 {
			t.Errorf("%+v", all)
		}
		return err
	})
	d, err := gateway.OpenDevice(ctx, l.bus.Connect("pi"), gateway.DeviceConfig{ID: "pi", Join: &bus.Join{Name: "pi"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(ctx); err != nil { // it has a task, and leaves
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	leave()
	group.Go(func() error {
		for !l.heard("fell silent") {
			select {
			case <-t.Context().Done():
				return t.Context().Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		_, _, err := calibrate.MeasureNetwork(t.Context(), l.bus.Connect("pi again"), calibrate.NetworkConfig{ID: "pi", Notice: l.notice, Begin: func(bus.Phase) {}})
		return err
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A device that sends another model than it got is not measured; others are.
func TestServe_AnotherModel(t *testing.T) {
	l := newLaboratory(t)
	var group errgroup.Group
	var all []Measured
	var failure error
	group.Go(func() error {
		all, failure = l.serve(t.Context(), Config{Devices: []string{"bad", "good"}})
		return nil
	})
	group.Go(func() error {
		d, err := gateway.OpenDevice(t.Context(), l.bus.Connect("bad"), gateway.DeviceConfig{ID: "bad", Join: &bus.Join{Name: "bad"}})
		if err != nil {
			return err
		}
		defer d.Close()
		task, err := d.Next(t.Context())
		if err != nil {
			return err
		}
		n := int(task.Task.ModelBits / 32)
		_ = d.Send(t.Context(), task.Run, &bus.DeviceUpdate{Values: make([]float32, n), Update: &bus.Update{Task: task.Task.Task, TaskDigest: task.Task.Digest, Samples: 1}})
		return nil
	})
	group.Go(func() error {
		_, _, err := calibrate.MeasureNetwork(t.Context(), l.bus.Connect("good"), calibrate.NetworkConfig{ID: "good", Notice: l.notice, Begin: func(bus.Phase) {}})
		return err
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Device != "good" || failure == nil || !strings.Contains(failure.Error(), "device bad: an update is refused: it is not the model that was sent") {
		t.Errorf("%+v, %v", all, failure)
	}
}

// A calibration that is stopped leaves nothing under way, and says so to its device.
func TestServe_Stopped(t *testing.T) {
	l := newLaboratory(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.serve(ctx, Config{Devices: []string{"pi", "absent"}})
		done <- err
	}()
	_, _, err := calibrate.MeasureNetwork(t.Context(), l.bus.Connect("pi"), calibrate.NetworkConfig{ID: "pi", Begin: func(bus.Phase) {}, Notice: func(line string) {
		if strings.Contains(line, "Models come") {
			stop()
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "the coordinator ended") {
		t.Errorf("the device says %v", err)
	}
	if err := <-done; err == nil {
		t.Error("the coordinator says that all are measured")
	}
}
