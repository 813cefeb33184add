package run

import (
	"context"
	"errors"
	"fedpace/experiment/folder"
	"fmt"
	"math"
	"os"
	"time"

	"fedpace/coordinator/round"
	"fedpace/experiment/config"
)

// Options are how a run is done; they change no result.
type Options struct {
	Version    string
	Force      bool             // replace a run that the folder holds
	Checkpoint <-chan os.Signal // what comes here asks for a checkpoint now; may be nil
	Hosts      int              // hosts in this process; 0: one
	Workers    int              // trainers in all; 0: one a core
	Progress   func(Progress)   // called now and then from the run's goroutine; may be nil
	Notice     func(string)     // what the user should know, a line each, from any goroutine; may be nil
	Others     func(string)     // in place of Notice what is about the server and the hosts, which runs side by side share; nil: Notice
	NATS       Connection       // how the server is reached
	Replay     string           // folder of a run with real devices whose answers are taken from there; empty: they take part themselves
	Elsewhere  bool             // no host in this process: others do the work
	Manner     *config.Config   // of a run that goes on: whose name, http, pace, checkpoint and nats it has from here on; nil: those in its folder

	// Model is called with every round's model, which may be kept and not
	// changed; may be nil.
	Model func(round int, params []float32)

	Equal *EqualTimes // of the runs of a comparison; nil: each finds its own
}

// notice tells the user a line.
func (o *Options) notice(line string) {
	if o.Notice != nil {
		o.Notice(line)
	}
}

// others is who hears of the server and the hosts.
func (o *Options) others() func(string) {
	if o.Others != nil {
		return o.Others
	}
	return o.Notice
}

// Run does one experiment and leaves its results in c.Out. Mistakes in the
// configuration and the data are found before the folder is made. When ctx is
// cancelled the run stops cleanly, keeps what is done with a summary that says
// so, and returns it with the context's error.
func Run(ctx context.Context, c config.Config, o Options) (folder.Summary, error) {
	started := time.Now()
	if err := c.Validate(); err != nil {
		return folder.Summary{}, err
	}
	if err := folder.VacantFolder(c.Out, o.Force); err != nil {
		return folder.Summary{}, err
	}
	p, err := prepare(c)
	if err != nil {
		return folder.Summary{}, err
	}
	summary, err := p.run(ctx, o, started)
	return summary, errors.Join(err, p.Close())
}

// run plays the prepared problem and writes its results.
func (p *problem) run(ctx context.Context, o Options, started time.Time) (folder.Summary, error) {
	return p.live(ctx, o, started, nil)
}

// live is a life of the run; before is the one from which it goes on, nil: it
// starts.
func (p *problem) live(ctx context.Context, o Options, started time.Time, before *life) (s folder.Summary, err error) {
	told, tell := &notices{}, o.Notice
	o = told.copied(o)
	if state := p.state(); state != "" {
		o.notice(state)
	}
	limit, known := before.limit()
	if !known {
		if limit, err = p.limit(ctx, o); err != nil {
			return folder.Summary{}, err
		}
	}
	e, err := startEngine(ctx, p, o)
	if err != nil {
		return folder.Summary{}, err
	}
	defer e.Close()

	t, err := newRecorder(p, o, limit, started)
	if err != nil {
		return folder.Summary{}, err
	}
	told.open(t.outputs)
	closeAll := t.outputs.Close
	if p.config.HTTP != "" {
		server, err := t.serve(ctx, tell)
		if err != nil {
			return folder.Summary{}, errors.Join(err, t.outputs.Close(err))
		}
		closeAll = func(why error) error { return errors.Join(t.outputs.Close(why), server.Close()) }
	}
	defer func() { err = errors.Join(err, closeAll(err)) }()
	if err := ctx.Err(); err != nil {
		return folder.Summary{}, err
	}
	// Last of all: with force it removes the run that the folder holds.
	results, err := p.results(o, before)
	if err != nil {
		return folder.Summary{}, err
	}
	if e.resume, err = t.start(results, before); err != nil {
		return folder.Summary{}, errors.Join(err, before.undo(results))
	}
	if e.devices, err = t.watchDevices(); err != nil {
		return folder.Summary{}, errors.Join(err, before.undo(results))
	}
	k := t.keepCheckpoints(limit, before)
	e.checkpoint = k.hooks()
	t.begin()
	result, runErr := e.play(ctx, limit, t.observer())
	k.close()
	if result == nil { // it never began
		return folder.Summary{}, errors.Join(runErr, before.undo(results))
	}
	if result.Stop.Reason == round.Deserted {
		o.notice(fmt.Sprintf("The run ended after %d rounds: %s.", result.Stop.Rounds, result.Stop.Reason))
	}
	s = t.summary(result)
	err = errors.Join(runErr, t.finish(result, s, runErr))
	if err == nil {
		err = results.RemoveCheckpoints()
	}
	return s, errors.Join(err, results.Close())
}

// limit is the virtual time at which the run ends, 0 for none: the earlier of
// virtual_seconds and the time that equal_runtime_rounds of K-eta-fixed take.
func (p *problem) limit(ctx context.Context, o Options) (limit round.Time, err error) {
	stop := p.config.Stop
	if stop.VirtualSeconds > 0 {
		if limit, err = seconds(stop.VirtualSeconds); err != nil {
			return 0, fmt.Errorf("stop.virtual_seconds: %w", err)
		}
	}
	if stop.EqualRuntimeRounds == 0 {
		return limit, nil
	}
	equal, err := p.fixedRuntime(ctx, o, stop.EqualRuntimeRounds)
	if err != nil {
		return 0, fmt.Errorf("stop.equal_runtime_rounds: %w", err)
	}
	if limit == 0 || equal < limit {
		limit = equal
	}
	return limit, nil
}

// fixedRuntime is the virtual time of n rounds of K-eta-fixed: by Eq. 5 where
// all rounds are alike, else by playing them, without learning, with this seed,
// these devices and this closing rule.
func (p *problem) fixedRuntime(ctx context.Context, o Options, n int) (round.Time, error) {
	one, constant, err := p.fixedRound()
	if err != nil {
		return 0, err
	}
	if constant {
		if one > 0 && round.Time(n) > round.MaxTime/one {
			return 0, fmt.Errorf("%d rounds of %g s are too long", n, one.Seconds())
		}
		return round.Time(n) * one, nil
	}
	fixed := *p
	fixed.config.Schedule.K, fixed.config.Schedule.Eta = config.Fixed, config.Fixed
	fixed.config.Stop = config.Stop{Rounds: n}
	fixed.config.Untrained()
	return o.Equal.of(fixed.config, func() (round.Time, error) { return fixed.playFixed(ctx, o, n) })
}

// relativeSteps is the summary's relative_sgd_steps: the steps of one client of
// each round against those of K-eta-fixed (Table 4). NaN where there is nothing
// to compare with.
func (p *problem) relativeSteps(steps int64, at round.Time) float64 {
	k0 := float64(p.config.Schedule.K0)
	if n := p.config.Stop.EqualRuntimeRounds; n > 0 {
		return float64(steps) / (float64(n) * k0)
	}
	one, constant, err := p.fixedRound()
	if err != nil || !constant || one == 0 || at == 0 {
		return math.NaN()
	}
	return float64(steps) / (at.Seconds() / one.Seconds() * k0)
}
