package paper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
)

// Options are how a plan is done; they change no result.
type Options struct {
	Version string
	NATS    run.Connection // of a server on which hosts in other processes train; no URL: the configuration's, and with none there this process trains
	Beside  int            // cells side by side; 0: as many as there are cores, each with a trainer a core, so that the last has them all, and elsewhere the paper's schedules
	Notice  func(string)   // may be called from any goroutine; may be nil
	// Progress is called now and then from the cells' goroutines, never twice at a
	// time; may be nil.
	Progress func(Progress)
	Done     func() error // called after each cell that was run, never twice at a time; may be nil
}

// Run does the cells that are not done. When ctx is cancelled, or a cell fails,
// those under way stop cleanly; another Run goes on where this one stopped.
func Run(ctx context.Context, cells []Cell, o Options) error {
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	under := watch{tell: o.Progress, state: Progress{Cells: len(cells)}}
	left, err := remaining(cells, &under)
	if err != nil {
		return err
	}
	elsewhere, err := o.reach(ctx, left)
	if err != nil {
		return err
	}
	beside := o.Beside
	switch {
	case beside > 0:
	case elsewhere:
		beside = besideElsewhere
	default:
		beside = runtime.GOMAXPROCS(0)
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(beside)
	said := chorus{tell: o.Notice, last: map[config.Task]map[string]string{}}
	var telling sync.Mutex
	done := len(cells) - len(left)
	tell := func(c *Cell, s folder.Summary, how string) error {
		telling.Lock()
		defer telling.Unlock()
		done++
		o.Notice(fmt.Sprintf("cell %d of %d: %s: %s (%s)", done, len(cells), c.Name(), story(s), how))
		if o.Done == nil {
			return nil
		}
		return o.Done()
	}
	for _, c := range left {
		options := run.Options{Version: o.Version, Progress: under.of(c), Others: said.of(c)}
		options.NATS, options.Elsewhere = o.server(c)
		group.Go(func() error {
			if err := inner.Err(); err != nil {
				return err
			}
			started := time.Now()
			summary, err := do(inner, c, options)
			under.ended(c, err == nil)
			if err != nil {
				return fmt.Errorf("paper: %s: %w", c.Name(), err)
			}
			return tell(c, summary, fmt.Sprintf("%.0f s", time.Since(started).Seconds()))
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}

// remaining are the cells that are not done.
func remaining(cells []Cell, under *watch) (left []*Cell, err error) {
	for i := range cells {
		c := &cells[i]
		s, err := finished(c.Config.Out)
		switch {
		case err != nil:
			return nil, err
		case s != nil:
			under.ended(c, true)
		default:
			left = append(left, c)
		}
	}
	return left, nil
}

// finished is the summary of a cell that is done; nil: it is not.
func finished(dir string) (*folder.Summary, error) {
	s, err := folder.ReadSummary(filepath.Join(dir, folder.SummaryFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("paper: %w", err)
	case !s.Completed:
		return nil, nil
	}
	return &s, nil
}

// do runs a cell, or goes on with one that was cut. A cell's folder holds this
// very computation: its name says so. How it is done may have changed since.
func do(ctx context.Context, c *Cell, o run.Options) (folder.Summary, error) {
	o.Manner = &c.Config
	r, err := run.Resume(ctx, c.Config.Out, o)
	if errors.Is(err, run.ErrNoRun) {
		return run.Run(ctx, c.Config, o)
	}
	return r.Summary, err
}

// story is what became of a cell.
func story(s folder.Summary) string {
	text := fmt.Sprintf("%d rounds", s.Rounds)
	if s.BestTrainingLoss != nil {
		text += fmt.Sprintf(", lowest loss %.4f", *s.BestTrainingLoss)
	}
	if s.BestValidationAccuracy != nil {
		text += fmt.Sprintf(", best accuracy %.4f", *s.BestValidationAccuracy)
	}
	return text
}
