package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/experiment/folder"
	"fedpace/experiment/report"
)

// rescan is how long the folders are not looked through again.
const rescan = time.Second

// Library is the runs in some folders. It is safe for concurrent use.
type Library struct {
	// dirs are the folders that are looked through, as they were given.
	dirs []string
	// version is that of this program.
	version string

	// mu guards what follows.
	mu sync.Mutex
	// scanned is when the folders were looked through last.
	scanned time.Time
	// runs are the runs that were found then, each folder once.
	runs []*run
}

// run is a run in the library. It is read when it is first shown, and again only after its files have grown.
type run struct {
	*folder.Run
	// id names the run in addresses of the page.
	id string
	// err is why the folder cannot be read; nil: it can.
	err error

	// mu guards what follows: several requests may ask for one run at a time.
	mu sync.Mutex
	// stamp is that of the files from which the curves were read (see stampNow).
	stamp string
	// curves are what was read; nil: nothing was yet.
	curves *curves
}

// Open looks through the folders. A folder with a run is one run, any other is looked through for folders
// with runs. It is an error if there is none at all.
func Open(version string, dirs ...string) (*Library, error) {
	l := &Library{dirs: dirs, version: version}
	list, err := l.list(time.Now())
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("ui: no run is in %q: neither they nor folders in them have a %s", dirs, folder.ConfigFile)
	}
	return l, err
}

// Len returns how many runs were found when the folders were looked through last.
func (l *Library) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

// list returns the runs in the library's folders at the wall-clock time now. It looks through the
// folders again only if the last time is at least rescan ago, and keeps what was read of runs that
// are still there.
func (l *Library) list(now time.Time) ([]*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.scanned) < rescan {
		return l.runs, nil
	}
	// What was read of a run is kept while its folder is still there.
	listed := map[string]*run{}
	for _, r := range l.runs {
		listed[r.Dir] = r
	}
	list := []*run{}
	var dirs []string
	for _, dir := range l.dirs {
		found, _, err := folder.Find(dir, folder.Levels, report.MaxRuns)
		if err != nil {
			return nil, fmt.Errorf("ui: %w", err)
		}
		dirs = append(dirs, found...)
	}
	// Folders may have been given twice, or one within another.
	for _, dir := range folder.Distinct(dirs) {
		r := listed[dir]
		if r == nil {
			r = open(dir)
		}
		list = append(list, r)
	}
	l.runs = list
	l.scanned = now
	return l.runs, nil
}

// open opens the run in the folder dir. Its id follows from the absolute path, so that links to it
// stay valid. A folder that cannot be read gives a run whose err says why.
func open(dir string) *run {
	// The absolute path is not known if the working folder is gone.
	absolute, err := filepath.Abs(dir)
	if err != nil {
		absolute = dir
	}
	sum := sha256.Sum256([]byte(absolute))
	r := &run{id: hex.EncodeToString(sum[:6])}
	r.Run, r.err = folder.Open(dir)
	return r
}

// find returns the run with this id among those that were found last; nil: there is none. It does
// not look through the folders.
func (l *Library) find(id string) *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

// listedRun is a run as the page lists it.
type listedRun struct {
	// ID names the run in further requests.
	ID string `json:"id"`
	// Folder is the path of the run's folder.
	Folder string `json:"folder"`
	// State is a folder.RunState.
	State string `json:"state"`
	// Problem is why the run cannot be read. It is empty if it can.
	Problem string `json:"why,omitempty"`
	// Task is the name of the learning task.
	Task string `json:"task"`
	// Schedule is the name of the schedule of K, the number of local steps.
	Schedule string `json:"schedule"`
	// Seed is text, because JavaScript's numbers are exact only up to 2^53.
	Seed string `json:"seed"`
	// Tags and Note are what somebody wrote beside the run.
	Tags []string `json:"tags,omitempty"`
	Note string   `json:"note,omitempty"`
	// Settings are the settings that differ from the task's defaults, as key=value.
	Settings []string `json:"settings"`
	// Quality is the metric by which models are compared.
	Quality metricName `json:"quality"`
	// Stamp changes whenever the run's files do, so that the page reads the run again.
	Stamp string `json:"stamp"`
	// Rounds and Virtual are how far the run is, in rounds and virtual seconds.
	Rounds  int     `json:"rounds"`
	Virtual float64 `json:"virtual_seconds"`
	// Summary is the content of summary.json; null: the run goes on, or was killed.
	Summary *folder.Summary `json:"summary"`
}

// metricName is a metric with its direction.
type metricName struct {
	Name string `json:"name"`
	// Lower says that lower values are better.
	Lower bool `json:"lower"`
}

// rowsOf returns the rows of the list for these runs, in their order. Runs are read side by side,
// since a folder may lie on a slow disk. A run that cannot be read has a row that says why.
func rowsOf(runs []*run) []listedRun {
	list := make([]listedRun, len(runs))
	var side errgroup.Group
	// Reading takes processor time, too, so more runs at a time would not help.
	side.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range runs {
		side.Go(func() error {
			list[i] = r.row()
			return nil
		})
	}
	// No function of the group fails, so there is no error to return.
	_ = side.Wait()
	return list
}

// row returns the run as the list shows it: its settings, state and how far it is. A run that
// cannot be read has a row that says why and counts as damaged.
func (r *run) row() listedRun {
	c := &r.Config
	// Until more is known, the run counts as damaged.
	listed := listedRun{
		ID:       r.id,
		Folder:   r.Dir,
		State:    string(folder.RunDamaged),
		Settings: []string{},
	}
	if r.err != nil {
		listed.Problem = r.err.Error()
		return listed
	}
	listed.Task = string(c.Task)
	listed.Schedule = c.Schedule.Name()
	listed.Seed = strconv.FormatUint(c.Seed, 10)
	listed.Stamp = r.stampNow()
	notes := r.Notes()
	listed.Tags = notes.Tags
	listed.Note = notes.Text
	differences, err := c.Differences()
	if err == nil {
		listed.Settings = append(listed.Settings, differences...)
	}
	q, err := r.Quality()
	if err == nil {
		listed.Quality = metricName{q.Name, q.Lower}
	}
	state, summary, err := r.State()
	listed.State = string(state)
	listed.Summary = summary
	if err != nil {
		listed.Problem = err.Error()
		return listed
	}
	// The summary knows the run's end, so that its rounds need not be read.
	if summary != nil {
		listed.Rounds = summary.Rounds
		listed.Virtual = summary.VirtualSeconds
		return listed
	}
	// A run that goes on is as long as its rounds.csv.
	if curves, err := r.read(); err != nil {
		listed.State = string(folder.RunDamaged)
		listed.Problem = err.Error()
	} else {
		listed.Rounds = curves.rounds
		listed.Virtual = curves.end.Seconds()
	}
	return listed
}

// stampNow returns a text that stands for the state of the run's files: their sizes and times of
// change. It differs from an earlier one once a file has changed. Missing files are left out.
func (r *run) stampNow() (s string) {
	for _, name := range []string{folder.RoundsFile, folder.SummaryFile} {
		if info, err := os.Stat(r.Path(name)); err == nil {
			s += fmt.Sprintf("%d.%d ", info.Size(), info.ModTime().UnixNano())
		}
	}
	return s
}
