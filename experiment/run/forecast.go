package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/problem"
	"fedpace/internal/cputime"
	"fedpace/metrics"
)

// trialTasks is about how many tasks a dry run plays. A test sets it lower.
var trialTasks = 20_000

// DryRun prepares the run of configuration c without doing it, plays a little of it to measure this
// machine, and says how long the rest will take and which files it will leave. It makes no folder.
func DryRun(ctx context.Context, c config.Config, o Options) (f forecast.Forecast, err error) {
	p, err := o.prepare(ctx, c)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	// The end of the run and the interval of its evaluations may follow from rounds of fixed K, which are played
	// here, too.
	limit, err := p.limit(ctx, nil)
	if err == nil {
		err = p.setEvaluationInterval(ctx)
	}
	if err != nil {
		return f, err
	}
	// The outputs list their files, but none is opened.
	sinks, err := p.sinks()
	if err != nil {
		return f, err
	}
	// The forecast plays a trial of a small number of tasks, with the messages of the run. short is a copy
	// of the problem that stops after them.
	try := func(ctx context.Context, short *problem.Problem) (forecast.Trial, error) {
		trial := &experiment{*short, o}
		return trial.tryTasks(ctx, limit)
	}
	f, err = forecast.Make(ctx, &p.Problem, limit, trialTasks, try)
	if err != nil {
		return f, err
	}
	f.Bus = p.carrier()
	f.Files = []string{folder.ConfigFile}
	for _, s := range sinks {
		// Spools are removed at the end of the run, so they are not among its files.
		spools := metrics.Spools(s)
		for _, name := range s.Files() {
			if !slices.Contains(spools, name) {
				f.Files = append(f.Files, name)
			}
		}
	}
	f.Files = append(f.Files, folder.SummaryFile)
	// Real devices make the folder grow with the updates that they send.
	if len(p.Config.Devices.Names) > 0 {
		f.Growth = forecast.GrowthOf(&p.Problem, float64(f.Rounds), o.Replay != "")
	}
	if c.Train {
		about := describe(p.Set.Info())
		f.Data = &about
	}
	return f, nil
}

// tryTasks plays p, a copy of the experiment that trains nothing and stops after few rounds, with the messages
// of a run, and no longer than the virtual time limit (0: none). It returns where the rounds stopped, with the
// wall and the processor time in seconds.
func (p *experiment) tryTasks(ctx context.Context, limit round.Time) (t forecast.Trial, err error) {
	e, err := startLocal(ctx, p)
	if err != nil {
		return t, err
	}
	defer e.Close()
	started := time.Now()
	worked := cputime.Start()
	result, err := e.play(ctx, limit, coordinator.Observer{})
	if err != nil {
		return t, err
	}
	t.Stop = result.Stop
	t.Wall = time.Since(started).Seconds()
	t.Core = worked().Seconds()
	return t, nil
}

// predict compares a complete run with real devices with what was predicted of it, and writes
// prediction.csv. A run that cannot be predicted is not ended by that: the user is told.
func (r *recorder) predict(ctx context.Context, s *folder.Summary) error {
	if !s.Completed || len(r.p.Config.Devices.Names) == 0 {
		return nil
	}
	// The comparison reads the output files, so all rows have to be in them.
	if err := r.outputs.Flush(); err != nil {
		return err
	}
	c, err := forecast.Compare(ctx, &r.p.Problem, r.results.Path(""))
	switch {
	// A failed comparison does not spoil the results of the run.
	case err != nil:
		r.p.options.Notify(fmt.Sprintf("The run is not compared with its prediction: %v.", err))
		return nil
	case c == nil:
		return nil
	}
	s.Prediction = &c.Prediction
	// Without a draw there is no prediction to write down round by round.
	if c.Draws == 0 {
		return nil
	}
	return r.results.Replace(folder.PredictionFile, c.WriteCSV)
}

// Predict predicts the run with real devices in the folder dir again, and compares that with what its
// devices measured. If dir is empty it predicts the run that files and sets describe, before it is run.
// files and sets are as in [config.LoadFiles]; with dir they change its configuration, such as the fleet.
func Predict(ctx context.Context, dir string, files, sets []string, o Options) (found *forecast.Comparison, err error) {
	// The configuration of the folder comes first, and the given files change it.
	if dir != "" {
		if err := folder.HoldsRun(dir); err != nil {
			return nil, err
		}
		files = append([]string{filepath.Join(dir, folder.ConfigFile)}, files...)
	}
	c, err := config.LoadFiles(files, sets)
	if err != nil {
		return nil, err
	}
	if len(c.Devices.Names) == 0 {
		return nil, &config.KeyError{
			Key: "devices.names",
			Problem: "names no real device, and what simulated clients take is no prediction (fedpace run " +
				"--dry-run says how long such a run takes)",
		}
	}
	if dir != "" {
		if err := AllowTrainer(&c, dir, o.Trust || givesTrainer(sets)); err != nil {
			return nil, err
		}
		if err := AllowPolicies(&c, dir, o.Trust); err != nil {
			return nil, err
		}
	}
	// Nothing is trained here, so this machine need not have the kernel class of the run.
	o.RemoteHosts = true
	p, err := o.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	switch rounds := p.Config.Stop.Rounds; {
	case dir != "":
		found, err = forecast.Compare(ctx, &p.Problem, dir)
	// A run without a number of rounds may end anywhere, so nothing says how much to predict.
	case rounds == 0:
		err = &config.KeyError{
			Key:     "stop.rounds",
			Problem: "is not set, so it is not known how many rounds to predict (--set stop.rounds=100)",
		}
	default:
		found, err = forecast.Predict(ctx, &p.Problem, rounds)
	}
	// Neither an error nor a result means that no device has a class.
	if err == nil && found == nil {
		err = errors.New(forecast.Lacking(c.Devices.IDs()))
	}
	return found, err
}
