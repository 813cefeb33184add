package calibration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fedpace/actors/calibrate"
	"fedpace/bus"
	"fedpace/bus/gateway"
)

// deviceSession is the calibration of one device, as its goroutine knows it.
type deviceSession struct {
	*server
	// index is the device's index among all that are measured, and id its id.
	index int
	id    string
	// gateway is a gateway for this device alone, in which its index is onlyDevice.
	gateway *gateway.Gateway
	// task is the task that is open or, between two, the last one.
	task *bus.Task
	// events are those that were taken last from the gateway.
	events []gateway.Event
}

// onlyDevice is the index of a device in its own gateway.
const onlyDevice = 0

// measureDevice measures the device with this index: it opens a gateway for it alone, measures it and ends
// its run. A device that misbehaves is noted as a failure and ends nothing for the others.
func (s *server) measureDevice(ctx context.Context, index int) (err error) {
	d := &deviceSession{
		server: s,
		index:  index,
		id:     s.config.Devices[index],
		task:   &bus.Task{Task: firstTask},
	}
	d.gateway, err = gateway.Open(ctx, s.line, s.config.Run, gateway.Config{
		Devices: []string{d.id},
		First:   index,
		Welcome: s.welcome,
		Calls:   s.config.Calls,
		Params:  func(t *bus.Task) int { return int(t.ModelBits / 32) },
		Check: func(u *bus.DeviceUpdate) error {
			// A device sends back what it has downloaded.
			if !slices.ContainsFunc(s.models, func(m []float32) bool { return slices.Equal(m, u.Values) }) {
				return errors.New("it is not the model that was sent")
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.gateway.Close()) }()
	err = d.serve(ctx)
	// Other devices are measured all the same.
	if fault := (*misbehaved)(nil); errors.As(err, &fault) {
		s.notice("Device %s is not measured: %s.", fault.device, fault.problem)
		s.failures[index] = err
		err = nil
	}
	return err
}

// serve waits until the device has joined and it is its turn, and measures it. A device that falls
// silent is measured again from the beginning when it has joined again.
func (d *deviceSession) serve(ctx context.Context) error {
	for {
		if err := d.awaitJoin(ctx); err != nil {
			return err
		}
		select {
		case d.measuring <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		measured, err := d.measure(ctx)
		<-d.measuring
		switch {
		case errors.Is(err, errSilent):
			d.notice(
				"Device %s fell silent after %d transfers; it is measured anew when it joins again.",
				d.id,
				measured.Transfers,
			)
			d.gateway.GiveUp(onlyDevice)
		case err != nil:
			return err
		default:
			d.results[d.index] = measured
			d.notice(
				"Device %s is measured: %d transfers, download %s, upload %s.",
				d.id,
				measured.Transfers,
				measured.Network.Download.Speed(),
				measured.Network.Upload.Speed(),
			)
			return nil
		}
	}
}

// awaitJoin waits until the device has joined.
func (d *deviceSession) awaitJoin(ctx context.Context) error {
	for {
		if err := d.takeEvents(ctx); err != nil {
			return err
		}
		for _, e := range d.events {
			if e.Kind == gateway.Joined {
				d.notice("Device %s has joined.", d.id)
				return nil
			}
		}
	}
}

// takeEvents waits until there are events of the device, and puts them into d.events in place of the ones before.
// It reports messages that were ignored to the user, and returns an error if the device sends too many.
func (d *deviceSession) takeEvents(ctx context.Context) (err error) {
	d.events, err = d.gateway.TakeEvents(ctx, d.events)
	if err != nil {
		return err
	}
	for _, e := range d.events {
		switch e.Kind {
		case gateway.Flooded:
			return &misbehaved{d.id, e.Text}
		case gateway.Ignored:
			d.notice("Device %s: a message is ignored (%s).", d.id, e.Text)
		}
	}
	return nil
}

// errSilent says that a device has sent nothing for long, or no answer to its task.
var errSilent = errors.New("calibration: the device is silent")

// misbehaved is the error of a device that did what no device of this project does.
type misbehaved struct{ device, problem string }

func (m *misbehaved) Error() string { return "calibration: device " + m.device + ": " + m.problem }

// measure lets the device transfer models of all sizes, round by round, until its speeds are known
// well enough, and returns them with the number of transfers. Each round begins with another size,
// so that a connection that warms up does not favour one.
func (d *deviceSession) measure(ctx context.Context) (_ *Measured, err error) {
	params := int(d.welcome.Params)
	sizes := strings.ReplaceAll(strings.Trim(fmt.Sprint(calibrate.Sizes(params)), "[]"), " ", ", ")
	d.notice("Device %s is measured: models of %s values come and go.", d.id, sizes)
	measured := &Measured{Device: d.id}
	transferAll := func(round int) ([]calibrate.Transfer, error) { return d.transferAll(ctx, round) }
	link := "The link of " + d.id
	measured.Network, measured.Transfers, err = calibrate.Exchange(
		link,
		params,
		d.config.Seconds,
		d.config.Notice,
		transferAll,
	)
	measured.Time = time.Now()
	return measured, err
}

// transferAll lets the device transfer each model once, one after the other, and returns how long each took. A
// round of another number begins with another size. It may be -1 for a first round that does not count. After an
// error it returns the transfers before it, too.
func (d *deviceSession) transferAll(ctx context.Context, round int) (all []calibrate.Transfer, err error) {
	sizes := len(d.models)
	for i := range sizes {
		// The size with which a round begins is the one behind that of the round before.
		size := (i + round + sizes) % sizes
		// The smallest model, of one value, shows the delay alone, so it needs no pause before it.
		if len(d.models[size]) > 1 {
			if err := calibrate.Pause(ctx, d.config.Pause); err != nil {
				return all, err
			}
		}
		transfer, err := d.transfer(ctx, size)
		if err != nil {
			return all, err
		}
		all = append(all, transfer)
	}
	return all, nil
}

// transfer lets the device transfer one model, given by its index, and returns how long download and
// upload took by the device's clock. It sends the task again if the device does not seem to have it, and
// gives up with errSilent if nothing is heard of the device any more.
func (d *deviceSession) transfer(ctx context.Context, model int) (measured calibrate.Transfer, err error) {
	d.task = &bus.Task{
		Task:        d.task.Task + 1,
		Round:       1,
		LocalSteps:  uint32(max(1, d.config.LocalSteps)),
		ModelDigest: d.digests[model][:],
		ModelBits:   32 * uint64(len(d.models[model])),
	}
	mayBeLost := true
	sent := time.Now()
	for {
		if mayBeLost {
			if err := d.gateway.SendTask(onlyDevice, d.task); err != nil {
				return measured, err
			}
		}
		limited, stop := context.WithTimeout(ctx, min(resendAfter, d.config.Silence))
		update, err := d.awaitUpdate(limited)
		stop()
		switch {
		case err == nil && update != nil:
			return calibrate.Transfer{
				Values:   len(d.models[model]),
				Download: float64(update.DownloadNs) / 1e9,
				Upload:   float64(update.UploadNs) / 1e9,
			}, nil
		case ctx.Err() != nil:
			return measured, context.Cause(ctx)
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return measured, err
		case time.Since(d.gateway.LastHeard(onlyDevice)) > d.config.Silence, time.Since(sent) > taskLimit:
			return measured, errSilent
		}
		// A device that works on the task would send its message over, and its upload would look slower
		// than those of a run, in which such a task is not sent again either. Without an error and without an
		// update the device has joined anew, and may have lost the task.
		rejoined := err == nil
		mayBeLost = rejoined || !d.gateway.WorksOnTask(onlyDevice)
	}
}

// awaitUpdate waits for the update of the open task. It returns nil if the device may have lost the
// task, so that it must be sent again. A refused update is an error.
func (d *deviceSession) awaitUpdate(ctx context.Context) (*bus.DeviceUpdate, error) {
	for {
		if err := d.takeEvents(ctx); err != nil {
			return nil, err
		}
		for _, e := range d.events {
			switch e.Kind {
			case gateway.Updated:
				if e.Update.Task == d.task.Task {
					return e.Update, nil
				}
			case gateway.Refused:
				return nil, &misbehaved{d.id, "an update is refused: " + e.Text}
			// The device may have lost the task.
			case gateway.Joined, gateway.Reconnected:
				return nil, nil
			}
		}
	}
}
