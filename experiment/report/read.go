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
	// MaxRuns bounds the runs in the folders that are given.
	MaxRuns = 1000
	// maxPoints bounds the points of a run's curve.
	maxPoints = 1 << 12
	// maxTimes bounds the durations of a run's rounds that are kept.
	maxTimes = 1 << 20
)

// Run is a run with what its figures show.
type Run struct {
	*folder.Run
	// complete says that the run has come to its end.
	complete bool
	// quality is the metric by which the run's models are compared.
	quality metric.Quality
	// durations are the virtual seconds of rounds, ascending. Of long runs they are those of every n-th
	// round.
	durations []float64
	// points are the states at the ends of rounds, thinned for long runs.
	points []point
	// predicted is the prediction of a run with real devices. It is nil for any other run.
	predicted []forecast.Row

	// identity is what the run's bits follow from. It is nil for a run without a summary, of
	// which only the configuration is known.
	identity *identity.Identity
	// dataSource is the digest of the files that its data are from; it is empty if that is not known.
	dataSource string
}

// point is a state of the run at the end of a round.
type point struct {
	// seconds is the virtual time.
	seconds float64
	// loss is the lowest mean so far of the training loss over a window of rounds. It is NaN before the
	// first.
	loss float64
	// best is the best validation so far by the run's quality. It is NaN before the first.
	best float64
	// values are those of the columns that have a figure, in the order of figured.
	values []float64
}

// figured are the columns that have a figure.
func figured() []metrics.Column {
	return slices.DeleteFunc(metrics.ColumnsOf(), func(c metrics.Column) bool { return !c.Figure })
}

// Folders returns the folders of the runs in dirs, each once, even if dirs have it under several names. A folder
// that is a run's own is one, and any other is searched for folders of runs; those in it that cannot be read are
// left out. It is an error if one of dirs has no run, or if there are more than [MaxRuns].
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

// Find reads the runs in dirs, as [Folders] finds them. It returns the folders of runs that cannot be read as
// damaged.
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

// Finished returns how many of the runs have come to their end.
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
	r.Run, err = folder.Open(dir)
	if err != nil {
		return r, err
	}
	state, summary, err := r.State()
	if err != nil {
		return r, err
	}
	if summary != nil {
		r.identity = identity.OfSummary(r.Config, summary)
		r.dataSource = summary.DataSource
	}
	r.complete = state == folder.RunComplete
	r.quality, err = r.Quality()
	if err != nil {
		return r, err
	}
	drawn := figured()
	curve := statistics.Thin[point](maxPoints)
	times := statistics.Thin[float64](maxTimes)
	for p, err := range r.Follow() {
		// The run was killed, or goes on, while it wrote a row.
		if errors.Is(err, folder.ErrTorn) && !r.complete {
			break
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

// Group is a list of runs that differ in nothing but their seed.
type Group struct {
	// Name names the group in a legend.
	Name string
	// Runs are sorted by their seeds.
	Runs []*Run
	task config.Task
	// differences are the settings in which the configuration differs from its task's defaults, as
	// key=value, without the seed.
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
	for i := range list {
		if distinction := distinctionOf(list, i); distinction != "" {
			list[i].Name += ", " + distinction
		}
	}
	for i := range list {
		slices.SortStableFunc(list[i].Runs, func(a, b *Run) int {
			return cmp.Or(cmp.Compare(a.Config.Seed, b.Config.Seed), cmp.Compare(len(b.durations), len(a.durations)))
		})
		// Of several simulated runs of one seed only the first, which is the longest, is kept, since the others repeat
		// it. Runs with real devices all stay, because no two of them are equal.
		list[i].Runs = slices.CompactFunc(list[i].Runs, func(a, b *Run) bool {
			return a.Config.Seed == b.Config.Seed && len(a.Config.Devices.Names) == 0
		})
	}
	return list, nil
}

// distinctionOf returns what tells the i-th group of list from the others of its task that have the same
// schedule: the settings that these do not all share or, if they are long, the folder of its first run. It is
// empty if there are no such groups, and if they set all that this one does, and more.
func distinctionOf(list []Group, i int) string {
	g := &list[i]
	name := g.Runs[0].Config.Schedule.Name()
	var sameName []Group
	for j, other := range list {
		if j != i && other.task == g.task && other.Runs[0].Config.Schedule.Name() == name {
			sameName = append(sameName, other)
		}
	}
	if len(sameName) == 0 {
		return ""
	}
	// isShared reports whether all groups of the same name have this setting.
	isShared := func(setting string) bool {
		lacks := func(other Group) bool { return !slices.Contains(other.differences, setting) }
		return !slices.ContainsFunc(sameName, lacks)
	}
	text := strings.Join(slices.DeleteFunc(slices.Clone(g.differences), isShared), ", ")
	if len(text) > maxName {
		return filepath.Base(g.Runs[0].Dir)
	}
	return text
}

// takes reports whether run r belongs to the group. It does if it has the group's task and settings, its files have
// the same content, runs of the same seed in the group have the same data, and runs of other seeds have data
// from the same files. (Digests of data cover the split, which follows from the seed, and so cannot be compared
// between seeds.) differences are the run's settings that differ from its task's defaults, without the seed.
func (g *Group) takes(r *Run, differences []string) bool {
	if g.task != r.Config.Task || !slices.Equal(g.differences, differences) {
		return false
	}
	for _, member := range g.Runs {
		if member.identity == nil || r.identity == nil {
			continue
		}
		expected := *member.identity
		found := *r.identity
		// The settings were compared above, without the seed.
		expected.Config = found.Config
		if member.Config.Seed != r.Config.Seed {
			expected.Data = found.Data
			areKnown := member.dataSource != "" && r.dataSource != ""
			if areKnown && member.dataSource != r.dataSource {
				return false
			}
		}
		// Parts are compared in their order. Those behind the data, trainers and kernels, may differ within a
		// group.
		if d := expected.Difference(&found); d != nil && d.Part <= identity.Data {
			return false
		}
	}
	return true
}

// maxName bounds the bytes of the settings in a group's name, which stands in a legend.
const maxName = 48
