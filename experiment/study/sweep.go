package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/experiment/config/tree"
	"fedpace/experiment/folder"
	"fedpace/metrics"
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
	ConfigFiles []string // as for LoadFiles
	Sets        []string // as for LoadFiles
	Schedules   []string // none: the configuration's own
	Grids       []Grid
	Seeds       int    // seed, seed+1, ...; 0: one
	Out         string // folder that holds a folder for each cell; empty: the configuration's
}

// Cells lists a sweep's runs: schedules within grid values, seeds within
// schedules. Every configuration is checked, and no two may compute the same.
func (s Sweep) Cells() ([]Cell, error) {
	base, err := config.LoadFiles(s.ConfigFiles, s.Sets)
	if err != nil {
		return nil, err
	}
	if base.HTTP != "" {
		return nil, &config.KeyError{Key: "http", Problem: "the runs of a sweep go side by side and cannot share one page (leave http empty)"}
	}
	if err := Shareable(&base); err != nil {
		return nil, err
	}
	schedules := s.Schedules
	if len(schedules) == 0 {
		schedules = []string{""} // the configuration's own
	}
	seeds := max(1, s.Seeds)
	count := seeds * len(schedules)
	for _, g := range s.Grids {
		if count *= len(g.Values); count > maxCells {
			return nil, fmt.Errorf("compare: over %d runs; take fewer values", maxCells)
		}
	}
	var cells []Cell
	names := map[string]string{} // by what the cells compute
	for _, values := range Combinations(s.Grids) {
		sets := slices.Clone(s.Sets)
		for i, g := range s.Grids {
			sets = append(sets, g.Key+"="+values[i])
		}
		for _, name := range schedules {
			for n := range seeds {
				c, err := config.LoadFiles(s.ConfigFiles, append(sets, fmt.Sprintf("seed=%d", base.Seed+uint64(n))))
				if err != nil {
					return nil, s.ofGrid(err)
				}
				cell, err := s.cell(c, name, values, base.Out)
				if err != nil {
					return nil, err
				}
				id, err := Identity(cell.Config)
				if err != nil {
					return nil, err
				}
				if other, taken := names[id]; taken {
					return nil, fmt.Errorf("compare: %q and %q are one run", other, cell.Name)
				}
				names[id] = cell.Name
				cells = append(cells, cell)
			}
		}
	}
	return cells, nil
}

// ofGrid names --grid in an error about a value that a grid has set.
func (s Sweep) ofGrid(err error) error {
	problem, set := strings.CutPrefix(err.Error(), tree.SetFlag+" ")
	key, _, _ := strings.Cut(problem, ":")
	for _, g := range s.Grids {
		if set && (key == g.Key || strings.HasPrefix(key, g.Key+".")) {
			return errors.New("--grid " + problem)
		}
	}
	return err
}

// cell is one run of the sweep: with the named schedule, "" for the configuration's
// own, at equal time.
func (s Sweep) cell(c config.Config, schedule string, values []string, out string) (Cell, error) {
	cell, err := NewCell(c, schedule)
	parts := []string{cell.Schedule}
	for i, g := range s.Grids {
		parts = append(parts, g.Key+"="+values[i])
		if !ofSchedule(g.Key) {
			cell.Point = append(cell.Point, values[i])
		}
	}
	parts = append(parts, fmt.Sprintf("seed=%d", c.Seed))
	cell.Name, cell.Values = strings.Join(parts, " "), values
	cell.Config.Out = filepath.Join(cmp.Or(s.Out, out), FileName(strings.Join(parts, ",")))
	if err != nil {
		return cell, fmt.Errorf("compare: %s: %w", cell.Name, err)
	}
	return cell, nil
}

// ofSchedule reports whether a key chooses the schedule, as --schedules does.
func ofSchedule(key string) bool {
	return key == "schedule" || key == "schedule.k" || key == "schedule.eta" || strings.HasPrefix(key, "schedule.k.") || strings.HasPrefix(key, "schedule.eta.")
}

// EqualTime makes a stop after so many rounds the virtual time that K-eta-fixed
// takes for them: schedules are compared at equal time, as in the paper.
func EqualTime(c *config.Config) {
	if c.Stop.Rounds > 0 && c.Stop.EqualRuntimeRounds == 0 {
		c.Stop.EqualRuntimeRounds, c.Stop.Rounds = c.Stop.Rounds, 0
	}
}

// FileName is a name that every file system takes.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|{}[] `, r) {
			return '_'
		}
		return r
	}, name)
}

// Combinations is the product of the grids' values, the last grid varying
// fastest; one empty combination for no grid.
func Combinations(grids []Grid) [][]string {
	all := [][]string{nil}
	for _, g := range grids {
		var next [][]string
		for _, head := range all {
			for _, v := range g.Values {
				next = append(next, append(slices.Clone(head), v))
			}
		}
		all = next
	}
	return all
}

// RunSweep plays a sweep.
func RunSweep(ctx context.Context, s Sweep, o Options) ([]Cell, error) {
	cells, err := s.Cells()
	if err != nil {
		return nil, err
	}
	return cells, playAndTime(ctx, filepath.Dir(cells[0].Config.Out), cells, schedule.Fixed, o)
}

// playAndTime plays cells and compares each with the reference schedule of the same seed and
// the same values of grids over other keys: when it reached the best loss of that one, which
// is the virtual time at which the mean loss of the last rounds (Eq. 15) first was at most
// that, and how much better it ended.
func playAndTime(ctx context.Context, out string, cells []Cell, reference string, o Options) error {
	o.leaves = Files
	if err := Play(ctx, out, cells, o); errors.Is(err, context.Canceled) {
		return err
	} else if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	key := func(c *Cell) string { return fmt.Sprint(c.Point, c.Config.Seed) }
	references := map[string]*Cell{}
	for i := range cells {
		if c := &cells[i]; c.Diverged == "" && c.Schedule == reference {
			references[key(c)] = c
		}
	}
	for i := range cells {
		c := &cells[i]
		c.Target = math.NaN()
		if r := references[key(c)]; r != nil {
			c.Target = metrics.Value(r.Summary.BestTrainingLoss)
		}
		if err := c.follow(); err != nil {
			return err
		}
	}
	for i := range cells {
		c := &cells[i]
		c.TailGain = math.NaN()
		if r := references[key(c)]; r != nil && r != c {
			c.TailGain = c.Tail - r.Tail
		}
	}
	return nil
}

// follow reads a run's rounds.
func (c *Cell) follow() error {
	c.TimeToTarget, c.Tail = math.NaN(), math.NaN()
	if c.Diverged != "" {
		return nil
	}
	var tail Tail
	for r, err := range folder.Follow(c.Config.Out, &c.Config) {
		if err != nil {
			return err
		}
		if r.WindowLoss <= c.Target && math.IsNaN(c.TimeToTarget) {
			c.TimeToTarget = r.End.Seconds()
		}
		if !math.IsNaN(r.Quality) {
			tail.Add(r.End.Seconds(), r.Quality)
		}
	}
	c.Tail = tail.Mean(c.Summary.VirtualSeconds)
	return nil
}
