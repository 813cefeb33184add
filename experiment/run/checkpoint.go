package run

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
)

// checkpointer writes a run's checkpoints: the outputs are brought to the disk, then
// the state, which is the truth. It holds the run for as long as that takes, so
// it waits for longer where a checkpoint takes long.
type checkpointer struct {
	recorder *recorder
	results  *folder.Results
	limit    round.Time
	head     checkpointHead
	every    time.Duration

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
func (r *recorder) keepCheckpoints(limit round.Time, previous *attempt) *checkpointer {
	c := r.p.config
	k := &checkpointer{
		recorder: r, results: r.results, limit: limit, head: r.p.identity(r.o.Version), spoilt: previous != nil && previous.spoilt,
		every: time.Duration(c.Checkpoint.Seconds * float64(time.Second)), asked: make(chan struct{}),
	}
	k.alarm = time.AfterFunc(k.every, func() { k.due.Store(true) })
	k.listen.Go(func() {
		for {
			select {
			case <-r.o.Checkpoint: // never, where nobody asks
				k.due.Store(true)
			case <-k.asked:
				return
			}
		}
	})
	return k
}

func (k *checkpointer) close() {
	k.alarm.Stop()
	close(k.asked)
	k.listen.Wait()
}

func (k *checkpointer) save(s *coordinator.State) error {
	started := time.Now()
	k.due.Store(false)
	if err := k.recorder.outputs.Flush(); err != nil {
		return err
	}
	sizes, err := k.results.Sync()
	if err != nil {
		return err
	}
	saved, err := k.recorder.save()
	if err != nil {
		return err
	}
	c := &k.last
	c.head, c.state = k.head, *s
	c.body.Limit, c.body.Outputs, c.body.Recorder = int64(k.limit), sizes, saved
	defer func() { // nothing of the run is held longer than it holds it itself
		c.state, c.body.State, c.body.Recorder = coordinator.State{}, coordinator.State{}, savedRecorder{}
	}()
	if err := k.results.ReplaceCheckpoint(!k.spoilt, c.writeTo); err != nil {
		return fmt.Errorf("results: checkpoint: %w", err)
	}
	k.spoilt = false
	now := time.Now()
	k.recorder.checkpoint.Store(&now)
	k.alarm.Reset(max(k.every, time.Duration(float64(now.Sub(started))/maxShare)))
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
	c, err = p.readCheckpoint(dir, folder.CheckpointFile)
	if err != nil && !folder.IsSpoilt(err) {
		return nil, false, err
	}
	if c != nil {
		return c, true, nil
	}
	before, previousErr := p.readCheckpoint(dir, folder.PreviousCheckpointFile)
	switch {
	case previousErr != nil:
		return nil, false, errors.Join(err, previousErr)
	case before == nil && err != nil:
		return nil, false, fmt.Errorf("%w, and there is none before it (start the run again with run --config %s --force)", err, filepath.Join(dir, folder.ConfigFile))
	case before != nil && err != nil:
		o.notice(fmt.Sprintf("The newest checkpoint cannot be used (%v): the run goes on from the one before.", err))
	}
	return before, err == nil, nil
}

// readCheckpoint reads one and checks that it is this run's; nil where there is
// no such file.
func (p *problem) readCheckpoint(dir, name string) (*checkpoint, error) {
	c := &checkpoint{}
	err := folder.ReadCheckpoint(dir, name, func(in *folder.Payload) error {
		if err := c.read(in); err != nil {
			return err
		}
		return c.head.fits(p.identity(""))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// mayMove says of a key that it may change while a run is stopped: it changes
// none of its bits, and none of its files. The data may have moved: its digest
// tells whether it is the same.
func mayMove(c config.Change) bool {
	return c.Key == "data" || c.Inert && c.Key != "events.sample" && !strings.HasPrefix(c.Key, "outputs")
}

// fits says in what a checkpoint's run is not the one that is to go on.
func (h checkpointHead) fits(run checkpointHead) error {
	theirs, err := config.Parse("configuration", []byte(h.Config))
	if err != nil {
		return fmt.Errorf("%w: its configuration cannot be read: %w", folder.ErrForeign, err)
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
		return fmt.Errorf("%w: it is of another configuration: %s (change config.yaml back, or start again with run --force)", folder.ErrForeign, strings.Join(other, "; "))
	}
	switch {
	case h.Data != run.Data:
		return fmt.Errorf("%w: it is of other data (digest %.12s, the run's is %.12s)", folder.ErrForeign, digestName(h.Data), digestName(run.Data))
	case h.Kernel != run.Kernel:
		return fmt.Errorf("%w: it is of the kernel class %s, and this machine has %s: the bits would change", folder.ErrForeign, h.Kernel, run.Kernel)
	}
	return nil
}

func digestName(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest
}
