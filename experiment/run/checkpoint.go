package run

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
)

// checkpointer writes a run's checkpoints by [folder.Store.Checkpoint]. The run stands still
// meanwhile, so checkpoints that take long are written less often: see maxShare.
type checkpointer struct {
	recorder *recorder
	// every is the wall time from one checkpoint to the next, where writing is fast enough.
	every time.Duration

	// due says that the next round to end writes a checkpoint; alarm sets it when the time has come.
	due   atomic.Bool
	alarm *time.Timer
	// stop ends the goroutine that listens for requests of a checkpoint.
	stop   chan struct{}
	listen sync.WaitGroup

	// newestDamaged says that the newest file cannot be used, so it does not become the previous
	// one.
	newestDamaged bool
	// failing says that the last checkpoint could not be written.
	failing bool
	// next is the checkpoint that is written next. What all checkpoints of the run have in common stays in it.
	next checkpoint.Checkpoint
}

// maxShare is the largest share of a run's wall time that checkpoints may take.
const maxShare = 1. / 20

// keepCheckpoints begins to make checkpoints due: by a timer, and whenever the caller of the run asks for
// one. A due checkpoint is written at the end of the round, by save. limit is the virtual time at which the
// run ends, and previous the attempt that the run continues. The caller ends it with close.
func (r *recorder) keepCheckpoints(limit round.Time, previous attempt) *checkpointer {
	k := &checkpointer{
		recorder:      r,
		newestDamaged: previous.newestDamaged,
		every:         wall(r.p.Config.Checkpoint.Seconds),
		stop:          make(chan struct{}),
	}
	// The head says which run the checkpoint belongs to. The limit may have been measured by playing
	// rounds of fixed K, which a resumed run must not repeat.
	k.next.Head = r.p.identity(r.p.options.Version)
	k.next.Body.Limit = int64(limit)
	// The recorder shows the time of the next checkpoint to the user.
	nextDue := time.Now().Add(k.every)
	r.due.Store(&nextDue)
	k.alarm = time.AfterFunc(k.every, func() { k.due.Store(true) })
	k.listen.Go(k.listenForRequests)
	return k
}

// listenForRequests makes a checkpoint due each time that the caller of the run asks for one, until close
// is called.
func (k *checkpointer) listenForRequests() {
	for {
		select {
		case <-k.recorder.p.options.Checkpoint:
			k.due.Store(true)
		case <-k.stop:
			return
		}
	}
}

// close stops the timer and the listener. No checkpoint is being written then.
func (k *checkpointer) close() {
	k.alarm.Stop()
	close(k.stop)
	k.listen.Wait()
}

// save writes a checkpoint with the coordinator's state. The coordinator calls it at the end of a round if
// a checkpoint is due. A checkpoint that cannot be written does not end the run, which keeps the one before;
// the error returned is that of an output, which does end it.
func (k *checkpointer) save(s *coordinator.State) error {
	started := time.Now()
	k.due.Store(false)
	r := k.recorder
	// The checkpoint says how long each file is, so all that was written has to be in the files
	// first.
	if err := r.outputs.Flush(); err != nil {
		return err
	}
	c := &k.next
	var err error
	c.Body.Recorder = checkpoint.Recorder{Elapsed: time.Since(r.started), Summary: r.saved}
	c.Body.Recorder.Summary.Restarts = r.restarts()
	c.Body.Recorder.Outputs, err = r.outputs.Save()
	if err != nil {
		return err
	}
	c.State = *s
	// The state, which is in the body once it is written, is released, so that the checkpoint does not hold the run's
	// memory.
	defer func() {
		c.State = coordinator.State{}
		c.Body.State = coordinator.State{}
		c.Body.Recorder = checkpoint.Recorder{}
	}()
	// The newest checkpoint so far is kept as the previous one, unless it cannot be used.
	keepNewest := !k.newestDamaged
	err = r.results.Checkpoint(keepNewest, c.WriteWith)
	// Outputs that cannot be brought to the disk end the run, since no checkpoint can count on them.
	if errors.Is(err, folder.ErrUnsynced) {
		return err
	}
	// After any other error the run continues: the older checkpoint stays until a new one is whole.
	k.report(err)
	now := time.Now()
	// The pause is long enough that writing takes at most maxShare of the time.
	writing := now.Sub(started)
	pause := max(k.every, time.Duration(float64(writing)/maxShare))
	if err == nil {
		k.newestDamaged = false
		r.checkpoint.Store(&now)
		nextDue := now.Add(pause)
		r.due.Store(&nextDue)
	}
	k.alarm.Reset(pause)
	return nil
}

// report tells the user once when checkpoints begin to fail, and once when they can be written
// again. err is that of the last attempt, nil if it succeeded.
func (k *checkpointer) report(err error) {
	r := k.recorder
	switch {
	case err != nil:
		r.checkpointFailures.Add(1)
		if !k.failing {
			// Every vector may have failed with an error of its own; the first line is enough.
			reason, _, _ := strings.Cut(err.Error(), "\n")
			r.p.options.Notify(fmt.Sprintf("The checkpoint cannot be written (%s). The run goes on and tries again "+
				"every %v; if it stops, it goes on from the checkpoint before: fedpace "+
				"resume %s", reason, k.every, r.p.Config.Out))
		}
	case k.failing:
		r.p.options.Notify("Checkpoints can be written again.")
	}
	k.failing = err != nil
}

// identity returns the head of the run's checkpoints: everything that the bits of its model follow
// from, such as configuration, kernel and data. version is that of the program.
func (p *experiment) identity(version string) checkpoint.Head {
	h := checkpoint.Head{
		Config:  string(p.Config.YAML()),
		Kernel:  p.Kernel,
		Version: version,
		Files:   p.Files,
	}
	// A run that only measures time has no data.
	if p.Set != nil {
		h.Data = p.Set.Info().Digest
	}
	// The name of a trainer's model holds the digest of its script.
	if p.Trainer != nil {
		h.Trainer = p.Model.String()
	}
	return h
}
