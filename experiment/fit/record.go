package fit

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/statistics"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/outputs"
)

// Limits of what is kept of a long run: evenly spaced tasks of each device, and rounds.
const (
	maxKeptTasks  = 1 << 10
	maxKeptRounds = 1 << 8
)

// record is what a run's folder says of its devices.
type record struct {
	config config.Config
	// firstDevice is the client number of the first device: the number of simulated clients.
	firstDevice int
	// bits are the sizes of a task's transfers, as simulations have them.
	bits fleet.Bits
	// rounds is the number of logged rounds.
	rounds int
	// devices are in the order of the configuration.
	devices []deviceHistory
	// sampled holds some of the rounds, evenly spaced.
	sampled statistics.Thinned[roundRecord]
}

// deviceHistory is a device with its tasks.
type deviceHistory struct {
	config.Device
	// tasks holds some of the tasks that say how fast the device is, evenly spaced.
	tasks statistics.Thinned[task]
	// usable is the number of such tasks, kept or not.
	usable int
	// leftOut counts all other tasks.
	leftOut LeftOut
	// firstTask is the device's first task with known times, which is not among tasks.
	firstTask task
}

// LeftOut counts the tasks of a device that say nothing of its speed.
type LeftOut struct {
	// First is 1 if the first task with known times was left out, because it prepares and connects.
	First int `json:"first"`
	// Lost is the number of tasks during which the device fell silent.
	Lost int `json:"lost"`
	// Refused is the number of tasks whose update was not valid.
	Refused int `json:"refused"`
	// Broken is the number of tasks whose times are not known, because the round closed or the run ended
	// before.
	Broken int `json:"broken"`
}

// The phases of a task, in the order of time.
const (
	download = iota
	compute
	upload
	phases
)

// task is one task of a device: its local steps and the seconds of each phase.
type task struct {
	number        uint64
	client, steps int
	took          [phases]float64
}

// seconds is the time of the whole task.
func (x *task) seconds() float64 { return x.took[download] + x.took[compute] + x.took[upload] }

// roundRecord is a round.
type roundRecord struct {
	// took is how long the round took, and simulated how long the longest task of a simulated client, in
	// seconds.
	took, simulated float64
	// tasks are those of devices.
	tasks []task
	// complete says that the times of all of these tasks are known.
	complete bool
}

// readRecord reads what the run in folder dir has recorded of its devices. The run may have been
// interrupted. A run without devices or without an event log is an error.
func readRecord(dir string) (*record, error) {
	opened, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	r := &record{config: opened.Config, sampled: statistics.Thin[roundRecord](maxKeptRounds)}
	if len(r.config.Devices.Names) == 0 {
		return nil, fmt.Errorf("%s: the run has no real devices, so there is nothing to fit", dir)
	}
	for _, d := range r.config.Devices.Names {
		r.devices = append(r.devices, deviceHistory{Device: d, tasks: statistics.Thin[task](maxKeptTasks)})
	}
	if err := r.setSizes(dir); err != nil {
		return nil, err
	}
	log, err := eventlog.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"%s: nothing there says what its devices took: it holds no %s (run it without events.sample: off)",
			dir,
			eventlog.File,
		)
	}
	if err != nil {
		return nil, err
	}
	r.firstDevice = log.Run().Clients
	for logged, err := range log.Rounds() {
		if err != nil {
			return nil, err
		}
		r.addRound(logged)
	}
	return r, nil
}

// setSizes sets how many bits a transfer has in the run's simulation: as the configuration says, or as follows
// from the model that the run has left in its folder dir. Without either it returns an error.
func (r *record) setSizes(dir string) error {
	params := 0
	if r.config.Network.ModelMegabits == 0 {
		var err error
		for _, name := range []string{outputs.ModelFile, outputs.BestModelFile} {
			params, err = folder.ModelParams(filepath.Join(dir, name))
			if err == nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("%s: the size of the model is not known: network.model_megabits is exact, and %w "+
				"(let the run go on to its end: fedpace resume %s)", dir, err, dir)
		}
	}
	model, update := r.config.Bits(params, params)
	r.bits = fleet.Bits{Down: int64(model), Up: int64(update)}
	return nil
}

// addRound adds a logged round: its length, the longest task of a simulated client, and the tasks of
// devices. A round is complete if the times of all its device tasks are known.
func (r *record) addRound(logged *metrics.Round) {
	r.rounds++
	added := roundRecord{took: (logged.End - logged.Start).Seconds(), complete: true}
	for i := range logged.Tasks {
		t := &logged.Tasks[i]
		device := t.Client - r.firstDevice
		isOfDevice := device >= 0 && device < len(r.devices)
		switch {
		case !t.Real:
			added.simulated = max(added.simulated, (t.End - t.Start).Seconds())
		case isOfDevice && !t.Probe:
			x, isUsable := r.devices[device].addTask(&t.TaskReport)
			added.tasks = append(added.tasks, x)
			added.complete = added.complete && isUsable
		}
	}
	r.sampled.Add(added)
}

// addTask adds a reported task to its device's history, and returns it. isUsable is false for a task that says nothing
// of the device's speed, which is counted by its reason alone: it was lost, refused or broken off, or it was the
// device's first one, which is kept apart because it includes loading.
func (h *deviceHistory) addTask(report *round.TaskReport) (t task, isUsable bool) {
	t = task{
		number: report.Task,
		client: report.Client,
		steps:  report.LocalSteps,
		took: [...]float64{
			report.Plan.Download.Seconds(),
			report.Plan.Compute.Seconds(),
			report.Plan.Upload.Seconds(),
		},
	}
	// A phase that the task did not reach, or did not finish, has no duration.
	lacksTimes := t.steps < 1 || min(t.took[download], t.took[compute], t.took[upload]) <= 0
	switch {
	case report.Outcome == round.Lost:
		h.leftOut.Lost++
	case report.Outcome == round.Refused:
		h.leftOut.Refused++
	case report.Plan.Drops || lacksTimes:
		h.leftOut.Broken++
	// The first task with known times is kept apart.
	case h.leftOut.First == 0:
		h.leftOut.First = 1
		h.firstTask = t
	default:
		h.usable++
		h.tasks.Add(t)
		return t, true
	}
	return t, false
}

// comparableRounds returns the recorded rounds whose length can be compared with that of the same tasks by fitted
// classes: those that last as long as their slowest task. Only rounds that wait for all clients do, on links that
// clients do not share. It returns none for other runs.
func (r *record) comparableRounds() (list []roundRecord) {
	if _, all := r.config.Close.(closing.All); !all || r.config.Network.Shared() {
		return nil
	}
	for _, s := range r.sampled.Kept {
		if s.complete && len(s.tasks) > 0 {
			list = append(list, s)
		}
	}
	return list
}
