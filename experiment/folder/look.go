package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"fedpace/actors/measure"
	"fedpace/experiment/config"
	"fedpace/internal/human"
	"fedpace/metrics"
)

// RunState is where a run stands.
type RunState string

const (
	RunComplete RunState = "complete"
	RunStopped  RunState = "stopped" // interrupted, failed or killed: it can be resumed
	RunRunning  RunState = "running"
	RunDamaged  RunState = "damaged" // its configuration or its summary cannot be read
)

// StateOf is where the run in a folder stands, with its summary if it has one. An error
// says what is damaged.
func StateOf(dir string) (RunState, *Summary, error) {
	s, err := ReadSummary(filepath.Join(dir, SummaryFile))
	switch {
	case err == nil && s.Completed:
		return RunComplete, &s, nil
	case err == nil && !Running(dir):
		return RunStopped, &s, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return RunDamaged, nil, err
	case Running(dir):
		return RunRunning, nil, nil
	}
	return RunStopped, nil, nil
}

// Overview is a run at a glance.
type Overview struct {
	Dir     string
	State   RunState
	Why     error // what is damaged; nil: nothing is known to be
	Config  config.Config
	Summary *Summary // nil: the run goes on, or was killed
	Rounds  int
	Virtual float64         // seconds
	Quality measure.Quality // by which models are compared
	Best    float64         // of Quality; NaN: not measured yet
}

// Look reads the run in a folder as far as it has come.
func Look(dir string) Overview {
	o := Overview{Dir: dir, Best: math.NaN()}
	if o.Config, o.Why = config.Load(filepath.Join(dir, ConfigFile), nil); o.Why != nil {
		o.State = RunDamaged
		return o
	}
	if o.State, o.Summary, o.Why = StateOf(dir); o.Why != nil {
		return o
	}
	o.Quality, _ = QualityOf(dir, &o.Config) // none before the first round
	if s := o.Summary; s != nil {
		o.Rounds, o.Virtual = s.Rounds, s.VirtualSeconds
		if m := s.Metric(o.Quality.Name); m.Best != nil {
			o.Best = *m.Best
		}
		return o
	}
	for r, err := range Follow(dir, &o.Config) {
		if err != nil {
			break // the last row of a run that goes on may be torn, or there is none yet
		}
		o.Rounds, o.Virtual, o.Best = r.Round, r.End.Seconds(), r.Best
	}
	return o
}

// Sentence says what a folder holds, as in "runs/demo holds a run that ...".
func (o *Overview) Sentence() string {
	after := fmt.Sprintf("after %s %s", human.Thousands(int64(o.Rounds)), human.Plural(o.Rounds, "round"))
	switch o.State {
	case RunComplete:
		return fmt.Sprintf("%s holds a run that is complete, %s", o.Dir, after)
	case RunRunning:
		return fmt.Sprintf("%s holds a run that is still going on", o.Dir)
	case RunStopped:
		return fmt.Sprintf("%s holds a run that was stopped %s (to go on: fedpace resume %s)", o.Dir, after, o.Dir)
	}
	return fmt.Sprintf("%s holds a run that is damaged (fedpace verify %s)", o.Dir, o.Dir)
}

// maxClaims bounds how many folders of one name there are.
const maxClaims = 100_000

// Claim makes the first folder of base, base-2, base-3, ... that is not there, and
// returns it with the one before it, "" if there is none. No two calls make the same, in
// whatever processes. release removes the folder again if nothing has come into it.
func Claim(base string) (dir, before string, release func(), err error) {
	made, err := makeFolders(filepath.Dir(base))
	release = func() {
		for _, at := range slices.Backward(made) {
			if os.Remove(at) != nil {
				return // something is in it
			}
		}
	}
	for n := 1; err == nil && n <= maxClaims; n++ {
		if dir = base; n > 1 {
			dir = fmt.Sprintf("%s-%d", base, n)
		}
		err = os.Mkdir(dir, 0o777)
		if err == nil {
			made = append(made, dir)
			return dir, before, release, nil
		}
		if errors.Is(err, fs.ErrExist) {
			before, err = dir, nil
		}
	}
	release()
	if err == nil {
		err = fmt.Errorf("there are %d folders of that name", maxClaims)
	}
	return "", "", func() {}, fmt.Errorf("results: %s: %w (choose another with --out)", base, err)
}

// Remove removes the run in a folder: its files, and the folder if nothing else is in it.
// left are the names of what stays. A run that is still going on is refused.
func Remove(dir string) (left []string, err error) {
	if err := HoldsRun(dir); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	c, _ := config.Load(filepath.Join(dir, ConfigFile), nil) // one that cannot be read adds no outputs
	r, err := ReopenResults(dir)
	if err != nil {
		return nil, err
	}
	names := append(Files(c.Outputs...), unfinishedCheckpoint, NoiseFile)
	for _, name := range metrics.Sinks.Names() {
		sink, _ := metrics.Sinks.Entry(name)
		names = append(names, metrics.Spools(sink)...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == ConfigFile })
	// The configuration goes last: until then the folder is still known to hold a run.
	if err := errors.Join(r.clean(), failed(r.remove(append(names, ConfigFile)...)), r.Close()); err != nil {
		return nil, err
	}
	return RemoveEmpty(dir)
}

// RemoveEmpty removes a folder in which nothing is; else it returns what is.
func RemoveEmpty(dir string) (left []string, err error) {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		err = os.Remove(dir)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return left, failed(err)
}
