package run

import (
	"context"
	"errors"
	"fedpace/experiment/folder"
	"fmt"
	"math"
	"strings"
	"time"

	"fedpace/actors/data"
	"fedpace/actors/learn"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/metrics/web"
)

// progressEvery is how often progress is told, in wall time.
const progressEvery = 100 * time.Millisecond

// tally follows a run: it writes its rows, keeps what the summary needs and
// tells progress. It is called from the run's goroutine alone.
type tally struct {
	p       *problem
	o       Options
	results *folder.Results // set before the first report
	started time.Time
	told    time.Time

	watch *watch // nil: nobody watches
	page  *page  // nil: none is shown or left behind
	kept  *recorder

	accounts     *accounts
	target       float64 // accuracy; 0: none
	reached      float64 // virtual seconds; NaN: not yet
	progress     Progress
	last         round.Report
	bestLoss     float64
	bestAccuracy float64
	best         []float32
}

func newTally(p *problem, o Options, limit round.Time, started time.Time) *tally {
	nan := math.NaN()
	target := p.config.Evaluate.Target
	if target == 0 {
		target = p.config.Stop.ValidationAccuracy
	}
	return &tally{
		accounts: newAccounts(p), target: target, reached: nan,
		p: p, o: o, started: started,
		last: round.Report{WindowLoss: nan}, bestLoss: nan, bestAccuracy: nan,
		progress: Progress{
			Schedule: p.config.Schedule.Name(), Rounds: p.config.Stop.Rounds, VirtualTotal: limit.Seconds(),
			TargetAccuracy: p.config.Stop.ValidationAccuracy, TrainingLoss: nan, ValidationLoss: nan, ValidationAccuracy: nan,
		},
	}
}

func (t *tally) observer() coordinator.Observer {
	o := coordinator.Observer{Report: t.report, Best: t.keep, Model: t.o.Model}
	o.Settled = func(e *round.Ended) {
		t.accounts.settled(e)
		t.kept.settled(e)
	}
	if w := t.watch; w != nil {
		o.Stats = w.vitals
		o.Settled = func(e *round.Ended) {
			t.accounts.settled(e)
			t.kept.settled(e)
			w.settled(e)
		}
	}
	return o
}

// show serves the run's metrics, which follow it from here on.
func (t *tally) show(ctx context.Context) (*web.Server, error) {
	w := newWatch(t)
	pages := []web.Page{{Path: "/", Handler: t.page.hub.Handler()}, {Path: "/metrics", Handler: w.metrics.Handler()}}
	// The page of a run that is interrupted still shows how it ended.
	server, err := web.Serve(context.WithoutCancel(ctx), t.p.config.HTTP, pages...)
	if err != nil {
		return nil, err
	}
	t.watch = w
	t.page.told.aside("The run is shown on http://" + server.Addr() + "/, its metrics on /metrics.")
	return server, nil
}

// begin tells where the run starts: its first round may take long.
func (t *tally) begin() {
	if t.o.Progress != nil {
		t.told = time.Now()
		t.progress.Elapsed = t.told.Sub(t.started)
		t.o.Progress(t.progress)
	}
}

// report takes one round. An error (a full disk) ends the run.
func (t *tally) report(r *round.Report) error {
	t.last = *r
	if !t.p.hasAccuracy() {
		t.last.ValidationAccuracy = math.NaN()
		r = &t.last
	}
	t.accounts.report(r)
	if r.Evaluated {
		t.reach(r.ValidationAccuracy, r.End)
	}
	if !(t.bestLoss <= r.WindowLoss) { // also when there is none yet
		t.bestLoss = r.WindowLoss
	}
	p := &t.progress
	p.Round, p.VirtualSeconds, p.LocalSteps, p.LearningRate = r.Round, r.End.Seconds(), r.LocalSteps, r.LearningRate
	p.TrainingLoss = r.TrainingLoss
	if r.Evaluated {
		p.ValidationLoss, p.ValidationAccuracy = r.ValidationLoss, r.ValidationAccuracy
	}
	if t.o.Progress != nil {
		if now := time.Now(); now.Sub(t.told) >= progressEvery {
			t.told = now
			p.Elapsed = now.Sub(t.started)
			t.o.Progress(*p)
		}
	}
	if t.watch != nil {
		t.watch.report(r)
	}
	kept, err := t.kept.report(r)
	if t.page != nil {
		t.page.report(t, kept)
	}
	return errors.Join(t.results.Round(r), err)
}

// reach notes when the target was first reached.
func (t *tally) reach(accuracy float64, at round.Time) {
	if t.target > 0 && accuracy >= t.target && math.IsNaN(t.reached) {
		t.reached = at.Seconds()
	}
}

// keep holds on to the best model so far. It is written at the end: a best
// model every round would write more than the run computes.
func (t *tally) keep(accuracy float64, params []float32) {
	if !t.p.hasAccuracy() {
		return
	}
	t.bestAccuracy, t.best = accuracy, params
}

func (t *tally) summary(result *coordinator.Result) folder.Summary {
	c := t.p.config
	nan := math.NaN()
	s := folder.Summary{
		Task: string(c.Task), Schedule: c.Schedule.Name(), Seed: c.Seed, Completed: result.Completed,
		Rounds: result.Stop.Rounds, VirtualSeconds: result.Stop.At.Seconds(), WallSeconds: time.Since(t.started).Seconds(),
		SGDSteps:         t.last.SGDSteps,
		RelativeSGDSteps: folder.Measured(t.p.relativeSteps(t.last.SGDSteps, result.Stop.At)),
		Fingerprint:      fmt.Sprintf("%016x", result.Fingerprint),
		Kernel:           t.p.kernel, Version: t.o.Version,
	}
	if c.Train {
		about := describe(t.p.set.Info())
		s.Data = &about
	}
	for o, n := range result.Stop.Outcomes {
		s.Outcomes[o] = int64(n)
	}
	loss, accuracy := nan, nan
	if result.Stop.Evaluated {
		if loss = result.Stop.ValidationLoss; t.p.hasAccuracy() {
			accuracy = result.Stop.ValidationAccuracy
		}
		t.reach(accuracy, result.Stop.At)
	}
	t.accounts.write(&s)
	s.TimeToTarget = folder.Measured(t.reached)
	s.TrainingLoss, s.BestTrainingLoss = folder.Measured(t.last.WindowLoss), folder.Measured(t.bestLoss)
	s.ValidationLoss, s.ValidationAccuracy, s.BestValidationAccuracy = folder.Measured(loss), folder.Measured(accuracy), folder.Measured(t.bestAccuracy)
	if result.Params != nil {
		digest := folder.ModelSHA256(result.Params)
		s.ModelSHA256 = &digest
	}
	return s
}

// finish writes the models and, last, the summary.
func (t *tally) finish(result *coordinator.Result, s folder.Summary) error {
	if t.o.Progress != nil {
		t.progress.Elapsed, t.progress.Done = time.Since(t.started), result.Completed
		t.o.Progress(t.progress)
	}
	var err error
	if result.Params != nil {
		tensors := t.p.model.Tensors()
		err = t.results.Model(tensors, result.Params, t.about(s, "final"))
		if t.best != nil {
			err = errors.Join(err, t.results.BestModel(tensors, t.best, t.about(s, "best validation accuracy")))
		}
	}
	if err != nil {
		return err
	}
	if err := t.kept.tables(t.results); err != nil {
		return err
	}
	if t.page != nil {
		if err := t.page.end(t.results, s); err != nil {
			return err
		}
	}
	return t.results.Summary(s)
}

// about is a model file's metadata.
func (t *tally) about(s folder.Summary, which string) map[string]string {
	return map[string]string{
		"producer": "fedpace", "task": s.Task, "schedule": s.Schedule, "model": t.p.model.String(),
		"data": describe(t.p.set.Info()), "which": which, "kernel": learn.Kernel(),
	}
}

// describe names a set for reports; made data, and real samples in a made
// grouping, are called synthetic.
func describe(info data.Info) string {
	name := info.Name
	if info.Synthetic && !strings.Contains(name, "synthetic") {
		name += ", synthetic"
	}
	if info.Synthetic && info.Note != "" {
		name += ": " + info.Note
	}
	return name
}
