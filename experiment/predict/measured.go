package predict

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/metrics/eventlog"
)

// record is what a run with real devices left of its times.
type record struct {
	rounds []measured
	known  bool // the tasks of devices are known: the run kept an event log
	ahead  bool // the run is to come: nothing is measured
	left   int  // rounds that were left out, since the log had reached its size
}

// measured is a round of a run.
type measured struct {
	took  round.Time
	steps int // K_r
	all   int // tasks, those of simulated clients included
	tasks []deviceTask
}

// deviceTask is a task of a real device.
type deviceTask struct {
	device int // from 0
	parts  [len(phases)]round.Time
	lost   bool // the device fell silent over it
}

// partsOf are the phases of a plan, in their order.
func partsOf(p *round.Plan) [len(phases)]round.Time {
	return [...]round.Time{p.Download, p.Compute, p.Upload}
}

// taskOf is a task of the first-th client or a later one, which are devices.
func taskOf(e *round.TaskReport, first int) deviceTask {
	return deviceTask{device: e.Client - first, parts: partsOf(&e.Plan), lost: e.Outcome == round.Lost || e.Outcome == round.Dropped}
}

// read reads the rounds of the run in a folder.
func read(dir string, first int) (r record, err error) {
	for report, err := range folder.Reports(filepath.Join(dir, folder.RoundsFile)) {
		if err != nil {
			return r, err
		}
		r.rounds = append(r.rounds, measured{took: report.End - report.Start, steps: report.LocalSteps, all: report.Cohort})
	}
	f, err := os.Open(filepath.Join(dir, eventlog.File))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer f.Close() // read only
	r.known = true
	return r, r.readTasks(f, first)
}

// readTasks reads the tasks of devices from an event log. The rounds from the first on
// that the log does not hold, since it had reached its size, are left out of the record.
func (r *record) readTasks(f *os.File, first int) error {
	log, err := eventlog.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	for last := 0; ; last++ {
		next, err := log.Round()
		if errors.Is(err, io.EOF) || err == nil && next.Round > len(r.rounds) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		if next.Round != last+1 {
			r.left, r.rounds = len(r.rounds)-last, r.rounds[:last]
			return nil
		}
		for i := range next.Tasks {
			if t := &next.Tasks[i]; t.Real && t.Client >= first {
				m := &r.rounds[next.Round-1]
				m.tasks = append(m.tasks, taskOf(&t.TaskReport, first))
			}
		}
	}
}
