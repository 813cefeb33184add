package calibrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpace/bus"
	"fedpace/bus/gateway"
)

// NetworkConfig is a device that measures its link.
type NetworkConfig struct {
	ID  string
	Run string // under which its coordinator calibrates; empty: that calls
	// Samples is how many the device's credentials let it have; 0: any number.
	Samples uint64
	Notice  func(string)
	Begin   func(bus.Phase) // is told what is measured; may be nil
}

// MeasureNetwork takes the tasks of a coordinator that calibrates until that has
// enough, and returns with the link what the coordinator said of its runs. It does with
// each model what a real device does, and learns nothing in between.
func MeasureNetwork(ctx context.Context, conn bus.Line, c NetworkConfig) (n Network, _ *bus.Welcome, err error) {
	d, err := gateway.OpenDevice(ctx, conn, gateway.DeviceConfig{
		ID: c.ID, Run: c.Run, Samples: c.Samples, Notice: c.Notice, Join: &bus.Join{Name: c.ID, Protocol: bus.DeviceProtocol},
	})
	if err != nil {
		return n, nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	begin := c.Begin
	if begin == nil {
		begin = func(bus.Phase) {}
	}
	var transfers []Transfer
	var welcome *bus.Welcome
	steps := 0
	for {
		begin(bus.NoPhase)
		t, err := d.Next(ctx)
		if errors.Is(err, gateway.ErrOver) {
			break
		}
		if err != nil {
			return n, nil, err
		}
		if welcome == nil {
			c.Notice("Models come and go.")
		}
		welcome, steps = t.Welcome, int(t.Task.LocalSteps)
		begin(bus.Download)
		x, err := transfer(d, t, begin)
		switch {
		case err == nil:
			transfers = append(transfers, x)
		case ctx.Err() != nil:
			return n, nil, ctx.Err()
		case conn.Err() != nil:
			return n, nil, err
		case t.Context.Err() == nil: // the coordinator sends the task again, or another
			c.Notice(fmt.Sprintf("Transfer %d: %v.", t.Task.Task, err))
		}
	}
	if welcome == nil {
		return n, nil, errors.New("calibrate: the coordinator ended before it measured this device")
	}
	n, ok := summarise(int(welcome.Params), transfers)
	if !ok {
		return n, nil, fmt.Errorf("calibrate: the coordinator ended after %d transfers, which is too few", len(transfers))
	}
	n.LocalSteps = steps
	for name, l := range map[string]*Link{"download": &n.Download, "upload": &n.Upload} {
		if l.Noisy {
			c.Notice(fmt.Sprintf("The %s stays noisy: ±%.3g %% after %d models.", name, 100*l.Whole.Width(), l.Transfers))
		}
	}
	return n, welcome, nil
}

// transfer fetches a task's model and sends it back, as a real device does before and after
// its local steps.
func transfer(d *gateway.Device, t *gateway.DeviceTask, begin func(bus.Phase)) (x Transfer, err error) {
	model, err := d.Model(t.Context, t.Run, bus.DigestFrom(t.Task.ModelDigest))
	if err != nil {
		return x, err
	}
	download := time.Since(t.Received)
	begin(bus.Upload)
	u := &bus.DeviceUpdate{Values: model, Update: &bus.Update{
		Task: t.Task.Task, TaskDigest: t.Task.Digest, DownloadNs: download.Nanoseconds(), Samples: 1,
	}}
	err = d.Send(t.Context, t.Run, u)
	if err != nil && (u.UploadNs == 0 || t.Context.Err() == nil) {
		return x, err
	} // else the next task came before the answer to this one, which is there
	return Transfer{len(model), download.Seconds(), float64(u.UploadNs) / 1e9}, nil
}
