package run

import (
	"context"
	"errors"
	"fmt"
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
		Notice:  e.options.notice,
		Refuse: func(device, reason string) {
			e.options.notice(fmt.Sprintf("Device %s: a message is ignored (%s).", device, reason))
		},
		Record: e.record, Replay: e.record.Replay,
	}
	if d.Link == config.ModelledLink {
		bits := float64(e.p.modelBits)
		download, downErr := seconds(bits / (c.Network.DownloadMbps * 1e6))
		upload, upErr := seconds(bits / (c.Network.UploadMbps * 1e6))
		if err := errors.Join(downErr, upErr); err != nil {
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

// deviceLog is the log that the run's real devices are recorded in or, if another
// run is played again, read from.
func (r *recorder) deviceLog() (*devicelog.Log, error) {
	switch replay := r.o.Replay; {
	case len(r.p.config.Devices.Names) > 0 && replay != "":
		return devicelog.Open(replay)
	case len(r.p.config.Devices.Names) > 0:
		return metrics.Outputs[*devicelog.Log](r.outputs)[0], nil
	case replay != "":
		return nil, fmt.Errorf("%s: the run there has no real devices: run its %s again instead", replay, folder.ConfigFile)
	}
	return nil, nil
}
