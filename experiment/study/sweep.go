package study

import (
	"bytes"
	"context"
	"errors"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/coordinator"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
)

// Grid is one key of a sweep with the values that it takes.
type Grid struct {
	Key    string
	Values []string
}

// ParseGrid reads "key=value,value,...", for example
// "network.upload_mbps=1,5,20". Commas within brackets do not separate.
func ParseGrid(s string) (Grid, error) {
	key, list, ok := strings.Cut(s, "=")
	if !ok || key == "" || list == "" {
		return Grid{}, fmt.Errorf("--grid %q: want key=value,value,..., e.g. network.upload_mbps=1,5,20", s)
	}
	g := Grid{Key: key}
	depth, from := 0, 0
	for i, r := range list + "," {
		switch r {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth > 0 {
				continue
			}
			if i == from {
				return Grid{}, fmt.Errorf("--grid %q: a value is empty", s)
			}
			g.Values = append(g.Values, list[from:i])
			from = i + 1
		}
	}
	if depth != 0 {
		return Grid{}, fmt.Errorf("--grid %q: a bracket is not closed", s)
	}
	return g, nil
}

// Sweep asks for every combination of schedules, grid values and seeds.
type Sweep struct {
	ConfigPath string   // as for Load
	Sets       []string // as for Load
	Schedules  []string // none: the configuration's own
	Grids      []Grid
	Seeds      int    // seed, seed+1, ...; 0: one
	Out        string // folder that holds a folder for each cell; empty: the configuration's
}

// maxCells bounds a sweep.
const maxCells = 100_000

// Cell is one run of a sweep.
type Cell struct {
	Schedule string
	Values   []string // of the grids, in their order
	Seed     uint64
	Config   config.Config

	Summary      folder.Summary
	TimeToTarget float64 // virtual seconds; NaN: never, or nothing to reach
	Reused       bool    // it was finished before
	Diverged     string  // why it did not come to its end; empty: it did
	begun        bool    // it was cut before
}

// name is the cell in words, and its folder.
func (c *Cell) name(grids []Grid) string {
	parts := []string{c.Schedule}
	for i, g := range grids {
		parts = append(parts, g.Key+"="+c.Values[i])
	}
	return strings.Join(append(parts, fmt.Sprintf("seed=%d", c.Seed)), " ")
}

// folder is a name that every file system takes.
func (c *Cell) folder(grids []Grid) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|{}[] `, r) {
			return '_'
		}
		return r
	}, strings.ReplaceAll(c.name(grids), " ", ","))
}

// Cells lists a sweep's runs: schedules within grid values, seeds within
// schedules. Every configuration is checked.
func (s Sweep) Cells() ([]Cell, error) {
	base, err := config.Load(s.ConfigPath, s.Sets)
	if err != nil {
		return nil, err
	}
	if s.Out == "" {
		s.Out = base.Out
	}
	schedules := s.Schedules
	if len(schedules) == 0 {
		schedules = []string{base.Schedule.Name()}
	}
	if base.HTTP != "" {
		return nil, &config.KeyError{Key: "http", Problem: "the runs of a sweep go side by side and cannot share one page (leave http empty)"}
	}
	seeds := max(1, s.Seeds)
	count := seeds * len(schedules)
	for _, g := range s.Grids {
		if count *= len(g.Values); count > maxCells {
			return nil, fmt.Errorf("compare: over %d runs; take fewer values", maxCells)
		}
	}
	var cells []Cell
	folders := map[string]string{}
	for _, values := range combinations(s.Grids) {
		sets := append([]string(nil), s.Sets...)
		for i, g := range s.Grids {
			sets = append(sets, g.Key+"="+values[i])
		}
		for _, name := range schedules {
			for n := range seeds {
				c, err := config.Load(s.ConfigPath, sets)
				if err != nil {
					return nil, err
				}
				if c.Stop.Rounds > 0 && c.Stop.EqualRuntimeRounds == 0 {
					c.Stop.EqualRuntimeRounds, c.Stop.Rounds = c.Stop.Rounds, 0
				}
				if len(s.Schedules) > 0 {
					if c.Schedule, err = c.Schedule.Named(name); err != nil {
						return nil, err
					}
				}
				c.Seed = base.Seed + uint64(n)
				cell := Cell{Schedule: c.Schedule.Name(), Values: values, Seed: c.Seed, TimeToTarget: math.NaN()}
				c.Out = filepath.Join(s.Out, cell.folder(s.Grids))
				cell.Config = c
				if err := c.Validate(); err != nil {
					return nil, fmt.Errorf("compare: %s: %w", cell.name(s.Grids), err)
				}
				if other, taken := folders[c.Out]; taken {
					return nil, fmt.Errorf("compare: %q and %q are one run", other, cell.name(s.Grids))
				}
				folders[c.Out] = cell.name(s.Grids)
				cells = append(cells, cell)
			}
		}
	}
	return cells, nil
}

// combinations is the product of the grids' values, the last grid varying
// fastest; one empty combination for no grid.
func combinations(grids []Grid) [][]string {
	all := [][]string{nil}
	for _, g := range grids {
		var next [][]string
		for _, head := range all {
			for _, v := range g.Values {
				next = append(next, append(append([]string(nil), head...), v))
			}
		}
		all = next
	}
	return all
}

// RunSweep runs the cells side by side, as many as there are cores, each with
// one worker. A cell that was finished before with the same configuration is
// read, not done again, so a sweep that was stopped goes on where it was.
func RunSweep(ctx context.Context, s Sweep, o run.Options) ([]Cell, error) {
	cells, err := s.Cells()
	if err != nil {
		return nil, err
	}
	for i := range cells {
		if err := cells[i].reuse(o.Force); err != nil {
			return nil, err
		}
	}
	var telling sync.Mutex
	done := 0
	tell := func(c *Cell, took time.Duration) {
		telling.Lock()
		defer telling.Unlock()
		done++
		if o.Notice != nil {
			o.Notice(fmt.Sprintf("run %d of %d: %s: %s", done, len(cells), c.name(s.Grids), c.story(took)))
		}
	}
	equal := &run.EqualTimes{}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range cells {
		c := &cells[i]
		if c.Reused {
			tell(c, 0)
			continue
		}
		group.Go(func() error {
			started := time.Now()
			if err := c.run(inner, run.Options{Version: o.Version, Force: true, Workers: 1, Equal: equal}); err != nil {
				return fmt.Errorf("compare: %s: %w", c.name(s.Grids), err)
			}
			tell(c, time.Since(started))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return cells, timeCells(cells)
}

// reuse reads the cell's results where they are complete. A folder with
// another run is refused unless force is set; one with an unfinished run of
// this very configuration goes on.
func (c *Cell) reuse(force bool) error {
	if _, err := os.Stat(filepath.Join(c.Config.Out, folder.ConfigFile)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if !c.sameRun() {
		if force {
			return nil
		}
		return fmt.Errorf("compare: %s: %w, of another configuration (choose another with --out, or replace it with --force)", c.Config.Out, folder.ErrHoldsRun)
	}
	c.begun = true
	summary, err := folder.ReadSummary(filepath.Join(c.Config.Out, folder.SummaryFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if summary.Completed {
		c.Summary, c.Reused = summary, true
	}
	return nil
}

// run does the cell, or goes on with it where it was cut. That it diverges is a
// result, too.
func (c *Cell) run(ctx context.Context, o run.Options) (err error) {
	if c.Summary, err = c.play(ctx, o); errors.Is(err, coordinator.ErrDiverged) && ctx.Err() == nil {
		c.Diverged, err = err.Error(), nil
	}
	return err
}

// play does the cell's run. Where its checkpoint cannot be used it is done anew.
func (c *Cell) play(ctx context.Context, o run.Options) (folder.Summary, error) {
	if c.begun {
		if r, err := run.Resume(ctx, c.Config.Out, o); !errors.Is(err, folder.ErrCheckpoint) {
			return r.Summary, err
		}
		o.Force = true
	}
	return run.Run(ctx, c.Config, o)
}

// sameRun says whether a folder's configuration is this cell's. The population
// of a run that takes it from its data is not compared: the data decides it.
// A configuration that cannot be read, of another version, say, is another.
func (c *Cell) sameRun() bool {
	found, err := config.Load(filepath.Join(c.Config.Out, folder.ConfigFile), nil)
	if err != nil {
		return false
	}
	mine := c.Config
	if mine.Clients == 0 {
		mine.Clients = found.Clients
	}
	mine.Theory.Take(found.Theory)
	return bytes.Equal(mine.YAML(), found.YAML())
}

// story is what became of a cell, for its line of progress.
func (c *Cell) story(took time.Duration) string {
	s := fmt.Sprintf("%d rounds", c.Summary.Rounds)
	if c.Summary.BestTrainingLoss != nil {
		s += fmt.Sprintf(", best loss %.4f", *c.Summary.BestTrainingLoss)
	}
	if c.Summary.BestValidationAccuracy != nil {
		s += fmt.Sprintf(", best accuracy %.4f", *c.Summary.BestValidationAccuracy)
	}
	if c.Diverged != "" {
		return fmt.Sprintf("%d rounds, then %s", c.Summary.Rounds, c.Diverged)
	}
	if c.Reused {
		return s + " (done before)"
	}
	return s + fmt.Sprintf(" (%.0f s)", took.Seconds())
}

// timeCells finds when each cell reached the best loss of K-eta-fixed with the
// same values and seed.
func timeCells(cells []Cell) error {
	key := func(c *Cell) string { return fmt.Sprint(c.Values, c.Seed) }
	target := map[string]float64{}
	for i := range cells {
		if c := &cells[i]; c.Diverged == "" && c.Schedule == schedule.KindFixed && c.Summary.BestTrainingLoss != nil {
			target[key(c)] = *c.Summary.BestTrainingLoss
		}
	}
	for i := range cells {
		c := &cells[i]
		loss, ok := target[key(c)]
		if !ok || c.Diverged != "" {
			continue
		}
		at, err := timeToLoss(filepath.Join(c.Config.Out, folder.RoundsFile), c.Config.Schedule.Window, loss)
		if err != nil {
			return err
		}
		c.TimeToTarget = at
	}
	return nil
}
