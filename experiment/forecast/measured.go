package forecast

import (
	"errors"
	"io/fs"
	"path/filepath"

	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
)

// record holds the times that a run with real devices has left in its folder.
type record struct {
	rounds []roundTimes
	// hasEvents says that the tasks of devices are known, because the run kept an event log.
	hasEvents bool
	// isFuture says that the run is to come, so that nothing is measured.
	isFuture bool
	// skipped is the number of the last rounds that were left out, because the log lacks the first of them.
	skipped int
	// samples holds what devices reported of their samples, by client. It is nil if that is not known.
	samples map[int]devicelog.Samples
}

// roundTimes are those of a round of a run, or of a draw.
type roundTimes struct {
	// took is the virtual time of the round.
	took round.Time
	// steps is K_r.
	steps int
	// allTasks is the number of tasks, those of simulated clients included.
	allTasks int
	// tasks are those of real devices.
	tasks []deviceTask
}

// deviceTask is one task of a device and what it took.
type deviceTask struct {
	// device is the device's index in the configuration, from 0.
	device int
	// parts are the durations of the phases.
	parts [len(phases)]round.Time
	// lost says that the device fell silent or dropped out during the task.
	lost bool
}

// phases are the parts of a task that a device measures, in the order of its columns.
var phases = [...]metrics.Phase{metrics.Download, metrics.Compute, metrics.Upload}

// taskOf returns the task of a real device that e reports. Devices are the clients from number firstDevice on.
func taskOf(e *round.TaskReport, firstDevice int) deviceTask {
	return deviceTask{
		device: e.Client - firstDevice,
		parts:  [...]round.Time{e.Plan.Download, e.Plan.Compute, e.Plan.Upload},
		lost:   e.Outcome == round.Lost || e.Outcome == round.Dropped,
	}
}

// reportedSamples reads from the log of devices in the run's folder how many samples each client has
// reported. It is nil if the folder has no such log, as one that was published.
func reportedSamples(dir string) (map[int]devicelog.Samples, error) {
	switch log, err := devicelog.Open(dir); {
	case errors.Is(err, devicelog.ErrNoLog):
		return nil, nil
	case err == nil || errors.Is(err, devicelog.ErrNoUpdates):
		return log.Reported, nil
	default:
		return nil, err
	}
}

// readRecord reads what was measured in the run of folder dir: rounds.csv, and the tasks of real devices
// from the event log if there is one. Clients from number firstDevice on are devices. If rounds are
// missing in the log, as because it had reached its size, only the rounds before the first missing
// one are returned, and skipped counts the others.
func readRecord(dir string, firstDevice int) (r record, err error) {
	for report, err := range folder.Reports(filepath.Join(dir, folder.RoundsFile)) {
		if err != nil {
			return r, err
		}
		r.rounds = append(
			r.rounds,
			roundTimes{took: report.End - report.Start, steps: report.LocalSteps, allTasks: report.Cohort},
		)
	}
	log, err := eventlog.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.hasEvents = true
	// found is the number of rounds, from the first on, that the log has without a gap.
	found := 0
	for next, err := range log.Rounds() {
		if err != nil {
			return r, err
		}
		isAhead := next.Round > len(r.rounds)
		lacksRound := next.Round != found+1
		if isAhead || lacksRound {
			break
		}
		current := &r.rounds[found]
		for i := range next.Tasks {
			if t := &next.Tasks[i]; t.Real && t.Client >= firstDevice {
				current.tasks = append(current.tasks, taskOf(&t.TaskReport, firstDevice))
			}
		}
		found++
	}
	r.skipped = len(r.rounds) - found
	r.rounds = r.rounds[:found]
	return r, nil
}

// means holds mean times of a draw, or of a run.
type means struct {
	// rounds holds for each round its seconds, in column roundSeconds, and then, from column firstPhase on, the mean
	// seconds of each phase over the tasks that devices answered in it, NaN if they answered none.
	rounds [][columns]float64
	// devices holds, for each device and phase, the seconds of all tasks that it answered, and as the amount the
	// number of these tasks. So the mean of a rate is the seconds a task, NaN for a device that answered none.
	devices [][len(phases)]rate
}

// The columns of a round in [means].
const (
	roundSeconds = 0
	firstPhase   = 1
	columns      = firstPhase + len(phases)
)

// meansOf returns the mean duration of each phase, for each of these rounds and for each device, of which there is
// this number.
func meansOf(rounds []roundTimes, devices int) *means {
	m := &means{devices: make([][len(phases)]rate, devices)}
	for i := range rounds {
		m.add(&rounds[i])
	}
	return m
}

// add adds round r to the means: a row of its own, and its tasks to those of the devices. Tasks that were lost
// have no durations and do not count, nor do those of devices beyond the number that m was made for.
func (m *means) add(r *roundTimes) {
	// ofRound has for each phase the seconds of the round's tasks and their number.
	var ofRound [len(phases)]rate
	for _, t := range r.tasks {
		if t.lost || t.device >= len(m.devices) {
			continue
		}
		for p, took := range t.parts {
			ofRound[p].add(took.Seconds(), 1)
			m.devices[t.device][p].add(took.Seconds(), 1)
		}
	}
	row := [columns]float64{roundSeconds: r.took.Seconds()}
	for p := range ofRound {
		row[firstPhase+p] = ofRound[p].mean()
	}
	m.rounds = append(m.rounds, row)
}

// total is the time of all rounds together, in seconds.
func (m *means) total() (seconds float64) {
	for _, r := range m.rounds {
		seconds += r[roundSeconds]
	}
	return seconds
}

// phase returns the mean duration of phase p, an index of phases, in seconds, over the tasks of all devices and
// rounds. It is NaN if no task was answered.
func (m *means) phase(p int) float64 {
	var all rate
	for i := range m.devices {
		all.add(m.devices[i][p].seconds, m.devices[i][p].amount)
	}
	return all.mean()
}

// device is the mean time of a task of device i, in seconds: the sum of the means of its phases. It is NaN if the
// device answered no task.
func (m *means) device(i int) (seconds float64) {
	for p := range m.devices[i] {
		seconds += m.devices[i][p].mean()
	}
	return seconds
}
