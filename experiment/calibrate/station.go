package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"fedpace/bus"
	"fedpace/bus/gateway"
)

// station is a device as its goroutine knows it.
type station struct {
	*server
	index   int
	id      string
	gateway *gateway.Gateway
	task    *bus.Task // open, or the last one
	events  []gateway.Event
}

// device opens a gateway for one device alone, measures it, and tells it that the run is
// over.
func (s *server) device(ctx context.Context, index int) (err error) {
	d := &station{server: s, index: index, id: s.config.Devices[index], task: &bus.Task{Task: firstTask}}
	d.gateway, err = gateway.Open(ctx, s.line, s.config.Run, gateway.Config{
		Devices: []string{d.id}, First: index, Welcome: s.welcome, Calls: s.config.Calls,
		Params: func(t *bus.Task) int { return int(t.ModelBits / 32) },
		Check: func(u *bus.DeviceUpdate) error {
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
	if m := (*misbehaved)(nil); errors.As(err, &m) { // which is no other device's business
		s.notice("Device %s is not measured: %s.", m.device, m.what)
		s.failures[index], err = err, nil
	}
	return err
}

// serve waits until the device is there and it is its turn, and measures it; again where it
// fell silent.
func (d *station) serve(ctx context.Context) error {
	for {
		if err := d.joined(ctx); err != nil {
			return err
		}
		select {
		case d.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m, err := d.measure(ctx)
		<-d.turn
		switch {
		case errors.Is(err, errSilent):
			d.notice("Device %s fell silent after %d transfers; it is measured anew when it joins again.", d.id, m.Transfers)
			d.gateway.Lost(0)
		case err != nil:
			return err
		default:
			d.results[d.index] = m
			d.notice("Device %s is measured: %d transfers, download %s, upload %s.", d.id, m.Transfers, text(m.Network.Download.Mbps, "Mbit/s"), text(m.Network.Upload.Mbps, "Mbit/s"))
			return nil
		}
	}
}

// joined waits until the device is there.
func (d *station) joined(ctx context.Context) error {
	for {
		if err := d.take(ctx); err != nil {
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

// take waits for what the device does, and tells of what it should not do.
func (d *station) take(ctx context.Context) (err error) {
	if d.events, err = d.gateway.TakeEvents(ctx, d.events); err != nil {
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

// errSilent says that nothing is heard of a device, or nothing of its task for long.
var errSilent = errors.New("calibrate: the device is silent")

// misbehaved says that a device did what none of ours does.
type misbehaved struct{ device, what string }

func (m *misbehaved) Error() string { return "calibrate: device " + m.device + ": " + m.what }

// measure has the device transfer models until its speeds are known.
func (d *station) measure(ctx context.Context) (*Measured, error) {
	d.notice("Device %s is measured: models of %s values come and go.", d.id, list(sizes(int(d.welcome.Params))))
	var transfers []Transfer
	m := &Measured{Device: d.id}
	e := effort{seconds: d.config.Seconds, enough: wantedRounds, say: d.config.Notice}
	spent, width := 0.0, math.Inf(1)
	for round := -1; round < 0 || e.more("The link of "+d.id, round, spent, width); round++ { // the first is a warm-up
		for _, i := range order(round, len(d.models)) {
			if len(d.models[i]) > 1 {
				if err := rest(ctx, d.config.Pause); err != nil {
					return m, err
				}
			}
			x, err := d.once(ctx, i)
			if err != nil {
				return m, err
			}
			m.Transfers++
			spent += x.Download + x.Upload
			transfers = append(transfers, x)
		}
		if n, ok := summarise(int(d.welcome.Params), transfers); ok {
			m.Network, width = n, n.width()
		}
	}
	m.At = time.Now()
	return m, nil
}

// rest waits.
func rest(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	over := time.NewTimer(pause)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over.C:
		return nil
	}
}

// order is the order of n sizes in a round, which begins with another one each time.
func order(round, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = (i + round + n) % n
	}
	return list
}

// once sends one task and waits for its update.
func (d *station) once(ctx context.Context, model int) (x Transfer, err error) {
	d.task = &bus.Task{
		Task: d.task.Task + 1, Round: 1, LocalSteps: uint32(max(1, d.config.LocalSteps)), ModelDigest: d.digests[model][:], ModelBits: 32 * uint64(len(d.models[model])),
	}
	for sent := time.Now(); ; {
		if err := d.gateway.SendTask(0, d.task); err != nil {
			return x, err
		}
		waiting, stop := context.WithTimeout(ctx, min(resend, d.config.Silence))
		u, err := d.answer(waiting)
		stop()
		switch {
		case err == nil && u != nil:
			return Transfer{len(d.models[model]), float64(u.DownloadNs) / 1e9, float64(u.UploadNs) / 1e9}, nil
		case ctx.Err() != nil:
			return x, context.Cause(ctx)
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return x, err
		case time.Since(d.gateway.Heard(0)) > d.config.Silence, time.Since(sent) > taskLimit:
			return x, errSilent
		}
	}
}

// answer waits for the update of the open task; nil when it must be sent again.
func (d *station) answer(ctx context.Context) (*bus.DeviceUpdate, error) {
	for {
		if err := d.take(ctx); err != nil {
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
			case gateway.Joined, gateway.Reconnected: // it may have lost the task
				return nil, nil
			}
		}
	}
}

// list is some numbers for people.
func list(sizes []int) string {
	text := ""
	for i, n := range sizes {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(n)
	}
	return text
}
