package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
)

// A run's checkpoints in its folder: the newest, and the one before it, to which
// a run goes back when the newest is damaged.
const (
	CheckpointFile         = "checkpoint.bin"
	PreviousCheckpointFile = "checkpoint.previous.bin"

	unfinishedCheckpoint = ".checkpoint.unfinished"
)

// keeper writes a run's checkpoints: the outputs are brought to the disk, then
// the state, which is the truth. It holds the run for as long as that takes, so
// it waits for longer where a checkpoint takes long.
type keeper struct {
	tally   *tally
	results *Results
	limit   round.Time
	head    checkpointHead
	every   time.Duration

	due    atomic.Bool
	alarm  *time.Timer
	asked  chan struct{} // ends those who listen
	listen sync.WaitGroup

	spoilt bool       // the newest file is not one to go back to
	last   checkpoint // its memory is used again
}

// maxShare is the most of a run's wall time that checkpoints may take.
const maxShare = 1. / 20

// keepCheckpoints starts a run's checkpoints. End them with close.
func (t *tally) keepCheckpoints(limit round.Time, before *life) *keeper {
	c := t.p.config
	k := &keeper{
		tally: t, results: t.results, limit: limit, head: t.p.identity(t.o.Version), spoilt: before != nil && before.spoilt,
		every: time.Duration(c.Checkpoint.Seconds * float64(time.Second)), asked: make(chan struct{}),
	}
	k.alarm = time.AfterFunc(k.every, func() { k.due.Store(true) })
	if t.o.Checkpoint != nil {
		k.listen.Go(func() {
			for {
				select {
				case <-t.o.Checkpoint:
					k.due.Store(true)
				case <-k.asked:
					return
				}
			}
		})
	}
	return k
}

func (k *keeper) close() {
	k.alarm.Stop()
	close(k.asked)
	k.listen.Wait()
}

// hooks are what the coordinator calls.
func (k *keeper) hooks() coordinator.Checkpoint {
	return coordinator.Checkpoint{Due: k.due.Load, Save: k.save}
}

func (k *keeper) save(s *coordinator.State) error {
	started := time.Now()
	k.due.Store(false)
	sizes, err := k.results.syncOutputs()
	if err != nil {
		return err
	}
	c := &k.last
	c.head, c.state, c.best = k.head, *s, k.tally.best
	c.body.Limit, c.body.Outputs, c.body.Tally = int64(k.limit), sizes, k.tally.save()
	defer func() { // nothing of the run is held longer than it holds it itself
		c.state, c.best, c.body.State, c.body.Tally = coordinator.State{}, nil, coordinator.State{}, savedTally{}
	}()
	if err := k.results.replaceCheckpoint(c, !k.spoilt); err != nil {
		return fmt.Errorf("results: checkpoint: %w", err)
	}
	k.spoilt = false
	if w := k.tally.watch; w != nil {
		w.metrics.Checkpointed(time.Now())
	}
	k.alarm.Reset(max(k.every, time.Duration(float64(time.Since(started))/maxShare)))
	return nil
}

// replaceCheckpoint writes a checkpoint whole, to the disk, and puts it in the
// place of the newest, which becomes the previous one if rotate is set.
func (r *Results) replaceCheckpoint(c *checkpoint, rotate bool) error {
	unfinished := r.path(unfinishedCheckpoint)
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	err = writeCheckpoint(f, c)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && rotate {
		if err = os.Rename(r.path(CheckpointFile), r.path(PreviousCheckpointFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(unfinished, r.path(CheckpointFile))
	}
	if err != nil {
		return errors.Join(err, r.remove(unfinishedCheckpoint))
	}
	return syncFolder(r.dir)
}

// syncFolder brings renamed files to the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil // not every system has this for folders
	}
	return errors.Join(err, f.Close())
}

// forget removes the checkpoints of a run that is complete.
func (r *Results) forget() error {
	if err := r.remove(CheckpointFile, PreviousCheckpointFile, unfinishedCheckpoint); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// identity is what the run's checkpoints are of.
func (p *problem) identity(version string) checkpointHead {
	h := checkpointHead{Config: string(p.config.YAML()), Kernel: p.kernel, Version: version}
	if p.set != nil {
		h.Data = p.set.Info().Digest
	}
	return h
}

// checkpoint reads the folder's newest checkpoint, or the one before it where
// the newest is damaged; nil where there is none. newest says whether it is the
// newest file.
func (p *problem) checkpoint(dir string, o Options) (c *checkpoint, newest bool, err error) {
	c, err = p.readCheckpoint(filepath.Join(dir, CheckpointFile))
	if err != nil && !spoilt(err) {
		return nil, false, err
	}
	if c != nil {
		return c, true, nil
	}
	before, previousErr := p.readCheckpoint(filepath.Join(dir, PreviousCheckpointFile))
	switch {
	case previousErr != nil:
		return nil, false, errors.Join(err, previousErr)
	case before == nil && err != nil:
		return nil, false, fmt.Errorf("%w, and there is none before it (start the run again with run --config %s --force)", err, filepath.Join(dir, ConfigFile))
	case before != nil && err != nil:
		o.notice(fmt.Sprintf("The newest checkpoint cannot be used (%v): the run goes on from the one before.", err))
	}
	return before, err == nil, nil
}

// readCheckpoint reads one and checks that it is this run's; nil where there is
// no such file.
func (p *problem) readCheckpoint(path string) (*checkpoint, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	c, err := readCheckpoint(f, info.Size())
	if err == nil {
		err = c.head.fits(p.identity(""))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// mayMove says of a key that it may change while a run is stopped: it changes
// none of its bits, and none of its files. The data may have moved: its digest
// tells whether it is the same.
func mayMove(c config.Change) bool {
	return c.Key == "data" || c.Inert && c.Key != "events.sample"
}

// fits says in what a checkpoint's run is not the one that is to go on.
func (h checkpointHead) fits(run checkpointHead) error {
	theirs, err := config.Parse("configuration", []byte(h.Config))
	if err != nil {
		return fmt.Errorf("%w: its configuration cannot be read: %w", ErrForeign, err)
	}
	ours, err := config.Parse("configuration", []byte(run.Config))
	if err != nil {
		return err
	}
	var other []string
	for _, change := range theirs.Changes(ours) {
		if !mayMove(change) {
			other = append(other, fmt.Sprintf("%s is %s, the run's %s", change.Key, change.From, change.To))
		}
	}
	if len(other) > 0 {
		return fmt.Errorf("%w: it is of another configuration: %s (change config.yaml back, or start again with run --force)", ErrForeign, strings.Join(other, "; "))
	}
	switch {
	case h.Data != run.Data:
		return fmt.Errorf("%w: it is of other data (digest %.12s, the run's is %.12s)", ErrForeign, digestName(h.Data), digestName(run.Data))
	case h.Kernel != run.Kernel:
		return fmt.Errorf("%w: it is of the kernel class %s, and this machine has %s: the bits would change", ErrForeign, h.Kernel, run.Kernel)
	}
	return nil
}

func digestName(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest
}
