package study

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/bus"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
)

// Options say how a study is played. They change no result.
type Options struct {
	// Run holds the options of every run. Runs side by side report neither their own progress nor
	// their own notices. With a server in Run.NATS, hosts in other processes do the work.
	Run run.Options
	// ConfiguredHosts says that a server in a cell's configuration has hosts, too.
	ConfiguredHosts bool
	// Parallel is the number of runs that go on at the same time. With 0 it is the number of cores,
	// and the trainers of a run are reduced so that all cores are used. Where hosts do the work, 0
	// means [parallelWithHosts]; where a trainer is a process of its own, 0 means 1, because one run then
	// uses all cores.
	Parallel int
	// Progress is called now and then from the runs' goroutines, never twice at a time; may be nil.
	Progress func(Progress)
	// Until is the virtual time in seconds to which cells are played; 0: to their ends. Another Play goes
	// on from there, to the same bits.
	Until float64
	// IsWhole reports whether the folder of a cell's run, complete or cut, has all that the caller wants of
	// it. If it returns false, the cell is played from its beginning. IsWhole may be nil.
	IsWhole func(*Cell) bool
	// Adjust changes the options of one run; may be nil.
	Adjust func(*Cell, *run.Options)
	// Played is called for every cell that is complete and has not diverged, including cells that were
	// complete before. Calls may overlap. Played may be nil.
	Played func(context.Context, *Cell) error
	// CellDone is called after each cell that was run, never twice at a time; may be nil.
	CellDone func() error

	// outputFiles holds the names of the files that the caller will write into the study's folder.
	outputFiles []string
}

// Play plays those cells of a study that are not complete. Runs that are found in dir, or in a
// folder below it, are read if they are complete and resumed if they were cut. When ctx is
// cancelled, or a cell fails, the runs that are under way stop cleanly, and another call of Play
// continues them. A run that diverges is a result and ends no other run.
func Play(ctx context.Context, dir string, cells []Cell, o Options) error {
	if err := folder.Outside(dir); err != nil {
		return err
	}
	done, keptTags, err := findRuns(ctx, dir, cells, &o)
	if err != nil {
		return err
	}
	if err := o.checkOutputFiles(dir, cells); err != nil {
		return err
	}
	// The user should know that these runs are not played again.
	if done > 0 {
		o.Run.Notify(fmt.Sprintf("%d of %d runs were done before.", done, len(cells)))
	}
	if keptTags > 0 {
		o.Run.Notify(fmt.Sprintf("%d of %d runs were begun before and keep the tags that they have.", keptTags,
			len(cells)))
	}
	// Servers are tried before anything is prepared, because a missing one would stop the study
	// later.
	remote, err := o.awaitServers(ctx, cells)
	if err != nil {
		return err
	}
	if remote {
		nameUniquely(cells)
	}
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel(cells, remote)
	}
	p := &player{
		Options: o, state: Progress{Cells: len(cells), Done: done},
		hosts: hostNotices{notice: o.Run.Notify, last: map[config.Task]map[string]bus.Notice{}},
	}
	// The first of several runs may take long to begin, so the progress is shown before it.
	if o.Parallel > 1 {
		p.report()
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(o.Parallel)
	for i := range cells {
		// Each goroutine changes its own cell alone, so the list needs no lock.
		group.Go(func() error {
			c := &cells[i]
			if err := inner.Err(); err != nil {
				return err
			}
			if err := p.play(inner, c); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		// An interruption by the caller is reported as such, and not as the failure of a cell.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}

// player is one call of Play.
type player struct {
	Options
	// hosts merges the notices of the runs' hosts, which all runs share.
	hosts hostNotices
	// reporting is held while a cell reports that it is complete, so that reports do not overlap.
	reporting sync.Mutex

	// mu guards state.
	mu sync.Mutex
	// state is how far the study has come.
	state Progress
}

// checkOutputFiles returns an error if the folder dir of a study has a file that the study would write, but
// none of its runs: the file is that of an earlier study, which has nothing to do with this one. With force it
// may be replaced.
func (o *Options) checkOutputFiles(dir string, cells []Cell) error {
	wasFound := func(c Cell) bool { return c.Begun || c.Reused }
	if o.Run.Force || slices.ContainsFunc(cells, wasFound) {
		return nil
	}
	for _, name := range o.outputFiles {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s is there, and none of these runs is (choose another folder with --out, or "+
				"replace the file with --force)", filepath.Join(dir, name))
		}
	}
	return nil
}

// defaultParallel returns how many of the cells are played side by side if the caller does not say. remote
// says that hosts in other processes do the work.
func defaultParallel(cells []Cell, remote bool) int {
	isExternal := func(c Cell) bool { return c.Config.External() }
	switch {
	case remote:
		return parallelWithHosts
	// One run with a trainer of its own already uses all cores.
	case slices.ContainsFunc(cells, isExternal):
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// play plays one cell unless it is complete, and reads the run's metric. It then calls Played, unless the
// run diverged, and reports a run that was played now by a notice and by CellDone.
func (p *player) play(ctx context.Context, c *Cell) error {
	started := time.Now()
	if !c.Reused {
		if err := c.play(ctx, p.options(c)); err != nil {
			return err
		}
	}
	// A cell that was complete before needs its metric, too.
	if err := c.takeMetric(); err != nil {
		return err
	}
	if p.Played != nil && c.Diverged == "" {
		if err := p.Played(ctx, c); err != nil {
			return err
		}
	}
	// A complete run was reported by the study that played it.
	if c.Reused {
		return nil
	}
	// Notices and calls of CellDone must not overlap.
	p.reporting.Lock()
	defer p.reporting.Unlock()
	kind := "run"
	if c.Control != "" {
		kind = "control"
	}
	p.Run.Notify(fmt.Sprintf(
		"%s %d of %d: %s: %s",
		kind,
		p.countEnded(c),
		p.state.Cells,
		c.Name,
		c.outcomeText(time.Since(started)),
	))
	if p.CellDone == nil {
		return nil
	}
	return p.CellDone()
}

// options are those of one cell's run. Runs side by side share one display: their notices are merged, and their
// progress becomes that of the study. A single run at a time shows its own progress if the caller takes it
// (p.Run.Progress), and otherwise that of the study (p.Progress).
func (p *player) options(c *Cell) run.Options {
	options := p.Run
	options.Until = p.Until
	options.NATS, options.RemoteHosts = p.server(c)
	// The notices of runs that go on together would mix, so they are merged.
	if p.Parallel > 1 {
		options.Notice = nil
		options.HostNotice = p.hosts.forwarder(c)
		options.Reading = nil
	}
	if p.Parallel > 1 || p.Run.Progress == nil {
		options.Progress = nil
		if p.Progress != nil {
			options.Progress = p.watch(c)
		}
	}
	// Adjust of the caller may change any of these options.
	if p.Adjust != nil {
		p.Adjust(c, &options)
	}
	return options
}

// Shareable returns an error that names what runs side by side in one process cannot share, or nil.
func Shareable(c *config.Config) error {
	if c.NATS.Listen != "" {
		return &config.KeyError{
			Key: "nats.listen",
			Problem: "runs side by side cannot share an embedded server that listens: start a NATS server and " +
				"give --nats",
		}
	}
	return nil
}

// Progress is where a study stands, for people. Nothing in it decides anything.
type Progress struct {
	// Cells is the number of cells of the study.
	Cells int
	// Done is the number of complete cells, including those that were complete before.
	Done int
	// Running holds the progress of each run that is under way.
	Running []Running
}

// Running is a run that is under way.
type Running struct {
	// Cell is the cell that is being played.
	Cell *Cell
	// Run is the latest progress that the run reported.
	Run run.Progress
}

// Fraction is the part of the study that is done, from 0 to 1; all cells count the same.
func (p Progress) Fraction() float64 {
	if p.Cells == 0 {
		return 1
	}
	done := float64(p.Done)
	for _, r := range p.Running {
		done += r.Run.Fraction()
	}
	return done / float64(p.Cells)
}

// watch returns the function that takes the progress of the run of cell c and passes the progress
// of the whole study on. It may be called from any goroutine.
func (p *player) watch(c *Cell) func(run.Progress) {
	return func(now run.Progress) {
		p.mu.Lock()
		defer p.mu.Unlock()
		running := p.state.Running
		i := slices.IndexFunc(running, func(r Running) bool { return r.Cell == c })
		// The run reports its first progress, so it is new in the list.
		if i < 0 {
			i = len(running)
			running = append(running, Running{Cell: c})
		}
		running[i].Run = now
		p.state.Running = running
		p.report()
	}
}

// countEnded removes cell c from those under way, counts it as complete, passes the progress on, and
// returns the number of complete cells.
func (p *player) countEnded(c *Cell) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Running = slices.DeleteFunc(p.state.Running, func(r Running) bool { return r.Cell == c })
	p.state.Done++
	p.report()
	return p.state.Done
}

// report passes the progress of the study on, if anybody takes it (p.Progress). The caller holds
// p.mu, or no run has begun.
func (p *player) report() {
	if p.Progress != nil {
		progress := p.state
		// The receiver may keep the progress, so it gets a copy of the list.
		progress.Running = slices.Clone(progress.Running)
		p.Progress(progress)
	}
}
