package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/actors/external"
	"fedpace/actors/learn"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
)

// checkpointer writes a run's checkpoints, by [folder.Store.Checkpoint]. The run stands
// still meanwhile, so slow checkpoints are written less often.
type checkpointer struct {
	recorder *recorder
	every    time.Duration

	due    atomic.Bool
	alarm  *time.Timer
	stop   chan struct{} // ends the listener
	listen sync.WaitGroup

	spoilt  bool       // the newest file cannot be used, so it does not become the previous one
	failing bool       // the last could not be written
	next    checkpoint // its memory is used again
}

// maxShare is the most of a run's wall time that checkpoints may take.
const maxShare = 1. / 20

// keepCheckpoints starts a run's checkpoints. End them with close.
func (r *recorder) keepCheckpoints(limit round.Time, previous *attempt) *checkpointer {
	k := &checkpointer{
		recorder: r, spoilt: previous != nil && previous.spoilt, every: wall(r.p.Config.Checkpoint.Seconds), stop: make(chan struct{}),
	}
	k.next.head, k.next.body.Limit = r.p.identity(r.o.Version), int64(limit)
	k.alarm = time.AfterFunc(k.every, func() { k.due.Store(true) })
	k.listen.Go(func() {
		for {
			select {
			case <-r.o.Checkpoint:
				k.due.Store(true)
			case <-k.stop:
				return
			}
		}
	})
	return k
}

func (k *checkpointer) close() {
	k.alarm.Stop()
	close(k.stop)
	k.listen.Wait()
}

// save writes a checkpoint. Where it cannot be written the run goes on, with the one
// before; an error is one of the outputs, which ends the run.
func (k *checkpointer) save(s *coordinator.State) error {
	started := time.Now()
	k.due.Store(false)
	r := k.recorder
	if err := r.outputs.Flush(); err != nil {
		return err
	}
	c, results := &k.next, r.results
	var err error
	c.body.Recorder = savedRecorder{Elapsed: time.Since(r.started), Summary: r.saved}
	c.body.Recorder.Summary.Restarts = r.restarts()
	if c.body.Recorder.Outputs, err = r.outputs.Save(); err != nil {
		return err
	}
	c.state = *s
	defer func() { // so that the run's memory is not held
		c.state, c.body.State, c.body.Recorder = coordinator.State{}, coordinator.State{}, savedRecorder{}
	}()
	if err = results.Checkpoint(!k.spoilt, c.writeWith); errors.Is(err, folder.ErrUnsynced) {
		return err
	}
	k.report(err)
	now := time.Now()
	if err == nil {
		k.spoilt = false
		r.checkpoint.Store(&now)
	}
	k.alarm.Reset(max(k.every, time.Duration(float64(now.Sub(started))/maxShare)))
	return nil
}

// report tells the user when checkpoints begin to fail, and when they no longer do.
func (k *checkpointer) report(err error) {
	r := k.recorder
	switch {
	case err != nil:
		r.unwritten.Add(1)
		if !k.failing {
			why, _, _ := strings.Cut(err.Error(), "\n") // every vector may have failed
			r.o.notice(fmt.Sprintf("The checkpoint cannot be written (%s). The run goes on and tries again every %v; if it stops, it goes on from the checkpoint before: fedpace resume %s", why, k.every, r.p.Config.Out))
		}
	case k.failing:
		r.o.notice("Checkpoints can be written again.")
	}
	k.failing = err != nil
}

// identity says what the run's checkpoints are of.
func (p *experiment) identity(version string) checkpointHead {
	h := checkpointHead{Config: string(p.Config.YAML()), Kernel: p.Kernel, Version: version}
	if p.Set != nil {
		h.Data = p.Set.Info().Digest
	}
	if p.Trainer != nil {
		h.Trainer = p.Model.String()
	}
	return h
}

// ErrDamaged is wrapped by the error for a folder in which so much is damaged that
// its run cannot go on from any checkpoint.
var ErrDamaged = errors.New("too much is damaged")

// checkpoint reads the newest checkpoint that is whole and whose outputs still hold
// what it says; nil if there is none at all. newest reports whether it is the newest
// of all. One that is foreign is refused: it may be all that is left of another run.
func (p *experiment) checkpoint(results *folder.Results, o Options) (c *checkpoint, newest bool, err error) {
	dir := results.Path("")
	var wrong []error
	for _, name := range folder.Checkpoints {
		c, err := p.readCheckpoint(dir, name)
		if err == nil && c == nil {
			continue
		}
		if err == nil {
			err = results.Check(c.body.Outputs)
		}
		if err == nil {
			for _, e := range wrong {
				o.notice(fmt.Sprintf("The newest checkpoint cannot be used (%v): the run goes on from the one before.", e))
			}
			return c, wrong == nil, nil
		}
		wrong = append(wrong, err)
		if errors.Is(err, folder.ErrForeign) || errors.Is(err, folder.ErrFormat) {
			return nil, false, errors.Join(wrong...)
		}
	}
	switch len(wrong) {
	case 0:
		return nil, true, nil
	case 1:
		return nil, false, fmt.Errorf("%w: %w, and there is none before it (%s)", ErrDamaged, wrong[0], playAgain(dir))
	}
	return nil, false, fmt.Errorf("%w: %w; and the checkpoint before: %w (%s)", ErrDamaged, wrong[0], wrong[1], playAgain(dir))
}

// playAgain says what is left where a folder cannot be repaired.
func playAgain(dir string) string {
	dir = filepath.Clean(dir)
	return fmt.Sprintf("start the run again with run --config %s --out %s --force", filepath.Join(dir, folder.ConfigFile), dir)
}

// readCheckpoint reads one and checks that it is this run's; nil if there is no such
// file.
func (p *experiment) readCheckpoint(dir, name string) (*checkpoint, error) {
	c := &checkpoint{}
	err := folder.ReadCheckpoint(dir, name, func(in *folder.Payload) error {
		if err := c.read(in); err != nil {
			return err
		}
		return c.head.fits(p.identity(""))
	})
	if err == nil {
		return c, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, err
}

// mayMove reports whether a key may change while a run is stopped: it changes no bit
// and no file. The data and the trainer may have moved: their digests tell whether they
// are the same. So does the kernel's class, which earlier versions did not write.
func mayMove(c config.Change) bool {
	return c.Key == "data" || c.Key == "kernel" || c.Key == "trainer" || c.Inert && c.Key != "events.sample" && !strings.HasPrefix(c.Key, "outputs")
}

// fits returns an error that says how a checkpoint's run differs from the given one.
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
		return fmt.Errorf("%w: it is of another configuration: %s (change config.yaml back, move a checkpoint of another run away, or start again with run --force)", folder.ErrForeign, strings.Join(other, "; "))
	}
	switch {
	case h.Data != run.Data:
		return fmt.Errorf("%w: it is of other data (digest %.12s, the run's is %.12s)", folder.ErrForeign, cmp.Or(h.Data, "none"), cmp.Or(run.Data, "none"))
	case h.Trainer != run.Trainer:
		return fmt.Errorf("%w: %w (bring the trainer back with which it began, or start again with run --force)", folder.ErrForeign, external.Differ(h.Trainer, run.Trainer))
	case learn.KernelClass(h.Kernel) != run.Kernel:
		return fmt.Errorf("%w: it is of the kernel class %s, and the run would go on in %s: the bits would change (go on with it on a machine with that class)", folder.ErrForeign, learn.KernelClass(h.Kernel), run.Kernel)
	}
	return nil
}
