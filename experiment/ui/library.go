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
	dirs    []string
	version string // of this program

	mu      sync.Mutex
	scanned time.Time
	runs    []*run
}

// run is a run in the library.
type run struct {
	*folder.Run
	id  string
	bad error // the folder cannot be read

	mu     sync.Mutex
	stamp  string // of the files that the curves were read from
	curves *curves
}

// Open looks through the folders. A folder with a run is one, another is looked through.
func Open(version string, dirs ...string) (*Library, error) {
	l := &Library{dirs: dirs, version: version}
	list, err := l.list(time.Now())
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("ui: no run is in %q: neither they nor folders in them have a %s", dirs, folder.ConfigFile)
	}
	return l, err
}

func (l *Library) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

func (l *Library) list(now time.Time) ([]*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.scanned) < rescan {
		return l.runs, nil
	}
	known := map[string]*run{}
	for _, r := range l.runs {
		known[r.Dir] = r
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
	for _, at := range folder.Distinct(dirs) {
		r := known[at]
		if r == nil {
			r = open(at)
		}
		list = append(list, r)
	}
	l.runs = list
	l.scanned = now
	return l.runs, nil
}

func open(dir string) *run {
	whole, err := filepath.Abs(dir)
	if err != nil {
		whole = dir
	}
	sum := sha256.Sum256([]byte(whole))
	r := &run{id: hex.EncodeToString(sum[:6])}
	r.Run, r.bad = folder.Open(dir)
	return r
}

// find is the run with an id, nil if there is none.
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

// row is a run in the list.
type row struct {
	ID       string          `json:"id"`
	Folder   string          `json:"folder"`
	State    string          `json:"state"` // a folder.RunState
	Why      string          `json:"why,omitempty"`
	Task     string          `json:"task"`
	Schedule string          `json:"schedule"`
	Seed     string          `json:"seed"` // as text: JavaScript's numbers end at 2^53
	Tags     []string        `json:"tags,omitempty"`
	Note     string          `json:"note,omitempty"`
	Settings []string        `json:"settings"` // what it sets otherwise than its task's defaults
	Quality  metricName      `json:"quality"`  // by which models are compared
	Stamp    string          `json:"stamp"`    // changes with the files
	Rounds   int             `json:"rounds"`
	Virtual  float64         `json:"virtual_seconds"`
	Summary  *folder.Summary `json:"summary"` // null: the run goes on, or was killed
}

type metricName struct {
	Name  string `json:"name"`
	Lower bool   `json:"lower"` // lower values are better
}

// rowsOf are runs as the page lists them.
func rowsOf(runs []*run) []row {
	list := make([]row, len(runs))
	var side errgroup.Group
	side.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range runs {
		side.Go(func() error {
			list[i] = r.row()
			return nil
		})
	}
	_ = side.Wait() // none fails
	return list
}

func (r *run) row() row {
	c := &r.Config
	out := row{
		ID:       r.id,
		Folder:   r.Dir,
		State:    string(folder.RunDamaged),
		Settings: []string{},
	}
	if r.bad != nil {
		out.Why = r.bad.Error()
		return out
	}
	out.Task, out.Schedule, out.Seed, out.Stamp = string(c.Task), c.Schedule.Name(), strconv.FormatUint(
		c.Seed,
		10,
	), r.stampNow()
	notes := r.Notes()
	out.Tags = notes.Tags
	out.Note = notes.Text
	differences, err := c.Differences()
	if err == nil {
		out.Settings = append(out.Settings, differences...)
	}
	q, err := r.Quality()
	if err == nil {
		out.Quality = metricName{q.Name, q.Lower}
	}
	state, summary, err := r.State()
	out.State = string(state)
	out.Summary = summary
	if err != nil {
		out.Why = err.Error()
		return out
	}
	if summary != nil {
		out.Rounds = summary.Rounds
		out.Virtual = summary.VirtualSeconds
		return out
	}
	if curves, err := r.read(); err != nil {
		out.State = string(folder.RunDamaged)
		out.Why = err.Error()
	} else {
		out.Rounds, out.Virtual = curves.rounds, curves.end.Seconds()
	}
	return out
}

// stampNow says what the files are now: it differs once they have grown.
func (r *run) stampNow() (s string) {
	for _, name := range []string{folder.RoundsFile, folder.SummaryFile} {
		if info, err := os.Stat(r.Path(name)); err == nil {
			s += fmt.Sprintf("%d.%d ", info.Size(), info.ModTime().UnixNano())
		}
	}
	return s
}
