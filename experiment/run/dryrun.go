package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"fedpace/actors"
	"fedpace/actors/learn"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/internal/registry"
	"fedpace/metrics"
)

// Estimate says what a run will do and how long that should take.
type Estimate struct {
	Config  config.Config `json:"configuration"` // resolved, with the population filled in
	Data    *string       `json:"data"`          // the data's name, and that it is synthetic; nil: no model is trained
	Model   *string       `json:"model"`         // nil: no model is trained
	Rounds  int           `json:"rounds"`
	Virtual float64       `json:"virtual_seconds"`
	Steps   int64         `json:"sgd_steps"` // sum of K_r
	Wall    float64       `json:"wall_seconds"`
	// Follows says that K_r depends on what a run measures, such as losses: figures are those
	// of the schedule that stays at K_0. Upper says that K_r never exceeds it besides, so
	// that the run does at most the steps.
	Follows bool `json:"k_follows"`
	Upper   bool `json:"at_most"`
	// About says that rounds are not all alike: figures are those of a sample of
	// them, carried on with mean devices.
	About bool `json:"sampled"`
	// Open says that a stop depends on what is learned: the run may end sooner.
	Open bool `json:"may_end_sooner"`
	// Tied says what the correlations of speed and availability with data have come to.
	Tied  []string `json:"correlations"`
	Bus   string   `json:"bus"`   // what carries the messages: nats or memory
	Files []string `json:"files"` // that the run writes into its folder
	// DeviceLog is how large devices.log becomes, in bytes; nil: there is none.
	DeviceLog *float64 `json:"device_log_bytes"`

	kernel string // class
}

// DryRun prepares a run without doing it, and measures a little of it to say
// how long the rest will take.
func DryRun(ctx context.Context, c config.Config, o Options) (e Estimate, err error) {
	p, err := o.prepare(ctx, c)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	limit, err := p.limit(ctx, o)
	if err != nil {
		return e, err
	}
	sinks, err := p.sinks(&o)
	if err != nil {
		return e, err
	}
	e = Estimate{kernel: p.Kernel, Config: p.Config, Open: len(p.Targets) > 0, Tied: p.Tied(), Bus: p.carrier(&o), Files: []string{folder.ConfigFile}}
	for _, s := range sinks {
		left := slices.DeleteFunc(slices.Clone(s.Files()), func(name string) bool { return slices.Contains(metrics.Spools(s), name) })
		e.Files = append(e.Files, left...)
	}
	e.Files = append(e.Files, folder.SummaryFile)
	s, err := p.sample(ctx, o, limit)
	if err != nil {
		return e, err
	}
	if err := p.foreseeAll(&e, limit, s); err != nil {
		return e, err
	}
	if len(p.Config.Devices.Names) > 0 {
		bytes := p.deviceLogBytes(float64(e.Rounds))
		e.DeviceLog = &bytes
	}
	wall := s.wall * s.tasks * float64(e.Rounds)
	if c.Train {
		model, about := p.Model.String(), describe(p.Set.Info())
		e.Model, e.Data = &model, &about
		step, sample, err := p.timeLearning(ctx)
		if err != nil {
			return e, err
		}
		evaluations := 1.0
		if c.Evaluate.Every > 0 {
			evaluations += float64(e.Rounds / c.Evaluate.Every)
		}
		measured := p.Set.HeldOut()
		if n := c.Evaluate.Samples; n > 0 {
			measured = min(measured, n)
		}
		work := step*float64(e.Steps)*s.accepted + sample*(evaluations*float64(measured)+p.ownMeasured(e.Rounds))
		wall += work / float64(runtime.GOMAXPROCS(0))
	}
	if c.Pace > 0 {
		wall = max(wall, e.Virtual/c.Pace)
	}
	if p.Config.DevicesAlone() { // whose virtual time is wall time
		wall = max(wall, e.Virtual)
	}
	e.Wall = wall
	return e, nil
}

// ownMeasured is how many of the clients' own samples a run of so many rounds measures.
func (p *experiment) ownMeasured(rounds int) float64 {
	by := &p.Config.Evaluate.Clients
	if !by.Any() {
		return 0
	}
	evaluations := 1 // of the final model
	if by.Every > 0 {
		evaluations += rounds / by.Every
	}
	for _, r := range by.Rounds {
		if r < rounds && (by.Every == 0 || r%by.Every != 0) {
			evaluations++
		}
	}
	samples := 0
	for client := range p.Config.Clients {
		samples += p.OwnSamples(client)
	}
	return float64(evaluations) * float64(samples)
}

// foreseeAll foresees the run by its sample.
func (p *experiment) foreseeAll(e *Estimate, limit round.Time, s sample) error {
	_, alike := p.FixedRound()
	if !alike && s.whole { // the sample is the run
		e.Rounds, e.Virtual, e.Steps = s.rounds, s.virtual, s.steps
		return nil
	}
	pace := 1.0
	if !alike && s.rounds > 0 {
		e.About = true
		var mean Estimate
		if err := p.foresee(&mean, s.rounds, 0, 1); err != nil {
			return err
		}
		if mean.Virtual > 0 {
			pace = s.virtual / mean.Virtual
		}
	}
	return p.foresee(e, p.Config.Stop.Rounds, limit, pace)
}

// foresee walks through so many rounds (0: to the limit) with mean durations,
// each so many times as long, without losses.
func (p *experiment) foresee(e *Estimate, most int, limit round.Time, pace float64) error {
	rounds, err := p.Rounds(limit)
	if err != nil {
		return err
	}
	needs := registry.NeedsOf(rounds.K)
	e.Follows = needs.Losses || needs.Validation || needs.Stragglers
	e.Upper = e.Follows && schedule.AtMostK0(rounds.K)
	communication, err := p.MeanRound(0)
	if err != nil {
		return err
	}
	one, err := p.MeanRound(1)
	if err != nil {
		return err
	}
	if most == 0 && limit == 0 {
		return nil // ends by what is learned alone: nothing can be foreseen
	}
	var now round.Time
	var last schedule.Decision
	for r := 1; most == 0 || r <= most; r++ {
		at := schedule.Progress{Round: r, Seconds: now.Seconds(), StragglerShare: math.NaN(), Previous: last}
		at.LearningRate = rounds.Eta.LearningRate(at)
		last = schedule.Decision{LocalSteps: rounds.K.LocalSteps(at), LearningRate: at.LearningRate, Seconds: at.Seconds}
		k := last.LocalSteps
		if formula, ok := rounds.K.(interface{ Check(schedule.Progress) error }); ok && (k < 1 || k > schedule.MaxK0) {
			return fmt.Errorf("schedule of K in round %d: %w", r, formula.Check(at))
		}
		if rounds.Epochs.Batch > 0 {
			k = rounds.Epochs.Steps(k, rounds.Epochs.Samples)
		}
		next := communication + round.Time(k)*(one-communication)
		if pace != 1 {
			next = round.Time(float64(next) * pace)
		}
		now += next
		if (limit > 0 && now > limit) || r > maxForeseen {
			break
		}
		e.Rounds, e.Virtual, e.Steps = r, now.Seconds(), e.Steps+int64(k)
	}
	return nil
}

// maxForeseen bounds the walk.
const maxForeseen = 50_000_000

// sample is what some rounds of a run came to.
type sample struct {
	whole    bool // they were all of the run's
	rounds   int
	virtual  float64 // seconds
	steps    int64   // sum of K_r
	tasks    float64 // a round
	accepted float64 // a round
	wall     float64 // seconds a task, without learning
}

// sampleTasks is about how many tasks a sample has. A test sets it lower.
var sampleTasks = 20_000

// sample plays some rounds without learning.
func (p *experiment) sample(ctx context.Context, o Options, limit round.Time) (s sample, err error) {
	timing := *p
	c := &timing.Config
	c.Untrained()
	most := 1 + sampleTasks/c.Cohort
	if closing.Overlaps(c.Close) { // after so many updates, whatever the cohort is
		most = 1 + sampleTasks/sort.Search(sampleTasks, func(n int) bool {
			return n > 0 && c.Close.Close(closing.Standing{Cohort: c.Cohort, Accepted: n})
		})
	}
	all := c.Stop.Rounds > 0 && c.Stop.Rounds <= most
	if all {
		most = c.Stop.Rounds
	}
	c.Stop = config.Stop{Rounds: most}
	c.Pace = 0
	e, err := startLocal(ctx, &timing, o)
	if err != nil {
		return s, err
	}
	defer e.Close()
	started := time.Now()
	result, err := e.play(ctx, limit, coordinator.Observer{Report: func(r *round.Report) error {
		s.steps = r.SGDSteps
		return nil
	}})
	if err != nil {
		return s, err
	}
	took := time.Since(started).Seconds()
	s.rounds, s.virtual = result.Stop.Rounds, result.Stop.At.Seconds()
	s.whole = (all || limit > 0 && s.rounds < most) && !registry.NeedsOf(p.Config.Select).Losses
	tasks := 0
	for _, n := range result.Stop.Outcomes {
		tasks += n
	}
	n := float64(max(1, s.rounds))
	s.tasks, s.accepted, s.wall = float64(tasks)/n, float64(result.Stop.Outcomes[round.Accepted])/n, took/float64(max(1, tasks))
	return s, nil
}

// timeLearning measures one worker: seconds a local step and seconds a held-out
// sample.
func (p *experiment) timeLearning(ctx context.Context) (step, sample float64, err error) {
	t, err := actors.NewTrainer(*p.Learning())
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	const enough = 200 * time.Millisecond
	var shared *actors.Shared
	if registry.NeedsOf(p.Algorithm).ClientState {
		shared = &actors.Shared{Weight: 1 / float64(p.Config.Clients)}
	}
	sum := make([]int64, t.SumLength(shared))
	steps := 0
	started := time.Now()
	k0, batch := p.InitialSteps(), p.Batch()
	for client := 0; client < p.Config.Clients && time.Since(started) < enough; client = (client + 1) % p.Config.Clients {
		clear(sum)
		work := []actors.Assignment{{Task: 1, Client: client, LocalSteps: k0, Rate: p.Config.Schedule.Eta0, Weight: 1}}
		if batch != nil {
			work[0].Batch = batch(client)
		}
		if _, err := t.Train(ctx, p.Initial, shared, work, sum); err != nil {
			return 0, 0, err
		}
		steps += k0
	}
	step = time.Since(started).Seconds() / float64(max(1, steps))
	n := min(p.Set.HeldOut(), 4096)
	started = time.Now()
	if _, _, err := t.Evaluate(ctx, p.Initial, 0, n); err != nil {
		return 0, 0, err
	}
	return step, time.Since(started).Seconds() / float64(n), nil
}

// population says in words who takes part.
func population(c *config.Config) string {
	n := len(c.Devices.Names)
	devices := fmt.Sprintf("%d %s", n, human.Plural(n, "device"))
	switch {
	case n == 0:
		return fmt.Sprintf("%d clients", c.Clients)
	case c.DevicesAlone():
		return devices
	}
	return fmt.Sprintf("%d clients and %s", c.Clients, devices)
}

// Write writes the estimate for people, after the resolved configuration.
func (e Estimate) Write(w io.Writer) error {
	about := "timing only: no model is trained"
	if e.Model != nil {
		about = *e.Model + " on " + *e.Data + ", kernel class " + e.kernel
	}
	bound := ""
	if e.About {
		bound = ", by a sample of them"
	}
	switch needs := registry.NeedsOf(e.Config.Select); {
	case needs.Candidates:
		bound += " without the time to ask candidates"
	case needs.Losses:
		bound += " with clients that are drawn uniformly"
	}
	steps := ""
	if !learn.Plain(e.Config.Local) {
		steps = " Local steps: " + learn.Optimizers.Text(e.Config.Local) + "."
	}
	if e.Follows {
		bound += " if K stays at K_0 (K_r follows what the run measures)"
	}
	messages := "through NATS"
	if e.Bus == folder.InMemory {
		messages = "in memory, without NATS"
	}
	tied := ""
	if e.DeviceLog != nil {
		tied = fmt.Sprintf("# %s takes about %s.\n", devicelog.File, human.Size(int64(*e.DeviceLog)))
	}
	for _, line := range e.Tied {
		tied += "# " + line + "\n"
	}
	_, err := fmt.Fprintf(w, "%s\n# This run would be: %s, %s, %d a round, schedule %s.\n"+
		"# Rounds close %s. Selection: %s. Algorithm: %s.%s\n%s# %d rounds, %s virtual time, %d SGD steps a client of each round%s.\n# About %s on this machine, messages %s; results in %s: %s.\n",
		e.Config.YAML(), about, population(&e.Config), e.Config.Cohort, e.Config.Schedule.Name(),
		closes(&e.Config), round.Selections.Text(e.Config.Select), aggregate.Algorithms.Text(e.Config.Aggregate.Algorithm), steps,
		tied, e.Rounds, human.VirtualTime(e.Virtual), e.Steps, bound, human.Duration(time.Duration(e.Wall*1e9)), messages, e.Config.Out, strings.Join(e.Files, ", "))
	return err
}
