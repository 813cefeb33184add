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
	"fedpace/internal/robust"
)

// Run is the name of the run under which devices are calibrated by default.
const Run = bus.Calibration

// Transfer is one model that was fetched and sent back as an update. Times are in seconds.
type Transfer struct {
	// Values is the number of values of the model, each a float32.
	Values int
	// Download is the time of fetching the model, in seconds.
	Download float64
	// Upload is the time of sending it back, in seconds.
	Upload float64
}

// Sizes returns the sizes of the models that are transferred to measure a link, in values, for a main model
// of params values. In this order they are a single value, whose transfer takes a round trip; a second
// size, to separate speed from overhead; and the main one.
func Sizes(params int) []int {
	// chunk is the second size for a small model, in values.
	const chunk = 1 << 17
	if params < chunk/2 {
		return []int{1, chunk, params}
	}
	return []int{1, params / 4, params}
}

// Link is the speed of one direction.
type Link struct {
	// Mbps is the speed in Mbit/s.
	Mbps robust.Estimate `json:"mbps"`
	// ModelSeconds is the time of the main model.
	ModelSeconds robust.Estimate `json:"whole_seconds"`
	// Transfers is the number of transfers of that model.
	Transfers int `json:"transfers"`
	Phase
}

// Network is a device's link to a coordinator.
type Network struct {
	// Server is the address of the server that carried the models.
	Server string `json:"server"`
	// Params is the number of values of the model whose transfers matter.
	Params int `json:"params"`
	// RoundTrip is the time of one request and its answer.
	RoundTrip robust.Estimate `json:"round_trip_seconds"`
	// LocalSteps are those of the first tasks of the coordinator's runs. 1 means that it does not say.
	LocalSteps int `json:"local_steps"`
	// Download and Upload are the two directions.
	Download Link `json:"download"`
	Upload   Link `json:"upload"`
}

// fitNetwork fits a line to the transfers of each direction, where params is the number of values of
// the model. It returns false while a size has no transfers. The first transfer of each size is a
// warm-up, as a connection's windows grow, and is left out.
func fitNetwork(params int, transfers []Transfer) (n Network, ok bool) {
	n.Params = params
	downloadSeconds := func(t *Transfer) float64 { return t.Download }
	uploadSeconds := func(t *Transfer) float64 { return t.Upload }
	downloads := groupsOf(transfers, downloadSeconds)
	uploads := groupsOf(transfers, uploadSeconds)
	for _, size := range Sizes(params) {
		if len(downloads[size].Seconds) == 0 || len(uploads[size].Seconds) == 0 {
			return n, false
		}
	}
	n.Download = fitLink(params, downloads)
	n.Upload = fitLink(params, uploads)
	// What the very first model took beyond the median is the delay of a first task.
	if first := &transfers[0]; first.Values == params {
		n.Download.FirstTask = max(0, first.Download-n.Download.ModelSeconds.Value)
		n.Upload.FirstTask = max(0, first.Upload-n.Upload.ModelSeconds.Value)
	}
	// One value is sent and acknowledged, which is a round trip.
	n.RoundTrip = robust.MedianOf(uploads[1].Seconds, 0.95)
	return n, true
}

// groupsOf groups the times of transfers in one direction, which seconds returns, by the number of values
// transferred. The first transfer of each size is left out.
func groupsOf(transfers []Transfer, seconds func(*Transfer) float64) map[int]Group {
	groups := map[int]Group{}
	for i := range transfers {
		t := &transfers[i]
		group, isRepeated := groups[t.Values]
		group.Size = float64(t.Values)
		if isRepeated {
			group.Seconds = append(group.Seconds, seconds(t))
		}
		groups[t.Values] = group
	}
	return groups
}

// fitLink fits the line of one direction to the groups of transfers of the model, of params values, and of the
// second size (see [Sizes]).
func fitLink(params int, groups map[int]Group) Link {
	secondSize := Sizes(params)[1]
	return linkOf(fitLine(groups[params], groups[secondSize]))
}

// linkOf makes a link of a fitted line: the line gives the seconds of a transfer by its number of values, the link
// a speed in Mbit/s. The upper end of the speed's interval is at most 1e6 Mbit/s.
func linkOf(line Line) Link {
	// megabits is the size of a value of 32 bits, in megabits.
	const megabits = 32e-6
	link := Link{
		Mbps:         line.Slope.Over(megabits),
		ModelSeconds: line.Main,
		Transfers:    len(line.Factors),
		Phase:        line.phase(),
	}
	link.Mbps.High = min(link.Mbps.High, 1e6)
	// The interval of the slope may reach zero, whose inverse is no speed.
	if math.IsNaN(link.Mbps.High) {
		link.Mbps.High = 1e6
	}
	// Rest are the factors on the times of transfers, without what transfers near in time have in common. A longer time
	// is a lower speed, so they are inverted.
	for _, f := range vary(line.Blocks.Rest) {
		link.Vary = append(link.Vary, 1/f)
	}
	slices.Sort(link.Vary)
	return link
}

// width returns half the wider interval of the two directions, relative to its value.
func (n *Network) width() float64 {
	return max(n.Download.ModelSeconds.RelativeHalfWidth(), n.Upload.ModelSeconds.RelativeHalfWidth())
}

// Speed returns the speed with its interval, for people.
func (l *Link) Speed() string { return formatEstimate(l.Mbps, "Mbit/s") }

// Exchange repeats rounds of transfers for the given seconds, or for wantedRounds rounds if these take less,
// and longer if the result is noisy ([stopping.needsRound] has the rule). params is the number of values of
// the model, and subject names the link for people, whom notice informs. round makes the transfers of a
// round; its number is -1 for the first one, a warm-up. It returns the link and the number of transfers, with
// those of the warm-up.
func Exchange(
	subject string,
	params int,
	seconds float64,
	notice func(string),
	round func(number int) ([]Transfer, error),
) (n Network, transfers int, err error) {
	var all []Transfer
	stop := stopping{seconds: seconds, sufficientRounds: wantedRounds, notice: notice}
	spent := 0.0
	width := math.Inf(1)
	// The width stays infinite until every size has a transfer.
	for number := -1; number < 0 || stop.needsRound(subject, number, spent, width); number++ {
		measured, err := round(number)
		// fitNetwork leaves the warm-up out.
		all = append(all, measured...)
		if err != nil {
			return n, len(all), err
		}
		for _, transfer := range measured {
			spent += transfer.Download + transfer.Upload
		}
		if fitted, ok := fitNetwork(params, all); ok {
			n = fitted
			width = fitted.width()
		}
	}
	return n, len(all), nil
}

// Pause waits for the given time. It returns nil, or the cause if ctx ends first. A pause of 0
// returns at once.
func Pause(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// NetworkConfig describes a device that measures its link.
type NetworkConfig struct {
	ID string
	// Run is the run under which its coordinator calibrates. Empty means the one that calls.
	Run string
	// Samples is the maximum number of samples in the device's credentials. 0 means any number.
	Samples uint64
	Notice  func(string)
	// Begin is called with the phase that is measured next.
	Begin func(bus.Phase)
}

// MeasureNetwork takes tasks from a coordinator that calibrates until the coordinator has enough, and
// returns the link and the coordinator's welcome. It does with each model what a real device does, but
// learns nothing in between. conn is the connection to the bus.
func MeasureNetwork(ctx context.Context, conn bus.Line, c NetworkConfig) (n Network, _ *bus.Welcome, err error) {
	device, err := gateway.OpenDevice(ctx, conn, gateway.DeviceConfig{
		ID:      c.ID,
		Run:     c.Run,
		Samples: c.Samples,
		Notice:  c.Notice,
		Join:    &bus.Join{Name: c.ID, Protocol: bus.DeviceProtocol},
	})
	if err != nil {
		return n, nil, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	var transfers []Transfer
	var welcome *bus.Welcome
	steps := 0
	for {
		// Begin says which phase is under way, for the measurement of power. While the device waits there is none.
		c.Begin(bus.NoPhase)
		task, err := device.Next(ctx)
		if errors.Is(err, gateway.ErrOver) {
			break
		}
		if err != nil {
			return n, nil, err
		}
		// The first task shows that the measurement has begun.
		if welcome == nil {
			c.Notice("Models come and go.")
		}
		welcome = task.Welcome
		steps = int(task.Task.LocalSteps)
		c.Begin(bus.Download)
		measured, err := transfer(device, task, c.Begin)
		switch {
		case err == nil:
			transfers = append(transfers, measured)
		// The user has ended the measurement.
		case ctx.Err() != nil:
			return n, nil, ctx.Err()
		case conn.Err() != nil:
			return n, nil, err
		// The task is still valid, so the coordinator sends it again, or another one.
		case task.Context.Err() == nil:
			c.Notice(fmt.Sprintf("Transfer %d: %v.", task.Task.Task, err))
		}
	}
	if welcome == nil {
		return n, nil, errors.New("calibrate: the coordinator ended before it measured this device")
	}
	// The device computes the result from its own times, as the coordinator does.
	n, ok := fitNetwork(int(welcome.Params), transfers)
	if !ok {
		return n, nil, fmt.Errorf(
			"calibrate: the coordinator ended after %d transfers, which is too few",
			len(transfers),
		)
	}
	n.LocalSteps = steps
	for i, l := range []*Link{&n.Download, &n.Upload} {
		if l.Noisy {
			c.Notice(fmt.Sprintf(
				"The %s stays noisy: ±%.3g %% after %d models.",
				[...]string{"download", "upload"}[i],
				100*l.ModelSeconds.RelativeHalfWidth(),
				l.Transfers,
			))
		}
	}
	return n, welcome, nil
}

// transfer fetches the model of task t and sends it back, as a real device does before and after
// its local steps, and returns the seconds of both ways. begin is called when the upload starts.
func transfer(d *gateway.Device, t *gateway.DeviceTask, begin func(bus.Phase)) (x Transfer, err error) {
	model, err := d.Model(t.Context, t.Run, bus.DigestFrom(t.Task.ModelDigest))
	if err != nil {
		return x, err
	}
	download := time.Since(t.Received)
	begin(bus.Upload)
	// The update is the model itself, so that both ways carry the same number of bytes.
	update := &bus.DeviceUpdate{Values: model, Update: &bus.Update{
		Task:       t.Task.Task,
		TaskDigest: t.Task.Digest,
		DownloadNs: download.Nanoseconds(),
		Samples:    1,
	}}
	err = d.Send(t.Context, t.Run, update)
	// If the task was ended by the next one after the upload, only the answer to it is missing, and the
	// transfer counts.
	isUploaded := update.UploadNs > 0 && t.Context.Err() != nil
	if err != nil && !isUploaded {
		return x, err
	}
	return Transfer{
		Values:   len(model),
		Download: download.Seconds(),
		Upload:   float64(update.UploadNs) / 1e9,
	}, nil
}
