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
	"fedpace/actors/algorithm"
	"fedpace/actors/algorithm/combine"
	"fedpace/actors/learn"
	"fedpace/coordinator"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/internal/cputime"
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
	// Seconds of one core: of local steps, of validations with evaluations on the clients' own
	// samples, and of messages and the clock.
	Training   float64 `json:"training_core_seconds"`
	Evaluating float64 `json:"evaluation_core_seconds"`
	Simulating float64 `json:"simulation_core_seconds"`
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
	Tied []string `json:"correlations"`
	// Attackers says who attacks and how; empty: nobody.
	Attackers string   `json:"attackers,omitempty"`
	State     string   `json:"state"` // what the algorithm keeps, and what a round holds of single updates
	Bus       string   `json:"bus"`   // what carries the messages: nats or memory
	Files     []string `json:"files"` // that the run writes into its folder
	// Growth is how large the files become that grow with the rounds of a run with real
	// devices; nil: there is none.
	Growth []Growth `json:"growth"`
	// Privacy is what all rounds would cost in differential privacy; nil: there is none.
	Privacy *folder.Privacy `json:"privacy"`

	// LocalNoise is what an update, and a client that sends one in each round, would cost; nil:
	// clients add no noise.
	LocalNoise *folder.LocalNoise `json:"local_noise"`

	kernel  string // class
	private string // Privacy in words
	noise   string // LocalNoise in words
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
	if err == nil {
		err = p.setGrid(ctx, o)
	}
	if err != nil {
		return e, err
	}
	sinks, err := p.sinks(&o)
	if err != nil {
		return e, err
	}
	e = Estimate{kernel: p.Kernel, Config: p.Config, Open: len(p.Targets) > 0, Tied: p.CorrelationNotes(), State: p.State(), Attackers: p.AboutAttackers(), Bus: p.carrier(&o), Files: []string{folder.ConfigFile}}
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
		e.Growth = p.growth(&o, float64(e.Rounds))
	}
	if v := p.Privacy; v != nil {
		e.Privacy, e.private = v.Summary(e.Rounds), v.Text(e.Rounds)
	}
	e.LocalNoise, e.noise = p.LocalNoise(e.Rounds), p.AboutLocalNoise(e.Rounds)
	all := s.tasks * float64(e.Rounds)
	wall := s.wall * all
	e.Simulating = s.core * all
	if c.Train {
		model, about := p.Model.String(), describe(p.Set.Info())
		e.Model, e.Data = &model, &about
		wallOf, coreOf, err := p.timeLearning(ctx)
		if err != nil {
			return e, err
		}
		measured := p.Set.HeldOut()
		if n := c.Evaluate.Samples; n > 0 {
			measured = min(measured, n)
		}
		steps, samples := float64(e.Steps)*s.accepted, p.evaluations(&e)*float64(measured)+p.ownMeasured(e.Rounds)
		e.Training, e.Evaluating = coreOf.step*steps, coreOf.sample*samples
		wall += (wallOf.step*steps + wallOf.sample*samples) / float64(runtime.GOMAXPROCS(0))
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

// evaluations is how often a run that comes to an estimate validates its model.
func (p *experiment) evaluations(e *Estimate) float64 {
	n := e.Rounds / p.Config.Evaluate.Every
	if p.Grid > 0 {
		n = int(min(float64(e.Rounds), e.Virtual/p.Grid.Seconds()))
	}
	return 1 + float64(n) // and the final model
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
	core     float64 // likewise, of one core
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
	started, worked := time.Now(), cputime.Since(time.Now())
	result, err := e.play(ctx, limit, coordinator.Observer{Report: func(r *round.Report) error {
		s.steps = r.SGDSteps
		return nil
	}})
	if err != nil {
		return s, err
	}
	took, core := time.Since(started).Seconds(), (cputime.Since(started) - worked).Seconds()
	s.rounds, s.virtual = result.Stop.Rounds, result.Stop.At.Seconds()
	s.whole = (all || limit > 0 && s.rounds < most) && !registry.NeedsOf(p.Config.Select).Losses
	tasks := 0
	for _, n := range result.Stop.Outcomes {
		tasks += n
	}
	n := float64(max(1, s.rounds))
	s.tasks, s.accepted = float64(tasks)/n, float64(result.Stop.Outcomes[round.Accepted])/n
	s.wall, s.core = took/float64(max(1, tasks)), core/float64(max(1, tasks))
	return s, nil
}

// learningTime is how long one worker takes: seconds a local step, and seconds a held-out
// sample.
type learningTime struct{ step, sample float64 }

// timeLearning measures one worker in wall time, and in the time of a core, which other
// programs do not lengthen. That of a trainer's process is taken to be its wall time.
func (p *experiment) timeLearning(ctx context.Context) (wall, core learningTime, err error) {
	t, err := actors.NewTrainer(*p.Learning())
	if err != nil {
		return wall, core, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	const enough = 200 * time.Millisecond
	var shared *actors.Shared
	if registry.NeedsOf(p.Algorithm).ClientState {
		shared = &actors.Shared{Weight: 1 / float64(p.Config.Clients)}
	}
	sum := make([]int64, t.SumLength(shared))
	steps := 0
	started, worked := time.Now(), cputime.Since(time.Now())
	took := func(n int) (wall, core float64) {
		wall, core = time.Since(started).Seconds(), (cputime.Since(started) - worked).Seconds()
		if p.Trainer != nil {
			core = wall
		}
		return wall / float64(n), core / float64(n)
	}
	k0, batch := p.InitialSteps(), p.Batch()
	for client := 0; client < p.Config.Clients && time.Since(started) < enough; client = (client + 1) % p.Config.Clients {
		clear(sum)
		work := []actors.Assignment{{Task: 1, Client: client, LocalSteps: k0, Rate: p.Config.Schedule.Eta0, Weight: 1}}
		if batch != nil {
			work[0].Batch = batch(client)
		}
		if _, err := t.Train(ctx, p.Initial, shared, work, sum); err != nil {
			return wall, core, err
		}
		steps += k0
	}
	wall.step, core.step = took(max(1, steps))
	n := min(p.Set.HeldOut(), 4096)
	started = time.Now()
	worked = cputime.Since(started)
	_, _, err = t.Evaluate(ctx, p.Initial, 0, n)
	wall.sample, core.sample = took(n)
	return wall, core, err
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
	if s := e.Config.Aggregate.Clip; s != nil {
		steps += " Clipping: " + combine.Clips.Text(s) + "."
	}
	if s := e.Config.Aggregate.Combine; s != nil {
		steps += " Updates are combined by " + combine.Rules.Text(s) + "."
	}
	messages := "through NATS"
	if e.Bus == folder.InMemory {
		messages = "in memory, without NATS"
	}
	tied := ""
	if e.Growth != nil {
		tied = fmt.Sprintf("# It leaves about %s.\n", sizes(e.Growth))
	}
	for _, line := range append(slices.Clone(e.Tied), e.State, e.private, e.noise) {
		if line == "" {
			continue
		}
		tied += "# " + line + "\n"
	}
	if e.Attackers != "" {
		tied += "# " + e.Attackers + "\n"
	}
	_, err := fmt.Fprintf(w, "%s\n# This run would be: %s, %s, %d a round, schedule %s.\n"+
		"# Rounds close %s. Selection: %s. Algorithm: %s.%s\n%s# %d rounds, %s virtual time, %d SGD steps a client of each round%s.\n# About %s on this machine, messages %s; results in %s: %s.\n",
		e.Config.YAML(), about, population(&e.Config), e.Config.Cohort, e.Config.Schedule.Name(),
		closes(&e.Config), selection.Rules.Text(e.Config.Select), algorithm.Algorithms.Text(e.Config.Aggregate.Algorithm), steps,
		tied, e.Rounds, human.VirtualTime(e.Virtual), e.Steps, bound, human.Duration(time.Duration(e.Wall*1e9)), messages, e.Config.Out, strings.Join(e.Files, ", "))
	return err
}
