package study

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/internal/human"
	"fedpace/learn/metric"
)

// Cell is one run of a study and, once it was played, its results.
type Cell struct {
	// Name identifies the run in messages: the schedule, the grid values and the seed.
	Name string
	// Schedule is the name of the schedule that sets K and eta of each round.
	Schedule string
	// Control is the kind of control that the run is, one of [Kinds]. It is empty for a run that is
	// no control.
	Control string
	// Values holds one value for each grid of the sweep, in the order of the grids.
	Values []string
	// Point holds the values of those grids that do not choose the schedule. Runs at the same point
	// differ in schedule and seed alone.
	Point []string
	// Config is the complete configuration of the run. Its Out is the run's folder.
	Config config.Config
	// ID is the [Identity] of Config as it was planned, before the run completed it from its data.
	ID string

	// Summary is what the run's summary.json says once the run was played or found.
	Summary folder.Summary
	// Reused says that the run was complete before this call of [Play], or had reached the time to which
	// cells are played, so that it is not played again.
	Reused bool
	// Diverged says why the run did not complete. It is empty if the run did not diverge.
	Diverged string
	// Begun says that the folder holds the first part of the run, from which the run is resumed.
	Begun bool
	// measured holds what a comparison reads from the run's rounds.
	measured

	// name is the run's name on a server. If it is empty, the name in Config is used.
	name string
	// replaced says that the folder holds a run that this one replaces.
	replaced bool
	// tags are those of the run that is in the folder.
	tags []string
}

// Run is the cell's folder with its configuration, without checking that a run is there.
func (c *Cell) Run() *folder.Run { return &folder.Run{Dir: c.Config.Out, Config: c.Config} }

// newCell makes the run of configuration c with the named schedule or, for an empty name, with the
// configuration's own. A stop after a number of rounds becomes the virtual time of that many rounds
// of fixed K, so that all schedules have the same time. The configuration is validated.
func newCell(c config.Config, schedule string) (Cell, error) {
	equalTime(&c)
	if schedule != "" {
		var err error
		c.Schedule, err = c.Schedule.Named(schedule)
		if err != nil {
			return Cell{Schedule: schedule}, err
		}
	}
	return Cell{Schedule: c.Schedule.Name(), Config: c}, c.Validate()
}

// Identity returns 64 hexadecimal digits that identify what a configuration computes. Two
// configurations have the same identity if they differ only in inert keys, which change no result.
func Identity(c config.Config) (string, error) {
	list, err := c.Differences()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(string(c.Task)+"\n"+strings.Join(list, "\n")))), nil
}

// withoutRunValues returns a configuration without the values that a run fills in when it starts, so that the
// configurations of planned and of played runs can be compared. A run takes the population, the cohort, the
// batch and the constants of the theory from its data, the metric from its model, and the kernel from its
// machine. What the configuration itself says of these is removed, too.
func withoutRunValues(resolved config.Config) config.Config {
	resolved.Kernel = config.AutoKernel
	if !resolved.IsSynthetic() && !resolved.DevicesAlone() {
		resolved.Clients = config.AllClients
		resolved.Cohort = 0
		resolved.Batch = 0
	}
	resolved.Theory.L = nil
	resolved.Theory.Mu = nil
	resolved.Theory.G = nil
	resolved.Theory.FStar = nil
	resolved.Evaluate.Metric = config.Metric{}
	return resolved
}

// differingKeys lists, for a message, the keys that change a run's results and in which the
// configuration wanted differs from the run that was found. At most [maxNamed] keys are spelled out.
// The result is empty if there is no such key. source says where values that come from data are taken from.
func differingKeys(wanted config.Config, found *folder.Run, source valueSource) (string, error) {
	wanted, err := withValuesFound(wanted, found, source)
	var keys []string
	// Inert keys, such as names and addresses, change no result.
	for _, change := range found.Config.Changes(wanted) {
		if !change.Inert {
			keys = append(keys, fmt.Sprintf("%s is %s there and %s here", change.Key, change.OldValue, change.NewValue))
		}
	}
	if more := len(keys) - maxNamed; more > 0 {
		keys = append(keys[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(keys, ", "), err
}

// maxNamed bounds the keys that a message names.
const maxNamed = 3

// valueSource says where a comparison of configurations takes the values that a run gets from its data: the
// population, the cohort, the batch and the constants of the theory.
type valueSource int

const (
	// fromFoundRun trusts the values in the configuration of the run that was found.
	fromFoundRun valueSource = iota
	// fromData reads the data again.
	fromData
)

// withValuesFound prepares the configuration of a planned run, wanted, for a comparison key by key with that
// of a run that was found in a folder. A run fills in what its configuration leaves open: the kernel of its
// machine, the metric of its model, and the population and the constants of the theory from its data. The
// result has these values, too. source says whether those of the data are copied from the found run, or are
// read from the data again.
func withValuesFound(wanted config.Config, foundRun *folder.Run, source valueSource) (_ config.Config, err error) {
	found := &foundRun.Config
	// Without training no kernel computes anything, so that any kernel gives the same results.
	if !wanted.Train {
		wanted.Kernel = found.Kernel
	} else if wanted.Kernel != found.Kernel {
		// Kernel auto of a run that an earlier version trained stands as auto in its folder.
		wanted.Kernel, err = problem.Kernel(wanted)
		if err != nil {
			return wanted, err
		}
	}
	// A configuration without a metric is compared by the model's own; one may name that metric, too.
	isDefault := wanted.Evaluate.Metric == (config.Metric{}) && found.Evaluate.Metric.Name == defaultMetric(foundRun)
	isLoss := wanted.Evaluate.Metric == (config.Metric{Name: metric.Loss}) &&
		found.Evaluate.Metric == (config.Metric{Name: metric.Loss, Better: metric.Lower})
	if isDefault || isLoss {
		wanted.Evaluate.Metric = found.Evaluate.Metric
	}
	// The rest of this function concerns values that come from data.
	if isResolved(&wanted) {
		return wanted, nil
	}
	if source == fromData {
		// Resolve also chooses a kernel, but the one found above must stay.
		kernel := wanted.Kernel
		wanted, err = problem.Resolve(wanted)
		if err != nil {
			return wanted, err
		}
		wanted.Kernel = kernel
		return wanted, nil
	}
	if wanted.Clients == config.AllClients {
		wanted.Clients = found.Clients
	}
	wanted.Cohort = cmp.Or(wanted.Cohort, found.Cohort)
	wanted.Batch = cmp.Or(wanted.Batch, found.Batch)
	wanted.Theory.FillFrom(found.Theory)
	return wanted, nil
}

// isResolved reports whether a configuration leaves nothing to its data: neither the population and what
// depends on it, nor the constants of the theory if a schedule uses them.
func isResolved(c *config.Config) bool {
	hasPopulation := c.Clients != config.AllClients && c.Cohort != 0 && c.Batch != 0
	if !hasPopulation || !c.UsesTheory() {
		return hasPopulation
	}
	t := &c.Theory
	hasCurvature := t.L != nil && t.Mu != nil
	return hasCurvature && t.G != nil && t.FStar != nil
}

// defaultMetric returns the metric by which the models of a run are compared if the configuration names
// none: the first metric in the run's rounds.csv, or the loss if there is no metric. If the file
// cannot be read, it returns the metric of the run's configuration.
func defaultMetric(r *folder.Run) string {
	list, err := r.Metrics()
	switch {
	case err != nil:
		return r.Config.Evaluate.Metric.Name
	case len(list) == 0:
		return metric.Loss
	}
	return list[0].Name
}

// takeMetric copies the metric by which models are compared from the folder of the cell's run to the cell's
// configuration. A configuration may leave the metric, and whether more of it is better, to the model; only
// the run then knows them.
func (c *Cell) takeMetric() error {
	found, err := folder.Open(c.Config.Out)
	if err == nil {
		c.Config.Evaluate.Metric = found.Config.Evaluate.Metric
	}
	return err
}

// findRuns searches the folders below dir for runs of a study that were played before, and marks each cell (a
// run of the study) as begun, if its run is to be resumed, or reused, if it need not be played. Another
// command may have played the same run into another folder. done is the number of cells that need not be
// played: those that are complete, and those that have reached the virtual time o.Until. keptTags is the
// number of cells whose folders have other tags than their configurations, and keep them. A cell is marked as
// replaced if its folder has less of the run than o.IsWhole demands, so that it is played from its beginning.
func findRuns(ctx context.Context, dir string, cells []Cell, o *Options) (done, keptTags int, err error) {
	f := finder{
		// The folders are read once, and only if a cell's own folder does not have its run.
		index: sync.OnceValues(func() (map[string][]string, error) { return index(dir) }),
		force: o.Run.Force,
	}
	for i := range cells {
		c := &cells[i]
		// The marks may be those of an earlier call.
		c.Begun = false
		c.Reused = false
		c.Diverged = ""
		c.replaced = false
		found, summary, err := f.find(ctx, c)
		switch {
		case err != nil:
			return 0, 0, err
		case found && o.IsWhole != nil && !o.IsWhole(c):
			// The caller wants more of the run than its folder has, so it starts from its
			// beginning.
			c.replaced = true
		// A run that is not complete is resumed, unless it has already reached the time to which
		// cells are to be played.
		case summary == nil:
			c.Begun = found
			if !found || o.Until <= 0 {
				break
			}
			before, err := folder.ReadSummary(c.Run().Path(folder.SummaryFile))
			if err == nil && before.VirtualSeconds >= o.Until {
				c.Summary = before
				c.Reused = true
				done++
			}
		// With force, a complete run is played again if another version of the program played it,
		// because another version may compute other bits.
		case !f.force || summary.Version == o.Run.Version:
			c.Summary = *summary
			c.Reused = true
			done++
		}
		wasFound := c.Begun || c.Reused
		hasOtherTags := len(c.Config.Tags) > 0 && !slices.Equal(c.tags, c.Config.Tags)
		if wasFound && hasOtherTags {
			keptTags++
		}
	}
	return done, keptTags, nil
}

// Limits of the runs that a study's folder is searched for.
const (
	// searchDepth is how many levels of folders below the study's folder are searched.
	searchDepth = 2
	// maxCells bounds the runs of a study, and the runs that its folder is searched for.
	maxCells = 100_000
)

// index lists the folders of runs below dir by the [Identity] of their [withoutRunValues] configurations. It leaves
// out folders whose configuration cannot be read. A dir that does not exist has no runs.
func index(dir string) (map[string][]string, error) {
	found := map[string][]string{}
	folders, _, err := folder.Find(dir, searchDepth, maxCells)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	for _, path := range folders {
		r, err := folder.Open(path)
		if err != nil {
			// A folder that another version wrote, or that is damaged, holds no run that could be
			// reused.
			continue
		}
		id, err := Identity(withoutRunValues(r.Config))
		if err != nil {
			return nil, err
		}
		found[id] = append(found[id], path)
	}
	return found, nil
}

// finder finds the folders of cells' runs.
type finder struct {
	// inputs remembers the data sets and trainers that were examined, so that each is read once.
	inputs problem.Inputs
	// index returns the study's folders by the identity of their runs; see the function index. It
	// is called where a cell's own folder does not have its run, and evaluated at most once.
	index func() (map[string][]string, error)
	// force says that another run in a cell's own folder will be replaced and is no error.
	force bool
}

// find looks for the run of a cell, first in the cell's own folder and then in all folders of the study.
// found says that the run exists, and summary is nil unless it is complete. If the run is in another folder,
// that becomes the cell's. Another run in the cell's own folder is an error unless force is set.
func (f *finder) find(ctx context.Context, c *Cell) (found bool, summary *folder.Summary, err error) {
	if folder.HoldsRun(c.Config.Out) == nil {
		summary, difference, err := f.compareWith(ctx, c, c.Config.Out, fromFoundRun)
		switch {
		// The folder holds this very run, or could not be compared.
		case err != nil || difference == nil:
			return difference == nil, summary, err
		case !f.force:
			advice := "choose another folder with --out"
			// A run that can go on is not to be thrown away.
			if summary != nil {
				advice += ", or replace the run with --force"
			}
			return false, nil, fmt.Errorf("%s: %w, %w (%s)", c.Config.Out, folder.ErrHoldsRun, difference, advice)
		}
	}
	// The cell's own folder has no run of it. Another command may have played the same into another
	// folder.
	id, err := Identity(withoutRunValues(c.Config))
	if err != nil {
		return false, nil, err
	}
	folders, err := f.index()
	if err != nil {
		return false, nil, err
	}
	for _, dir := range folders[id] {
		summary, difference, err := f.compareWith(ctx, c, dir, fromData)
		if err != nil {
			return false, nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		if difference == nil {
			c.Config.Out = dir
			return true, summary, nil
		}
	}
	return false, nil, nil
}

// compareWith compares the run in the folder dir with the cell. difference is nil if it is the cell's run;
// otherwise it says that the run has another configuration, or was trained by a trainer that has
// changed since. summary is that of the cell's run, or nil while that is not complete. source says where
// values that come from data are taken from.
func (f *finder) compareWith(
	ctx context.Context,
	c *Cell,
	dir string,
	source valueSource,
) (summary *folder.Summary, difference, err error) {
	found, err := folder.Open(dir)
	// A configuration that cannot be read may be one of another version, so the run is another one.
	if err != nil {
		return nil, errors.New("which is of another configuration"), nil
	}
	keys, err := differingKeys(c.Config, found, source)
	if err != nil {
		return nil, nil, err
	}
	if keys != "" {
		return nil, fmt.Errorf("which is of another configuration: %s", keys), nil
	}
	c.tags = found.Config.Tags
	summary, err = folder.Completed(dir)
	if err != nil || summary == nil {
		return nil, nil, err
	}
	difference, err = f.inputs.Difference(ctx, c.Config, summary)
	return summary, difference, err
}

// namedConfig is the configuration with the name under which the cell is played.
func (c *Cell) namedConfig() config.Config {
	named := c.Config
	named.Name = cmp.Or(c.name, named.Name)
	return named
}

// play runs the cell, or resumes it if it has begun, and sets Summary. A run that diverges is a
// result: play then sets Diverged and returns no error.
func (c *Cell) play(ctx context.Context, o run.Options) (err error) {
	named := c.namedConfig()
	// A run that has begun is resumed with the configuration that is given now.
	if c.Begun {
		// A resumed run needs the trainer's command given again.
		o.Overrides = &named
		o.Trainer = c.Config.Trainer.Command
		var r run.Resumed
		r, err = run.Resume(ctx, c.Config.Out, o)
		c.Summary = r.Summary
	}
	// A run whose checkpoint is damaged starts again from its beginning. It then replaces what is in the folder, as a
	// run does that takes the place of another one there (c.replaced).
	if !c.Begun || errors.Is(err, checkpoint.ErrDamaged) {
		o.Force = o.Force || c.Begun || c.replaced
		c.Summary, err = run.Run(ctx, named, o)
	}
	switch {
	// The whole study was cancelled, so err is returned as it is.
	case ctx.Err() != nil:
	case errors.Is(err, coordinator.ErrDiverged):
		c.Diverged = err.Error()
		err = nil
	// The run was cancelled because it has reached the virtual time Until.
	case errors.Is(err, context.Canceled) && o.Until > 0:
		err = nil
	}
	return err
}

// Diverged returns an error that says how many runs diverged, or nil. errors.Is finds
// [coordinator.ErrDiverged] in it.
func Diverged(cells []Cell) error {
	n := 0
	for _, c := range cells {
		if c.Diverged != "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("compare: %d of %d runs %w: try a lower schedule.eta0", n, len(cells), coordinator.ErrDiverged)
}

// outcomeText describes for people how the run of the cell ended: its rounds, the best value of each
// metric but the baselines, and took, the wall time that it ran for.
func (c *Cell) outcomeText(took time.Duration) string {
	text := fmt.Sprintf("%d rounds", c.Summary.Rounds)
	if c.Diverged != "" {
		return text + ", then " + c.Diverged
	}
	for _, m := range c.Summary.Metrics {
		// A baseline is the same in every round.
		if m.Best != nil && !metric.Constant(m.Name) {
			text += fmt.Sprintf(", best %s %s", metric.Title(m.Name), human.Fixed(*m.Best))
		}
	}
	return text + fmt.Sprintf(" (%.0f s)", took.Seconds())
}

// Provenance names what the results of a run follow from, to the bit.
type Provenance struct {
	// Version is the version of the program that played the run, with its commit.
	Version string `csv:"version" json:"version"`
	// Configuration is the [Identity] of the run's configuration: SHA-256 in hexadecimal digits.
	Configuration string `csv:"configuration" json:"configuration"`
	// DataDigest is a digest of the samples and of their split. It is empty if no data were read.
	DataDigest string `csv:"data_digest" json:"data_digest"`
	// Kernel is the class of kernels that trained. It is empty if nothing was trained.
	Kernel string `csv:"kernel" json:"kernel"`
}

// ProvenanceOf is the provenance of a run with a complete configuration, as its folder has it, and this
// summary. An empty summary gives the configuration's part alone.
func ProvenanceOf(c config.Config, summary folder.Summary) (p Provenance, err error) {
	p.Version = summary.Version
	p.DataDigest = summary.DataDigest
	p.Kernel = summary.Kernel
	p.Configuration, err = Identity(c)
	return p, err
}

// Origin names one run of a study.
type Origin struct {
	Schedule string `csv:"schedule" json:"schedule"`
	Seed     uint64 `csv:"seed" json:"seed"`
	Provenance
}

// Origin returns schedule, seed and provenance of the cell's run, as its folder and its summary
// have them. The cell must have been played.
func (c *Cell) Origin() (Origin, error) {
	found, err := folder.Open(c.Config.Out)
	if err != nil {
		return Origin{}, err
	}
	p, err := ProvenanceOf(found.Config, c.Summary)
	return Origin{c.Schedule, found.Config.Seed, p}, err
}
