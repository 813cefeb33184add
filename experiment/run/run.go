package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/data/federated"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/policies"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/prometheus"
	"fedpace/metrics/tables"
)

// Options say how a run is carried out; they change no result.
type Options struct {
	// Version is the version of the program, for the summary and for checkpoints.
	Version string
	// Force says that a run that the folder holds is replaced.
	Force bool
	// Checkpoint asks for a checkpoint at once by each value that it delivers; it may be nil.
	Checkpoint <-chan os.Signal
	// Until is a virtual time in seconds: the run is stopped after the first round that ends then or
	// later, as if its context had been cancelled. 0 lets the run go to its end.
	Until float64
	// ScrapeGrace is how long after its start a run that failed or diverged stays on /metrics for a
	// Prometheus that has not scraped it yet; 0: it does not wait for one.
	ScrapeGrace time.Duration
	// Check is called before anything runs, with the configuration and with names of metrics: first the one by which
	// models are compared, then all metrics of the run's model, that one among them. Its error ends the run. It may
	// be nil.
	Check func(c *config.Config, metrics []string) error

	Callbacks
	Place
	Continuation
}

// Callbacks are the functions by which a caller follows a run. Each may be nil.
type Callbacks struct {
	// Progress is called from time to time, from the run's goroutine, with the run's progress.
	Progress func(Progress)
	// Reading counts the bytes of the data that have been read, for a caller that shows them.
	Reading *federated.Reading
	// Notice takes lines for the user, from any goroutine.
	Notice func(string)
	// HostNotice takes the lines about the server and the hosts, which a study's runs share; if it
	// is nil, Notice takes them.
	HostNotice func(bus.Notice)

	// Round is called after each round, from the run's goroutine.
	Round func(*round.Report)

	// Model is called with every round's model, which may be kept and must not be changed.
	Model func(round int, params []float32)
}

// Place is where a run's work is done, and by which server.
type Place struct {
	// Hosts is the number of hosts in this process; 0 means one.
	Hosts int
	// Workers is the number of trainers in all; 0 means one for each core.
	Workers int
	// RemoteHosts says that hosts in other processes do the work, and none in this one.
	RemoteHosts bool
	// NATS is how the server is reached, by a URL with a user and password if need be; empty: as
	// nats.url. Where one of this process listens, its TLS is that server's.
	NATS natsconn.Config
	// Keys is the folder of the keys by which a server that listens knows its users; see
	// [KeysFolder].
	Keys string
}

// Continuation is what a run that is replayed or resumed takes from elsewhere than its folder.
type Continuation struct {
	// Replay is the folder of a run whose real devices' answers are used again; it is empty where
	// devices take part.
	Replay string
	// Overrides holds name, http, pace, checkpoint and nats of a resumed run; nil leaves them as in
	// its folder.
	Overrides *config.Config
	// Trainer is the command of a resumed run's trainer; if it is empty, the folder names it where
	// Trust is set.
	Trainer string
	// Trust says that the folder may name the trainer's command, which is then run.
	Trust bool
}

// NextStep returns a text for the user: the folder dir of a run that was not finished, and the command
// that continues the run.
func (o *Continuation) NextStep(dir string) string {
	// A replay is never continued from a checkpoint, so it can only be played again from its start.
	if o.Replay != "" {
		return fmt.Sprintf("%[1]s, to play it again: fedpace run --replay %[2]s --out %[1]s --force", dir, o.Replay)
	}
	return fmt.Sprintf("%[1]s, to go on: fedpace resume %[1]s", dir)
}

// change applies what the caller overrides to the configuration of the resumed run in a folder.
// Only keys that change no bit can be overridden.
func (o *Continuation) change(c *config.Config, dir string) error {
	if m := o.Overrides; m != nil {
		c.Name = m.Name
		c.HTTP = m.HTTP
		c.Pace = m.Pace
		c.Checkpoint = m.Checkpoint
		c.NATS = m.NATS
	}
	if o.Trainer != "" {
		// A command for a run without a trainer is a mistake of the user.
		if !c.External() {
			return fmt.Errorf("%s: the run's steps are taken without a trainer (leave out --trainer)", dir)
		}
		c.Trainer.Command = o.Trainer
	}
	return nil
}

// Notify hands a line to the caller, if there is one and the caller takes lines.
func (o *Callbacks) Notify(line string) {
	if o.Notice != nil && line != "" {
		o.Notice(line)
	}
}

// experiment is a prepared problem, to be played, timed or estimated.
type experiment struct {
	problem.Problem
	options Options
}

// prepare prepares the problem of a configuration, and calls Check. The caller closes the experiment.
func (o *Options) prepare(ctx context.Context, c config.Config) (*experiment, error) {
	// Where only real devices train, this process evaluates their models itself, without hosts elsewhere.
	o.RemoteHosts = o.RemoteHosts && !c.DevicesAlone()
	p, err := problem.Prepare(ctx, c, o.RemoteHosts, o.Notice, o.Reading)
	if err != nil {
		return nil, err
	}
	// The names of the metrics are known only now, after the model has been made.
	if o.Check != nil {
		if err := o.Check(&p.Config, append([]string{p.Quality.Name}, metric.Names(p.Metrics)...)); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return &experiment{*p, *o}, nil
}

// Run does one experiment and leaves its results in the folder c.Out. Mistakes in the configuration
// and the data are found before the folder is made. When ctx is cancelled the run stops cleanly,
// keeps its results so far with a summary that says so, and returns the summary with the context's
// error.
func Run(ctx context.Context, c config.Config, o Options) (folder.Summary, error) {
	started := time.Now()
	if err := folder.VacantFolder(c.Out, o.Force); err != nil {
		return folder.Summary{}, err
	}
	if c.PlaysFlower() {
		return o.playFlower(ctx, c, started, attempt{})
	}
	p, err := o.prepare(ctx, c)
	if err != nil {
		return folder.Summary{}, err
	}
	// A replay repeats the recorded decisions of policies in Python.
	if o.Replay != "" {
		if err := p.Policies.Remember(o.Replay); err != nil {
			return folder.Summary{}, errors.Join(err, p.Close())
		}
	}
	summary, err := p.execute(ctx, started, attempt{})
	return summary, errors.Join(err, p.Close())
}

// execute runs the experiment, or continues it from the checkpoint of a previous attempt, if that
// has one. It returns the summary, which is also written to the folder. started is when the wall
// time of this attempt began.
//
// The order is the contract: what can fail without touching the folder comes first, then the
// folder is made or cut back, then the rounds run, and the summary is written last.
func (p *experiment) execute(ctx context.Context, started time.Time, previous attempt) (s folder.Summary, err error) {
	if previous.checkpoint != nil {
		// The checkpoint may come from somebody else, so a state that makes the coordinator panic is
		// returned as an error.
		defer coordinator.Recovered(&err)
	}
	boundGarbage(p.Set)
	// Lines for the user go to the outputs as well, once these are open.
	buffered := &noticeBuffer{}
	notify := p.options.Notice
	p.options.Callbacks = buffered.withBuffer(p.options.Callbacks)
	for _, line := range append(p.CorrelationNotes(), p.AboutAttackers()) {
		p.options.Notify(line)
	}
	limit, err := p.limit(ctx, previous.checkpoint)
	if err != nil {
		return s, err
	}
	if err := p.setEvaluationInterval(ctx); err != nil {
		return s, err
	}
	e, err := startEngine(ctx, p)
	if err != nil {
		return s, err
	}
	defer e.Close()
	p.noticeBeginning()
	r, err := e.recorder(ctx, limit, started)
	if err != nil {
		return s, err
	}
	// From here on the outputs see the lines for the user, those kept until now included.
	buffered.open(r.outputs)
	if p.Config.HTTP != "" {
		server, serveErr := r.serve(ctx, notify)
		if serveErr != nil {
			return s, errors.Join(serveErr, r.outputs.Close(serveErr))
		}
		defer func() { err = errors.Join(err, r.closePages(ctx, server)) }()
	}
	defer func() { err = errors.Join(err, r.outputs.Close(err)) }()
	if err := ctx.Err(); err != nil {
		return s, err
	}
	// This comes after all that may fail, because with force it removes the run that the folder holds.
	results, err := p.results(previous)
	if err != nil {
		return s, err
	}
	if err := r.openFolder(e, results, previous); err != nil {
		return s, errors.Join(err, previous.abandon(results))
	}
	result, runErr := r.playRounds(ctx, e, limit, previous)
	// Without a result no round has begun, so nothing in the folder is worth keeping.
	if result == nil {
		return s, errors.Join(runErr, previous.abandon(results))
	}
	return r.conclude(ctx, result, runErr)
}

// openFolder opens the files of a run in the folder results, and gives the engine what it takes from
// there: the state to continue from, the log of the devices' answers, and the key of the noise.
func (r *recorder) openFolder(e *engine, results *folder.Results, previous attempt) (err error) {
	e.resumeFrom, err = r.start(results, previous)
	if err != nil {
		return err
	}
	e.deviceLog, err = r.deviceLog()
	if err != nil {
		return err
	}
	e.noiseKey, err = r.p.noiseKey(results, r.p.options.Replay, previous.checkpoint != nil)
	return err
}

// playRounds runs the rounds until limit, a virtual time (0: none), and returns how they ended; the
// result is nil if no round began. While they run, the recorder follows them, checkpoints are written,
// and the decisions of policies in Python are recorded.
func (r *recorder) playRounds(
	ctx context.Context,
	e *engine,
	limit round.Time,
	previous attempt,
) (*coordinator.Result, error) {
	p := r.p
	k := r.keepCheckpoints(limit, previous)
	defer k.close()
	e.checkpoint = coordinator.Checkpoint{Due: k.due.Load, Save: k.save}
	// The first round may take long, so progress is shown before it.
	r.showProgress()
	playing, pause := context.WithCancel(ctx)
	defer pause()
	r.pause = pause
	for _, log := range metrics.Outputs[*policies.Log](r.outputs) {
		p.Policies.Record(log)
	}
	// Policies that a forecast asks later make no decisions of the run, so none is recorded.
	defer p.Policies.Record(nil)
	return e.play(playing, limit, coordinator.Observer{
		Begun:   r.roundsBegin,
		Task:    r.outputs.Task,
		Losses:  r.outputs.Losses,
		Trained: r.trainingProgress,
		Report:  r.report,
		Clients: r.clients,
		Best:    r.outputs.Best,
		Model:   p.options.Model,
		Stats:   r.reported.Store,
	})
}

// conclude completes the folder of a run whose rounds have ended with result, and with runErr if they
// ended early. It tells the user what is unusual about the end, and returns the summary and all errors.
func (r *recorder) conclude(
	ctx context.Context,
	result *coordinator.Result,
	runErr error,
) (folder.Summary, error) {
	s := r.summary(result)
	r.p.noticeEnd(&result.Stop, &s)
	if s.Completed {
		r.noticeUncounted()
	}
	// A run that diverged has a summary, which says how its model was lost.
	if errors.Is(runErr, coordinator.ErrDiverged) {
		s.Diverged = runErr.Error()
	}
	err := errors.Join(runErr, r.predict(ctx, &s), r.finish(result, &s, runErr))
	if err == nil {
		err = r.results.Complete()
	}
	err = errors.Join(err, r.results.Close())
	isExpected := errors.Is(err, context.Canceled) || errors.Is(err, coordinator.ErrDiverged)
	if err != nil && !isExpected {
		err = errors.Join(err, fmt.Errorf("what was done is in %s", r.p.options.NextStep(r.p.Config.Out)))
	}
	return s, err
}

// noticeBeginning tells the user, before the first round, what the size of the run means: for the memory of
// its state, for secure aggregation, and for its real devices.
func (p *experiment) noticeBeginning() {
	p.options.Notify(p.AboutState())
	p.options.Notify(p.AboutSecure())
	if len(p.Config.Devices.Names) > 0 && p.options.Replay == "" {
		p.options.Notify(forecast.AboutGrowth(&p.Problem))
		if n := len(p.Config.Devices.Names) - prometheus.MostDevices; n > 0 && p.Config.HTTP != "" {
			p.options.Notify(fmt.Sprintf(
				"/metrics has the first %d devices by name, and the other %d as one, \"other\".",
				prometheus.MostDevices,
				n,
			))
		}
	}
}

// noticeEnd tells the user what is unusual about the end of a run: the reason stop.Reason, if the
// configuration does not name it, devices that never joined, and rounds without updates.
func (p *experiment) noticeEnd(stop *round.Stop, s *folder.Summary) {
	switch stop.Reason {
	// The configuration does not name these reasons, so the user is told.
	case round.NoClients, round.BatteryEmpty, round.Excluded:
		p.options.Notify(fmt.Sprintf("The run ended after %d rounds: %s.", stop.Rounds, stop.Reason))
	}
	if n := len(s.DevicesMissing); n > 0 && s.Completed {
		p.options.Notify(fmt.Sprintf("%d of %d devices never joined, so the run ended without them: %s "+
			"(fedpace-device run joins; fedpace-device doctor says what hinders it).",
			n, len(p.Config.Devices.Names), human.Some(s.DevicesMissing)))
	}
	if s.NoUpdates() {
		p.options.Notify(fmt.Sprintf("No update counted in any of %d rounds: the model is the one that the run "+
			"began with.", s.Rounds))
	}
}

// noticeUncounted tells the user of each class of devices that had tasks of which none counted.
func (r *recorder) noticeUncounted() {
	for _, t := range metrics.Outputs[*tables.Tables](r.outputs) {
		for _, class := range metrics.Uncounted(t.ClassOutcomes()) {
			r.p.options.Notify(forecast.AboutUncounted(&class))
		}
	}
}

// limit returns the virtual time at which the run ends, 0 for none: the earlier one of
// stop.virtual_seconds and the time that stop.equal_runtime_rounds rounds of fixed K take. With
// stop.equal the rounds give another budget than time, which is stored in p. A run that continues from
// a checkpoint (from, nil for other runs) keeps the limit that the checkpoint holds.
func (p *experiment) limit(ctx context.Context, from *checkpoint.Checkpoint) (limit round.Time, err error) {
	stop := p.Config.Stop
	equalTime := stop.EqualRuntimeRounds > 0 && stop.Equal == ""
	equalUse := stop.EqualRuntimeRounds > 0 && stop.Equal != ""
	// No checkpoint holds this budget, so a run that continues finds it again.
	if equalUse {
		if err := p.setEqualUse(ctx, stop.EqualRuntimeRounds); err != nil {
			return 0, fmt.Errorf("stop.equal: %w", err)
		}
	}
	if from != nil {
		return round.Time(from.Body.Limit), nil
	}
	if stop.VirtualSeconds > 0 {
		limit, err = problem.VirtualTime(stop.VirtualSeconds)
		if err != nil {
			return 0, fmt.Errorf("stop.virtual_seconds: %w", err)
		}
	}
	if !equalTime {
		return limit, nil
	}
	equal, err := p.fixedRuntime(ctx, stop.EqualRuntimeRounds)
	if err != nil {
		return 0, fmt.Errorf("stop.equal_runtime_rounds: %w", err)
	}
	if limit == 0 || equal < limit {
		limit = equal
	}
	return limit, nil
}

// setEvaluationInterval sets p.EvaluationInterval, the virtual time from one evaluation to the next, if
// evaluate.every_seconds asks for one in place of a number of rounds.
func (p *experiment) setEvaluationInterval(ctx context.Context) (err error) {
	e := &p.Config.Evaluate
	switch {
	// Evaluations are by rounds, or there are none.
	case e.EverySeconds == 0 || !p.Config.Train:
	// It is the time that as many rounds of fixed K take as evaluate.every says.
	case e.EverySeconds == config.AsFixed:
		p.EvaluationInterval, err = p.fixedRuntime(ctx, e.Every)
	default:
		p.EvaluationInterval, err = problem.VirtualTime(e.EverySeconds)
	}
	if err != nil {
		return fmt.Errorf("evaluate.every_seconds: %w", err)
	}
	return nil
}

// fixedRuntime returns the virtual time of n rounds of K-eta-fixed. It follows from Eq. 5 where all
// rounds take equally long. Otherwise they are played without learning, with the run's seed, devices
// and closing rule.
func (p *experiment) fixedRuntime(ctx context.Context, n int) (round.Time, error) {
	if duration, allEqual := p.FixedRound(); allEqual {
		// The product below must not overflow the clock.
		if duration > 0 && round.Time(n) > round.MaxTime/duration {
			return 0, fmt.Errorf("%d rounds of %g s are too long", n, duration.Seconds())
		}
		return round.Time(n) * duration, nil
	}
	stop, err := p.playFixed(ctx, n)
	return stop.EndTime, err
}

// setEqualUse sets the run's budget of the quantity that stop.equal names (energy, bytes, carbon or the
// clients' time): as much as n rounds of fixed K use. It is an error if the use of these rounds is 0,
// as where the configuration says nothing of the devices' power.
func (p *experiment) setEqualUse(ctx context.Context, n int) error {
	stop, err := p.playFixed(ctx, n)
	if err != nil {
		return err
	}
	// Only the named quantity limits the run; the others stay zero.
	used := round.Used{}
	switch p.Config.Stop.Equal {
	case "energy":
		used.Joules = stop.Used.Joules
	case "bytes":
		used.Bytes = stop.Used.Bytes
	case "carbon":
		used.Grams = stop.Used.Grams
	case "client_time":
		used.Time = stop.Used.Time
	}
	if used == (round.Used{}) {
		return fmt.Errorf(
			"%d rounds of fixed K use no %s that is known (set fleet[].watts, and carbon.file for carbon)",
			n,
			p.Config.Stop.Equal,
		)
	}
	p.EqualUse = used
	return nil
}

// playFixed plays n rounds of fixed K without learning, with the run's seed, devices and closing rule,
// and returns where they ended. It is an error if fewer than n rounds could be played.
func (p *experiment) playFixed(ctx context.Context, n int) (round.Stop, error) {
	// The copy plays the schedule of fixed K, and leaves the run's own problem as it is.
	fixed := p.Problem
	fixed.Config.Schedule.K = schedule.FixedK{}
	fixed.Config.Schedule.Eta = schedule.FixedEta{}
	fixed.Config.Stop = config.Stop{Rounds: n, Equal: p.Config.Stop.Equal}
	fixed.Config.MakeTimingOnly()
	// The division avoids the overflow that the product of rounds and cohort could have.
	if n > longTiming/fixed.Config.Cohort {
		p.options.Notify(fmt.Sprintf("Rounds are not all alike: timing %d of the fixed schedule first.", n))
	}
	stop, _, err := forecast.Play(ctx, &fixed)
	if err == nil && stop.Rounds < n {
		err = fmt.Errorf("the fixed schedule ends after %d of %d rounds: %s", stop.Rounds, n, stop.Reason)
	}
	return stop, err
}

// longTiming is the number of tasks from which on a timing takes long, so that the user gets a notice.
// A test sets it lower.
var longTiming = 5_000_000

// relativeSteps returns the summary's relative_sgd_steps: the local steps of one client in each round,
// summed, over those of fixed K in the same virtual time (Table 4). It is NaN where there is
// nothing to compare with.
func (p *experiment) relativeSteps(steps int64, stop *round.Stop) float64 {
	// A client takes this many local steps in a round of fixed K. Sites may train several times in a round.
	stepsOfFixed := float64(p.InitialSteps() * max(1, p.Config.Aggregate.SiteRounds))
	// A run that ended with the time of n rounds of fixed K is compared with these exactly.
	n := p.Config.Stop.EqualRuntimeRounds
	onlyEqualTime := n > 0 && p.Config.Stop.VirtualSeconds == 0
	if onlyEqualTime && stop.TimeUp {
		return float64(steps) / (float64(n) * stepsOfFixed)
	}
	duration := p.comparedRound()
	// Without such a round, or before any time has passed, there is no ratio.
	if duration == 0 || stop.EndTime == 0 {
		return math.NaN()
	}
	roundsOfFixed := stop.EndTime.Seconds() / duration.Seconds()
	return float64(steps) / (roundsOfFixed * stepsOfFixed)
}

// comparedRound returns how long a round of the run would take, in virtual time, if K were fixed: relative_sgd_steps
// compares the run with such rounds. It returns 0 if they would not all take equally long, and with real devices,
// whose times are measured.
func (p *experiment) comparedRound() round.Time {
	if duration, allEqual := p.FixedRound(); allEqual && len(p.Config.Devices.Names) == 0 {
		return duration
	}
	return 0
}

// maxGarbage is how much garbage waits for the collector beside much data, in bytes.
const maxGarbage = 64 << 20

// boundGarbage has Go's garbage collector run whenever there are about maxGarbage bytes of garbage. It is called once
// the data are in memory. By its default the collector runs when there is as much garbage as live heap: with data in
// the heap that would be far too much, and with data in a mapped file, outside the heap, very little. It does nothing
// for data of less than maxGarbage, and where GOGC in the environment says how much.
func boundGarbage(data federated.Set) {
	held, ok := data.(interface{ Memory() int })
	if !ok || held.Memory() < maxGarbage || os.Getenv("GOGC") != "" {
		return
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	// The collector takes its bound as a percentage of the live heap, in which a mapped file does not count.
	percent := int(100 * maxGarbage / m.HeapAlloc)
	debug.SetGCPercent(max(10, min(400, percent)))
}
