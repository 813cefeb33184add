package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"fedpace/bus"
	"fedpace/bus/natsbus"
	"fedpace/coordinator/devices"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/metrics"
)

// roundDevices is what the round machine needs to know of the real devices.
func roundDevices(c *config.Config) round.Devices {
	d := round.Devices{Count: len(c.Devices.Names)}
	if d.Count == 0 {
		return d
	}
	d.Liveness = round.Time(math.Round(c.Devices.LivenessSeconds * 1e9))
	if c.Devices.Include == config.Sampled {
		d.Include = round.Sampled
	}
	return d
}

// errUnreachable refuses devices that have no way to the run.
var errUnreachable = errors.New("devices.names: the devices cannot reach the embedded server (set nats.listen, or nats.url to another server)")

// realDevices are the run's real devices as the coordinator takes them; nil where
// there are none. Its connection is to be closed.
func (e *engine) realDevices(ctx context.Context) (*devices.Config, error) {
	c := &e.p.config
	d := &c.Devices
	if len(d.Names) == 0 {
		return nil, nil
	}
	v := &devices.Config{
		Names: d.Names, NormLimit: d.NormLimit,
		Liveness: wall(d.LivenessSeconds), TaskLimit: wall(d.TaskSeconds),
		Welcome: &bus.Welcome{Task: string(c.Task), Heterogeneity: c.Synthetic.Heterogeneity, DataSeed: c.DataSeed()},
		Notice:  e.devices.notice, Plan: e.devices.plan, Refuse: e.devices.refuse,
	}
	if e.devices.record != nil {
		v.Record, v.Replay = e.devices.record, e.devices.record.Replay
	}
	if d.Link == config.ModelledLink {
		bits := float64(e.p.modelBits)
		download, err := seconds(bits / (c.Network.DownloadMbps * 1e6))
		if err != nil {
			return nil, fmt.Errorf("devices.link: %w", err)
		}
		upload, err := seconds(bits / (c.Network.UploadMbps * 1e6))
		if err != nil {
			return nil, fmt.Errorf("devices.link: %w", err)
		}
		v.Link = func(int) (round.Time, round.Time) { return download, upload }
	}
	if v.Replay {
		return v, nil
	}
	to := e.to
	to.Name = "devices of " + c.Name
	var err error
	v.Conn, err = natsbus.Connect(ctx, to)
	return v, err
}

func wall(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// realWatch is what a run's devices tell on its side: set by who follows the run.
type realWatch struct {
	record *devicelog.Log // nil: none is kept
	notice func(string)
	plan   func(client int, plan round.Plan)
	refuse func(device, reason string)
}

// watchDevices is what a run does with its devices' news: it keeps what they said
// in the run's folder and shows their tasks. Where another run is played again,
// its devices' answers are read instead.
func (t *recorder) watchDevices() (w realWatch, err error) {
	if len(t.p.config.Devices.Names) == 0 {
		if t.o.Replay != "" {
			return w, fmt.Errorf("%s: the run there has no real devices: run its %s again instead", t.o.Replay, folder.ConfigFile)
		}
		return w, nil
	}
	w.notice = t.o.Notice
	w.refuse = func(device, reason string) {
		t.o.notice(fmt.Sprintf("Device %s: a message is ignored (%s).", device, reason))
	}
	if t.o.Replay != "" {
		w.record, err = devicelog.Open(t.o.Replay)
		return w, err
	}
	w.record = metrics.Outputs[*devicelog.Log](t.outputs)[0]
	return w, nil
}
