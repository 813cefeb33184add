package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"fedpace/coordinator/round"
	"fedpace/experiment/config"
)

// Resumed is what came of a run that was to go on.
type Resumed struct {
	Config   config.Config
	Summary  Summary
	Complete bool // it was complete already, nothing was done
}

// ErrNoRun is wrapped by the error for a folder without a run.
var ErrNoRun = errors.New("no run is there to go on with")

// Resume goes on with the run in a folder that was interrupted, failed or
// died, from its last checkpoint, or from its start where it has none yet. Its
// results are to the bit those of the run that was never stopped, but for the
// wall time, which counts all lives. The folder may have been moved.
func Resume(ctx context.Context, dir string, o Options) (r Resumed, err error) {
	started := time.Now()
	path := filepath.Join(dir, ConfigFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s: %w (it holds no %s; start one with run --out %s)", dir, ErrNoRun, ConfigFile, dir)
	}
	if r.Config, err = config.Load(path, nil); err != nil {
		return r, err
	}
	r.Config.Out = dir
	if m := o.Manner; m != nil {
		r.Config.Name, r.Config.HTTP, r.Config.Pace, r.Config.Checkpoint, r.Config.NATS = m.Name, m.HTTP, m.Pace, m.Checkpoint, m.NATS
	}
	if r.Summary, err = ReadSummary(filepath.Join(dir, SummaryFile)); err == nil && r.Summary.Completed {
		r.Complete = true
		return r, nil
	}
	results, err := reopenResults(dir)
	if err != nil {
		return r, err
	}
	p, err := prepare(r.Config)
	if err != nil {
		return r, errors.Join(err, results.Close())
	}
	r.Config = p.config
	r.Summary, err = p.resume(ctx, o, started, results)
	return r, errors.Join(err, p.Close())
}

// reopenResults locks the folder of a run that is to go on. Nothing in it is
// changed before Results.goOn.
func reopenResults(dir string) (*Results, error) {
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	return &Results{dir: dir, lock: lock, resumed: true}, nil
}

// goOn cuts what the run had written back to its checkpoint and removes what it
// will write again.
func (r *Results) goOn(sizes []outputSize) error {
	r.sizes = sizes
	for _, o := range sizes { // before any is cut
		if err := r.reaches(o); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	if err := errors.Join(r.clean(), r.startRounds()); err != nil {
		return err
	}
	if err := r.remove(SummaryFile, ModelFile, BestModelFile, PageFile, RoundsTable, ClientTable, unfinishedCheckpoint); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// reaches says whether an output is as long as the checkpoint has it.
func (r *Results) reaches(o outputSize) error {
	info, err := os.Stat(r.path(o.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is gone, and the checkpoint goes on from its byte %d", o.Name, o.Size)
	case err != nil:
		return err
	case info.Size() < o.Size:
		return fmt.Errorf("%s holds %d bytes, and the checkpoint goes on from %d: it has been changed since", o.Name, info.Size(), o.Size)
	}
	return nil
}

// resume reads the checkpoint and plays the rest.
func (p *problem) resume(ctx context.Context, o Options, started time.Time, results *Results) (Summary, error) {
	c, newest, err := p.checkpoint(p.config.Out, o)
	if err != nil {
		return Summary{}, errors.Join(err, results.Close())
	}
	if c == nil {
		o.notice("The run has no checkpoint yet and starts again.")
	} else {
		o.notice(fmt.Sprintf("The run goes on after round %d, at %s.", c.body.Tally.Last.Round, VirtualTime(c.body.Tally.Last.End.Seconds())))
		if c.head.Version != o.Version {
			o.notice(fmt.Sprintf("It was begun with version %s, this is %s: bits may differ.", c.head.Version, o.Version))
		}
	}
	summary, err := p.live(ctx, o, started, &life{results: results, checkpoint: c, spoilt: !newest})
	return summary, errors.Join(err, results.Close())
}

// life is an earlier life of a run; nil where there is none.
type life struct {
	results    *Results
	checkpoint *checkpoint // nil: it died before its first
	spoilt     bool        // the newest checkpoint is damaged
}

// limit is the virtual time at which the run ends, where it is known.
func (l *life) limit() (limit round.Time, known bool) {
	if l == nil || l.checkpoint == nil {
		return 0, false
	}
	return round.Time(l.checkpoint.body.Limit), true
}

// undo ends the results of a run that never began: what an earlier life had
// done stays.
func (l *life) undo(r *Results) error {
	if l == nil {
		return r.Discard()
	}
	return r.Close()
}

// results opens the folder that the run fills.
func (p *problem) results(o Options, before *life) (*Results, error) {
	if before == nil {
		return CreateResults(p.config.Out, p.config, o.Force)
	}
	var sizes []outputSize
	if before.checkpoint != nil {
		sizes = before.checkpoint.body.Outputs
	}
	return before.results, before.results.goOn(sizes)
}
