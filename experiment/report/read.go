package report

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/identity"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// Limits of what is looked for and kept.
const (
	MaxRuns   = 1000    // in the folders that are given
	maxPoints = 1 << 12 // of a run's curve
	maxTimes  = 1 << 20 // of a run's rounds
)

// Run is a run with what its figures show.
type Run struct {
	*folder.Run
	complete bool
	// By which its models are compared.
	quality metric.Quality
	// Seconds of rounds, ascending; of long runs every n-th.
	durations []float64
	points    []point
	// Of a run with real devices whose time was predicted.
	predicted []forecast.Row

	// identity is what the run's bits follow from. It is nil for a run without a summary, of
	// which only the configuration is known.
	identity *identity.Identity
}

// point is a state of the run at the end of a round.
type point struct {
	seconds float64
	// Lowest window mean so far; NaN: none yet.
	loss float64
	// Validation so far by the run's quality; NaN: none yet.
	best float64
	// Of the columns that have a figure.
	values []float64
}

// figured are the columns that have a figure.
func figured() []metrics.Column {
	return slices.DeleteFunc(metrics.ColumnsOf(), func(c metrics.Column) bool { return !c.Figure })
}

// Folders finds the runs in the folders: a folder with a run is one, another is
// looked through. Each must hold one at least.
func Folders(dirs ...string) (runs []string, err error) {
	for _, dir := range dirs {
		found, _, err := folder.Find(dir, folder.Levels, MaxRuns)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf(
				"report: %s holds no run: neither it nor a folder in it has a %s",
				dir,
				folder.ConfigFile,
			)
		}
		runs = append(runs, found...)
	}
	runs = folder.Distinct(runs)
	if len(runs) > MaxRuns {
		return nil, fmt.Errorf("report: more than %d runs", MaxRuns)
	}
	return runs, nil
}

// Damaged is a folder with a run that cannot be read.
type Damaged struct {
	Dir string
	Err error
}

// Find reads the runs in the folders, as [Folders] finds them; those that cannot be read
// are damaged.
func Find(dirs ...string) (runs []Run, damaged []Damaged, err error) {
	folders, err := Folders(dirs...)
	for _, dir := range folders {
		if r, err := Read(dir); err == nil {
			runs = append(runs, r)
		} else {
			damaged = append(damaged, Damaged{dir, err})
		}
	}
	return runs, damaged, err
}

// Finished is how many of the runs have come to their end.
func Finished(runs []Run) (n int) {
	for i := range runs {
		if runs[i].complete {
			n++
		}
	}
	return n
}

// Read reads the run in a folder with what its figures show. The last row of a run that was killed may
// be torn; it is left out.
func Read(dir string) (r Run, err error) {
	if r.Run, err = folder.Open(dir); err != nil {
		return r, err
	}
	state, summary, err := r.State()
	if err != nil {
		return r, err
	}
	if summary != nil {
		r.identity = identity.OfSummary(r.Config, summary)
	}
	r.complete = state == folder.RunComplete
	if r.quality, err = r.Quality(); err != nil {
		return r, err
	}
	drawn := figured()
	curve := statistics.Thin[point](maxPoints)
	times := statistics.Thin[float64](maxTimes)
	for p, err := range r.Follow() {
		if errors.Is(err, folder.ErrTorn) && !r.complete {
			break // it was killed
		}
		if err != nil {
			return r, err
		}
		now := point{seconds: p.End.Seconds(), loss: p.BestLoss, best: p.Best}
		for i := range drawn {
			now.values = append(now.values, drawn[i].Of(&p.Report))
		}
		curve.Add(now)
		times.Add((p.End - p.Start).Seconds())
	}
	r.points = curve.All()
	r.durations = times.Kept
	slices.Sort(r.durations)
	r.predicted, err = forecast.ReadRows(dir)
	return r, err
}

// Group is runs that differ in nothing but their seed.
type Group struct {
	Name string
	Runs []*Run
	task config.Task
	// Of the configuration from its task's defaults, but for the seed.
	differences []string
}

// Groups sorts runs by their configurations and folders into groups, in the order of their first
// runs. Groups of a task are named by the schedule and, where that is not enough, by what else
// their configurations set, or the folder if that is long.
func Groups(runs []Run) (list []Group, err error) {
	for i := range runs {
		r := &runs[i]
		differences, err := r.Config.Differences()
		if err != nil {
			return nil, err
		}
		differences = slices.DeleteFunc(differences, func(s string) bool { return strings.HasPrefix(s, "seed=") })
		index := slices.IndexFunc(list, func(g Group) bool { return g.takes(r, differences) })
		if index < 0 {
			index = len(list)
			list = append(list, Group{
				Name:        r.Config.Schedule.Name(),
				task:        r.Config.Task,
				differences: differences,
			})
		}
		list[index].Runs = append(list[index].Runs, r)
	}
	// Names that several groups of a task would have get what tells them apart.
	for i := range list {
		g := &list[i]
		sameName := slices.DeleteFunc(slices.Clone(list), func(o Group) bool {
			return o.task != g.task ||
				o.Runs[0].Config.Schedule.Name() != g.Runs[0].Config.Schedule.Name() ||
				o.Runs[0] == g.Runs[0]
		})
		if len(sameName) == 0 {
			continue
		}
		shared := func(d string) bool {
			return !slices.ContainsFunc(sameName, func(o Group) bool { return !slices.Contains(o.differences, d) })
		}
		text := strings.Join(slices.DeleteFunc(slices.Clone(g.differences), shared), ", ")
		if text == "" { // the others set more
			continue
		}
		if len(text) > maxName {
			text = filepath.Base(g.Runs[0].Dir)
		}
		g.Name += ", " + text
	}
	for i := range list {
		slices.SortStableFunc(list[i].Runs, func(a, b *Run) int {
			return cmp.Or(cmp.Compare(a.Config.Seed, b.Config.Seed), cmp.Compare(len(b.durations), len(a.durations)))
		})
		// A run that was started twice is one seed: only real devices make another of it.
		list[i].Runs = slices.CompactFunc(list[i].Runs, func(a, b *Run) bool {
			return a.Config.Seed == b.Config.Seed && len(a.Config.Devices.Names) == 0
		})
	}
	return list, nil
}

// takes reports whether a run belongs to the group: it has the group's settings, its files have
// the same content, and a run of its own seed in the group has the same data. Digests of data
// cover the split, which follows from the seed, so those of other seeds say nothing.
func (g *Group) takes(r *Run, differences []string) bool {
	if g.task != r.Config.Task || !slices.Equal(g.differences, differences) {
		return false
	}
	for _, member := range g.Runs {
		if member.identity == nil || r.identity == nil {
			continue
		}
		begun := *member.identity
		now := *r.identity
		begun.Config = now.Config // the settings are compared above, but for the seed
		if member.Config.Seed != r.Config.Seed {
			begun.Data = now.Data
		}
		if d := begun.Difference(&now); d != nil && d.Part <= identity.Data {
			return false
		}
	}
	return true
}

// maxName is how long a name may be to stand in a legend.
const maxName = 48
