package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/policies"
	"fedpace/internal/human"
)

// Resumed is what came of resuming a run.
type Resumed struct {
	Config  config.Config
	Summary folder.Summary
	// Complete says that the run was complete before, and that nothing was done.
	Complete bool
}

// restoreConfig writes config.yaml in the folder dir again from a usable checkpoint, if the file
// is missing, and tells the user through o. Without such a checkpoint it does nothing: Resume then says
// that the folder holds no run.
func restoreConfig(dir string, o *Callbacks) error {
	if !errors.Is(folder.HoldsRun(dir), folder.ErrNoRun) {
		return nil
	}
	// Each checkpoint holds the configuration of its run.
	usable := checkpoint.ReadAll(dir).Usable()
	if len(usable) == 0 {
		return nil
	}
	results, err := folder.ReopenResults(dir)
	if err != nil {
		return err
	}
	err = results.Replace(folder.ConfigFile, func(w io.Writer) error {
		_, err := io.WriteString(w, usable[0].Head.Config)
		return err
	})
	err = errors.Join(err, results.Close())
	if err == nil {
		o.Notify(fmt.Sprintf("%s was gone: it is written again as %s holds it.", folder.ConfigFile, usable[0].Name))
	}
	return err
}

// Resume resumes the run in a folder from the last checkpoint that nothing has damaged, or from its
// start if it has none yet. Its results are to the bit those of a run that was never stopped, but
// for the wall time, which counts all attempts. The folder may have been moved. A run that is
// complete stays as it is, and is reported as complete.
func Resume(ctx context.Context, dir string, o Options) (r Resumed, err error) {
	started := time.Now()
	r.Config, err = o.resumedConfig(dir)
	if err != nil {
		return r, err
	}
	summary, summaryErr := folder.ReadSummary(filepath.Join(dir, folder.SummaryFile))
	r.Summary = summary
	if summary.Completed {
		r.Complete, err = o.keepComplete(dir, &summary)
		if err != nil || r.Complete {
			return r, err
		}
	}
	// A replay is never continued from a checkpoint, so it cannot be resumed. A run whose real devices reach no server
	// is one, unless the caller names a server.
	if o.NATS.URL == "" && r.Config.Replayed() {
		held := folder.Inspect(dir)
		return r, fmt.Errorf("%s: play it again (fedpace run --replay RUN --out %s --force)", held.Sentence(), dir)
	}
	// From here on the folder is locked, so that no other process fills it.
	results, err := folder.ReopenResults(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, results.Close()) }()
	if r.Config.PlaysFlower() {
		o.Notify("The run goes on: its app is played again from its start, with the replies that " +
			folder.JournalFile + " holds.")
		r.Summary, err = o.playFlower(ctx, r.Config, started, attempt{results: results})
		return r, err
	}
	p, err := o.prepare(ctx, r.Config)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	r.Config = p.Config
	if err := p.Policies.Remember(dir); err != nil {
		return r, err
	}
	previous, err := p.lastAttempt(results, dir, summaryErr)
	if err != nil {
		return r, err
	}
	r.Summary, err = p.execute(ctx, started, previous)
	return r, previous.explain(err, dir)
}

// resumedConfig returns the configuration with which the run in the folder dir continues: that of the
// folder, with what the caller overrides. It refuses a folder whose configuration would execute
// something to which the user has not consented.
func (o *Options) resumedConfig(dir string) (c config.Config, err error) {
	if err := restoreConfig(dir, &o.Callbacks); err != nil {
		return c, err
	}
	if err := folder.HoldsRun(dir); err != nil {
		return c, err
	}
	c, err = config.Load(filepath.Join(dir, folder.ConfigFile), nil)
	if err != nil {
		if usable := checkpoint.ReadAll(dir).Usable(); len(usable) > 0 {
			err = fmt.Errorf("%w (%s)", err, usable[0].ConfigWayOut(dir))
		}
		return c, err
	}
	c.Out = dir
	if err := o.change(&c, dir); err != nil {
		return c, err
	}
	// The folder may be anybody's, so what it would execute needs the user's consent.
	if err := AllowTrainer(&c, dir, o.Trust || o.Trainer != ""); err != nil {
		return c, err
	}
	if err := o.allowApp(&c, dir); err != nil {
		return c, err
	}
	return c, AllowPolicies(&c, dir, o.Trust)
}

// keepComplete reports whether the run in the folder dir is complete, as its summary s says, and tidies
// the folder if so. A complete run continues only if its files are damaged and a checkpoint is left;
// without a checkpoint the damage is the error.
func (o *Options) keepComplete(dir string, s *folder.Summary) (bool, error) {
	damage := checkpoint.CheckComplete(dir, s)
	if damage == nil {
		return true, folder.Tidy(dir)
	}
	if len(checkpoint.ReadAll(dir)) == 0 {
		return false, damage
	}
	o.Notify(fmt.Sprintf("It goes on from a checkpoint that is left: %v.", damage))
	return false, nil
}

// lastAttempt returns the attempt from which the run in results, the folder dir, continues, and tells the
// user where that is. summaryErr is the error of reading the folder's summary, nil if it could be read.
func (p *experiment) lastAttempt(results *folder.Results, dir string, summaryErr error) (attempt, error) {
	// c is the newest usable checkpoint, nil without one. damage is the error for which the newest one
	// cannot be used, nil if it can.
	c, damage, err := checkpoint.Newest(results, p.identity(""))
	if err != nil {
		return attempt{}, err
	}
	notify := p.options.Notify
	if damage != nil {
		notify(fmt.Sprintf("The newest checkpoint cannot be used (%v): the run goes on from the one before.", damage))
	}
	// The run writes its summary again, so a damaged one matters only where no checkpoint is left.
	if summaryErr != nil && !errors.Is(summaryErr, fs.ErrNotExist) {
		if c == nil {
			return attempt{}, fmt.Errorf(
				"%w: %w, and there is no checkpoint (%s)",
				checkpoint.ErrDamaged,
				summaryErr,
				checkpoint.PlayAgain(dir),
			)
		}
		notify(fmt.Sprintf("The summary is written again (%v).", summaryErr))
	}
	previous := attempt{results: results, checkpoint: c, newestDamaged: damage != nil}
	if c == nil {
		notify("The run has no checkpoint yet and starts again.")
		return previous, nil
	}
	last := &c.Body.Recorder.Summary.Last
	notify(fmt.Sprintf("The run goes on after round %d, at %s.", last.Round, human.VirtualTime(last.End.Seconds())))
	// Another version may compute other bits, so the user is told.
	if c.Head.Version != p.options.Version {
		notify(fmt.Sprintf(
			"It was begun with version %s, this is %s: bits may differ.",
			c.Head.Version,
			p.options.Version,
		))
	}
	return previous, nil
}

// AllowTrainer refuses to execute the trainer's command that the configuration of a folder names: the
// folder may be anybody's. given says that the user has named the command or trusts the folder.
func AllowTrainer(c *config.Config, dir string, given bool) error {
	if given || !c.External() {
		return nil
	}
	return fmt.Errorf("%s: its configuration names a command, %q, which would be executed here: give the command "+
		"that began the run (--trainer, for predict --set trainer=), or say --trust if the folder is yours, or you "+
		"have read the command and its script", dir, c.Trainer.Command)
}

// AllowPolicies refuses to execute the policies in Python that the configuration of a folder names: the
// folder may be anybody's. trust says that the user trusts it.
func AllowPolicies(c *config.Config, dir string, trust bool) error {
	files := policies.Files(c)
	if trust || len(files) == 0 {
		return nil
	}
	return fmt.Errorf("%s: its configuration names code in Python, %s, which would be executed here: say --trust if "+
		"the folder is yours, or you have read it", dir, strings.Join(files, ", "))
}

// attempt is an earlier attempt of a run, from which it continues. The zero value means that there
// is none.
type attempt struct {
	// results is the folder of the earlier attempt; it is nil if there is none.
	results *folder.Results
	// checkpoint is the one to continue from; it is nil if the attempt ended before its first.
	checkpoint *checkpoint.Checkpoint
	// newestDamaged says that the newest checkpoint is damaged, so that the run continues from an
	// older one.
	newestDamaged bool
}

// abandon closes the folder of a run that never began. It removes what the run has made, or keeps
// what an earlier attempt has written.
func (a attempt) abandon(r *folder.Results) error {
	if a.results == nil {
		return r.Discard()
	}
	return r.Close()
}

// explain adds to err, with which the run in the folder dir ended after it continued from a, what the user
// can do. Any error but an interruption and a diverged model comes from the checkpoint or from outside,
// such as a full disk.
func (a attempt) explain(err error, dir string) error {
	isExpected := err == nil || errors.Is(err, context.Canceled) || errors.Is(err, coordinator.ErrDiverged)
	switch {
	case errors.Is(err, coordinator.ErrState):
		return fmt.Errorf("%w: %w (%s)", checkpoint.ErrDamaged, err, checkpoint.PlayElsewhere(dir))
	case isExpected || a.checkpoint == nil:
		return err
	}
	return fmt.Errorf("%w (if it ends so again and nothing else is wrong, %s)", err, checkpoint.PlayElsewhere(dir))
}

// results makes the folder of the run, or cuts that of the previous attempt back to its checkpoint,
// and returns it opened for writing.
func (p *experiment) results(previous attempt) (*folder.Results, error) {
	if previous.results == nil {
		return folder.CreateResults(p.Config.Out, p.Config, p.options.Force)
	}
	return previous.results, previous.results.Rewind(p.Config.Outputs)
}

// ReplayFolder is where the run in a folder is replayed unless another folder is named.
func ReplayFolder(dir string) string { return filepath.Clean(dir) + "-replay" }

// givesTrainer reports whether the keys that a user sets name the trainer's command.
func givesTrainer(sets []string) bool {
	return slices.ContainsFunc(sets, func(s string) bool {
		return strings.HasPrefix(s, "trainer=") || strings.HasPrefix(s, "trainer.command=")
	})
}

// LoadReplay returns the configuration with which the run with real devices in the folder dir is
// replayed from the recorded answers of its devices: pass dir as Options.Replay. Its results go to
// another folder, and it needs no server that devices reach. sets are as for [config.Load]; if one
// changes what the run computes, the replay fails where the answers no longer fit. trust is as
// [Continuation.Trust].
func LoadReplay(dir string, sets []string, trust bool) (config.Config, error) {
	if err := folder.HoldsRun(dir); err != nil {
		return config.Config{}, err
	}
	if !slices.ContainsFunc(sets, func(s string) bool { return strings.HasPrefix(s, "out=") }) {
		// Without a folder of its own the replay would fill that of the run that it plays again.
		sets = append([]string{"out=" + ReplayFolder(dir)}, sets...)
	}
	c, err := config.Load(filepath.Join(dir, folder.ConfigFile), sets)
	if err != nil {
		return c, err
	}
	if len(c.Devices.Names) == 0 {
		return c, fmt.Errorf("%s: the run there has no real devices: run its %s again instead", dir, folder.ConfigFile)
	}
	// No device takes part, so the replay needs no server that devices reach.
	c.NATS = config.Demonstration().NATS
	if err := AllowPolicies(&c, dir, trust); err != nil {
		return c, err
	}
	return c, AllowTrainer(&c, dir, trust || givesTrainer(sets))
}
