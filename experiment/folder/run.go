package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"

	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/internal/atomicfile"
	"fedpace/internal/human"
	"fedpace/internal/names"
	"fedpace/internal/regular"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// Run is the run in a folder, open for reading, also while it goes on. Only its configuration
// is kept: what else it has is read when it is asked for.
type Run struct {
	Dir    string
	Config config.Config

	// checkedStamps remembers the stamps of files that have been checked, by name.
	checkedStamps sync.Map
}

// Open reads the configuration of the run in a folder. Without one the error wraps [ErrNoRun]. With an error
// it returns a run, too, which knows its folder alone.
func Open(dir string) (r *Run, err error) {
	r = &Run{Dir: dir}
	err = HoldsRun(dir)
	if err == nil {
		r.Config, err = config.Load(r.Path(ConfigFile), nil)
	}
	return r, err
}

// About returns what outputs know of the run of a configuration, as far as the configuration says
// it. What follows from the model and the data, such as the metrics, is left out.
func About(c *config.Config) *metrics.Run {
	run := &metrics.Run{
		Name:           c.Name,
		Task:           string(c.Task),
		Schedule:       c.Schedule.Name(),
		Close:          closing.Rules.NameOf(c.Close),
		Closing:        c.ClosingText(),
		Seed:           c.Seed,
		Train:          c.Train,
		Clients:        c.Clients,
		Cohort:         c.Cohort,
		Window:         c.Schedule.Window,
		Devices:        c.Devices.IDs(),
		Deadline:       c.Close.Deadline(),
		Rounds:         c.Stop.Rounds,
		VirtualSeconds: c.Stop.VirtualSeconds,
		Power:          metrics.Power{Overlap: c.CountsLater()},
		Settings:       c.Settings(),
	}
	// Differences fails only for an unknown task, and this one was checked.
	run.NonDefault, _ = c.Differences()
	for i := range c.Fleet {
		run.Classes = append(run.Classes, c.Fleet[i].Name)
	}
	return run
}

// Path is the path of a file in the run's folder.
func (r *Run) Path(name string) string { return filepath.Join(r.Dir, name) }

// RunState is where a run stands.
type RunState string

// Where a run may stand.
const (
	// RunComplete means that the run has come to its end.
	RunComplete RunState = "complete"
	// RunStopped means interrupted or failed, with a summary: the run can be resumed.
	RunStopped RunState = "stopped"
	// RunKilled means that the process ended without a summary: the run can be resumed.
	RunKilled RunState = "killed"
	// RunDiverged means that the training has diverged, which ends the run.
	RunDiverged RunState = "diverged"
	// RunRunning means that a process is at work on the run.
	RunRunning RunState = "running"
	// RunDamaged means that the configuration or the summary cannot be read.
	RunDamaged RunState = "damaged"
	// RunChanged means that the files are not as the run left them.
	RunChanged RunState = "changed since the run"
)

// State returns where the run stands, with its summary if it has one. An error says what is
// damaged. A folder with neither a summary nor a process that fills it is that of a run that was
// killed.
func (r *Run) State() (RunState, *Summary, error) {
	summary, err := ReadSummary(r.Path(SummaryFile))
	if err == nil && summary.Completed {
		err = r.unchanged(&summary)
	}
	// The summary is written last, so a run with a whole one has ended.
	switch {
	case err == nil && summary.Completed:
		return RunComplete, &summary, nil
	case err == nil && summary.Diverged != "":
		return RunDiverged, &summary, nil
	case err == nil && !Running(r.Dir):
		return RunStopped, &summary, nil
	case errors.Is(err, ErrChanged):
		return RunChanged, nil, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return RunDamaged, nil, err
	case Running(r.Dir):
		return RunRunning, nil, nil
	}
	return RunKilled, nil, nil
}

// Rounds returns the reports of all rounds of the run in order, with the mean loss of their
// windows. An error is that of reading rounds.csv.
func (r *Run) Rounds() (list []round.Report, err error) {
	for p, err := range r.Follow() {
		if err != nil {
			return nil, err
		}
		list = append(list, p.Report)
	}
	return list, nil
}

// Quality returns the metric, or the loss, by which the run's models are compared. It is an error before the first
// round, when no file has the names of the metrics.
func (r *Run) Quality() (metric.Quality, error) {
	list, err := r.Metrics()
	if err != nil {
		return metric.Quality{}, err
	}
	return r.Config.Evaluate.Metric.QualityOf(list)
}

// Metrics returns the metrics by which the run's models are measured, in the order of their columns in rounds.csv. The
// file has only their names. So the metric by which models are compared is given as the configuration describes it,
// with whether lower values are better. A run of task quadratic has no metric: its column is empty.
func (r *Run) Metrics() (list []metric.Metric, err error) {
	columns, err := readHeader(r.Path(RoundsFile))
	if r.Config.Task == config.TaskQuadratic {
		return nil, err
	}
	for _, name := range metricsIn(columns) {
		list = append(list, metric.Metric{Name: name})
	}
	if q, err := r.Config.Evaluate.Metric.QualityOf(list); err == nil && q.Index >= 0 {
		list[q.Index] = q.Metric
	}
	return list, err
}

// ErrChanged is wrapped by the error for a folder that does not hold what its run wrote.
var ErrChanged = errors.New(string(RunChanged))

// maxQuickRead is how many bytes of a file are read, at most, where runs are only shown.
const maxQuickRead = 256 << 10

// unchanged returns an error if rounds.csv is gone, or if another file that is there is not what
// the run wrote, as the summary s says it. It is fast enough for a thousand runs: it compares
// lengths, and reads rounds.csv and small files again only when their length or time has changed.
// fedpace verify reads all files.
func (r *Run) unchanged(s *Summary) error {
	for _, d := range s.Files {
		info, err := os.Stat(r.Path(d.Name))
		// A user may remove files that are not needed, but not rounds.csv.
		if errors.Is(err, fs.ErrNotExist) && d.Name != RoundsFile {
			continue
		}
		// current is the file's stamp now; nil: it is gone. checked is its stamp when it was last found to hold what
		// the summary says; nil: it was not read yet.
		var current any
		hasLength := false
		if err == nil {
			current = stamp{d, info.Size(), info.ModTime().UnixNano()}
			hasLength = info.Size() == d.Size
		}
		checked, _ := r.checkedStamps.Load(d.Name)
		isChecked := checked == current
		isTooLarge := d.Size > maxQuickRead && d.Name != RoundsFile
		// Of a file that is too large to be read here, only the length is compared.
		if hasLength && (isChecked || isTooLarge) {
			continue
		}
		if err := d.Examine(r.Dir, Ended).Err(); err != nil {
			return fmt.Errorf("%s: %w: %w (fedpace verify %s)", r.Dir, ErrChanged, err, r.Dir)
		}
		// The file is not read again as long as its length and time stay.
		r.checkedStamps.Store(d.Name, current)
	}
	return nil
}

// stamp is the digest of a file with the file's length in bytes and its time of change in nanoseconds since
// 1970. A file with an equal stamp was found before to hold what the digest says.
type stamp struct {
	FileDigest
	size, time int64
}

// Overview is a run at a glance.
type Overview struct {
	*Run
	State RunState
	// Err says what is damaged; nil means that no damage is known.
	Err error
	// Summary is nil while the run goes on, and for a run that was killed.
	Summary *Summary
	Rounds  int
	// Virtual is the virtual time of the last round's end, in seconds.
	Virtual float64
	// Quality is the quantity by which models are compared.
	Quality metric.Quality
	// Best is the best value of Quality; it is NaN until one is measured.
	Best float64
}

// Inspect looks at the run in a folder: its state, and how far it has come. It never fails; what is
// wrong stands in the field Err of the result.
func Inspect(dir string) Overview {
	r, err := Open(dir)
	o := Overview{
		Run:   r,
		State: RunDamaged,
		Err:   err,
		Best:  math.NaN(),
	}
	if err != nil {
		return o
	}
	o.State, o.Summary, o.Err = r.State()
	if o.Err != nil {
		return o
	}
	// There is no quality before the first round.
	o.Quality, _ = r.Quality()
	// A run that has ended says in its summary how far it came.
	if s := o.Summary; s != nil {
		o.Rounds = s.Rounds
		o.Virtual = s.VirtualSeconds
		if m := s.Metric(o.Quality.Name); m.Best != nil {
			o.Best = *m.Best
		}
		return o
	}
	for p, err := range r.Follow() {
		if err != nil {
			// The last row of a run that goes on may be torn, or there may be none yet.
			break
		}
		o.Rounds = p.Round
		o.Virtual = p.End.Seconds()
		o.Best = p.Best
	}
	return o
}

// Sentence says what a folder holds and how to go on with it, as in "runs/demo holds a run that is
// complete, after 40 rounds".
func (o *Overview) Sentence() string {
	after := fmt.Sprintf("after %s %s", human.Thousands(int64(o.Rounds)), human.Plural(o.Rounds, "round"))
	switch o.State {
	case RunComplete:
		return fmt.Sprintf("%s holds a run that is complete, %s", o.Dir, after)
	case RunDiverged:
		return fmt.Sprintf("%s holds a run that diverged %s", o.Dir, after)
	case RunRunning:
		return fmt.Sprintf("%s holds a run that is still going on", o.Dir)
	case RunStopped:
		if o.Config.Replayed() {
			return fmt.Sprintf("%s holds a replay that was stopped %s", o.Dir, after)
		}
		return fmt.Sprintf("%s holds a run that was stopped %s (to go on: fedpace resume %s)", o.Dir, after, o.Dir)
	case RunKilled:
		if o.Config.Replayed() {
			return fmt.Sprintf("%s holds a replay that was killed %s", o.Dir, after)
		}
		return fmt.Sprintf("%s holds a run that was killed %s (to go on: fedpace resume %s)", o.Dir, after, o.Dir)
	}
	return fmt.Sprintf("%s holds a run that is %s (fedpace verify %s)", o.Dir, o.State, o.Dir)
}

// NotesFile holds what somebody says of a run, in its folder; the run does not know of it.
const NotesFile = "notes.json"

// Limits of notes.
const (
	// maxNotes is the largest size of the file of notes in bytes; each byte of a text may be
	// written as six.
	maxNotes = 32 << 10
	maxText  = 4000
	maxTags  = 32
)

// Notes are what somebody says of a run.
type Notes struct {
	Tags []string `json:"tags"`
	Text string   `json:"note"`
}

// Notes are what people say of the run; without any, or where they cannot be read, the tags of its
// configuration.
func (r *Run) Notes() (n Notes) {
	text, err := regular.ReadHead(r.Path(NotesFile), maxNotes)
	if errors.Join(err, json.Unmarshal(text, &n)) != nil {
		return Notes{Tags: r.Config.Tags}
	}
	return n
}

// WriteNotes replaces the notes of the run by n. It is an error if the text or the tags are beyond
// their limits, or if a tag is not one.
func (r *Run) WriteNotes(n Notes) error {
	if len(n.Text) > maxText || !utf8.ValidString(n.Text) {
		return fmt.Errorf("a note is text of at most %d bytes", maxText)
	}
	if len(n.Tags) > maxTags {
		return fmt.Errorf("tags are %d, and a run has at most %d", len(n.Tags), maxTags)
	}
	for _, tag := range n.Tags {
		if err := names.CheckTag(tag); err != nil {
			return fmt.Errorf("tag %q: %w", tag, err)
		}
	}
	// The notes are a file of their own, so that no file of the run changes.
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return atomicfile.Write(r.Path(NotesFile), atomicfile.Bytes(append(text, '\n')))
}
