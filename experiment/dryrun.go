package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"fedpace/actors"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
)

// Estimate says what a run will do and how long that should take.
type Estimate struct {
	Config  Config // resolved, with the population filled in
	Data    string // name of the data, and that it is synthetic where it is
	Model   string // empty: not trained
	Rounds  int
	Virtual float64 // seconds
	Steps   int64   // sum of K_r
	Wall    time.Duration
	// Upper says that the schedule depends on losses: figures are those of the
	// schedule that stays at K_0, of which the run will do at most the steps.
	Upper bool
	// Open says that a stop depends on what is learned: the run may end sooner.
	Open bool
}

// DryRun prepares a run without doing it, and measures a little of it to say
// how long the rest will take.
func DryRun(ctx context.Context, c Config, o Options) (e Estimate, err error) {
	if err := errors.Join(c.Validate(), VacantFolder(c.Out, o.Force)); err != nil {
		return e, err
	}
	p, err := prepare(c)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	limit, err := p.limit(ctx, o)
	if err != nil {
		return e, err
	}
	e = Estimate{Config: p.config, Open: c.Stop.ValidationAccuracy > 0}
	if err := p.foresee(&e, limit); err != nil {
		return e, err
	}
	perTask, err := p.timeTask(ctx, o)
	if err != nil {
		return e, err
	}
	wall := perTask * float64(e.Rounds) * float64(c.Cohort)
	if c.Train {
		e.Model, e.Data = p.model.String(), p.set.Info().Name
		step, sample, err := p.timeLearning(ctx)
		if err != nil {
			return e, err
		}
		evaluations := 1.0
		if c.Evaluate.Every > 0 {
			evaluations += float64(e.Rounds / c.Evaluate.Every)
		}
		work := step*float64(e.Steps)*float64(c.Cohort) + sample*evaluations*float64(p.set.HeldOut())
		wall += work / float64(runtime.GOMAXPROCS(0))
	}
	if c.Pace > 0 {
		wall = max(wall, e.Virtual/c.Pace)
	}
	e.Wall = time.Duration(wall * 1e9)
	return e, nil
}

// foresee walks through the rounds with mean durations, without losses.
func (p *problem) foresee(e *Estimate, limit round.Time) error {
	rounds, err := roundConfig(p.config, limit)
	if err != nil {
		return err
	}
	e.Upper = rounds.K.NeedsLoss() || rounds.K.NeedsValidation()
	communication, err := p.meanRound(0)
	if err != nil {
		return err
	}
	one, err := p.meanRound(1)
	if err != nil {
		return err
	}
	most := p.config.Stop.Rounds
	if most == 0 && limit == 0 {
		return nil // ends by what is learned alone: nothing can be foreseen
	}
	var now round.Time
	for r := 1; most == 0 || r <= most; r++ {
		k := rounds.K.LocalSteps(schedule.Progress{Round: r})
		now += communication + round.Time(k)*(one-communication)
		if (limit > 0 && now > limit) || r > maxForeseen {
			break
		}
		e.Rounds, e.Virtual, e.Steps = r, now.Seconds(), e.Steps+int64(k)
	}
	return nil
}

// maxForeseen bounds the walk.
const maxForeseen = 50_000_000

// meanRound is the time of a round of k steps on devices without spread.
func (p *problem) meanRound(k int) (round.Time, error) {
	d, err := p.fleet.Mean(k, p.modelBits)
	return round.Time(d.Download + d.Compute + d.Upload), err
}

// timeTask plays some rounds without learning and returns wall seconds a task.
func (p *problem) timeTask(ctx context.Context, o Options) (float64, error) {
	timing := *p
	timing.config.Train = false
	timing.config.Schedule.K, timing.config.Schedule.Eta = Fixed, Fixed
	timing.config.Stop = Stop{Rounds: 1 + 20_000/timing.config.Cohort}
	timing.config.Pace = 0
	e, err := startEngine(ctx, &timing, o)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	started := time.Now()
	_, err = e.play(ctx, 0, coordinator.Observer{})
	took := time.Since(started).Seconds()
	return took / float64(timing.config.Stop.Rounds*timing.config.Cohort), err
}

// timeLearning measures one worker: seconds a local step and seconds a held-out
// sample.
func (p *problem) timeLearning(ctx context.Context) (step, sample float64, err error) {
	t, err := actors.NewTrainer(p.learning())
	if err != nil {
		return 0, 0, err
	}
	const enough = 200 * time.Millisecond
	sum := make([]int64, p.model.Params())
	steps := 0
	started := time.Now()
	for client := 0; time.Since(started) < enough; client = (client + 1) % p.config.Clients {
		clear(sum)
		work := []actors.Assignment{{Task: 1, Client: client, LocalSteps: p.config.Schedule.K0, Rate: p.config.Schedule.Eta0, Weight: 1}}
		if _, err := t.Train(ctx, p.initial, actors.Method{}, work, sum); err != nil {
			return 0, 0, err
		}
		steps += p.config.Schedule.K0
	}
	step = time.Since(started).Seconds() / float64(steps)
	n := min(p.set.HeldOut(), 4096)
	started = time.Now()
	if _, _, err := t.Evaluate(ctx, p.initial, 0, n); err != nil {
		return 0, 0, err
	}
	return step, time.Since(started).Seconds() / float64(n), nil
}

// Write writes the estimate for people, after the resolved configuration.
func (e Estimate) Write(w io.Writer) error {
	about := "timing only: no model is trained"
	if e.Model != "" {
		about = fmt.Sprintf("%s on %s", e.Model, e.Data)
	}
	bound := ""
	if e.Upper {
		bound = " at most (K_r follows what is learned; these are for K_0 throughout)"
	}
	_, err := fmt.Fprintf(w, "%s\n# This run would be: %s, %d clients, %d a round, schedule %s.\n# %d rounds, %s virtual time, %d SGD steps a client of each round%s.\n# About %s on this machine; results in %s.\n",
		e.Config.YAML(), about, e.Config.Clients, e.Config.Cohort, e.Config.Schedule.Name(),
		e.Rounds, VirtualTime(e.Virtual), e.Steps, bound, roughly(e.Wall), e.Config.Out)
	return err
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "a second"
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
