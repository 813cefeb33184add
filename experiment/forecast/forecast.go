package forecast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"fedpace/actors"
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/internal/cputime"
	"fedpace/internal/human"
	"fedpace/learn"
	"fedpace/metrics"
	"fedpace/registry"
)

// Forecast says what a run will do and how long that should take.
type Forecast struct {
	// Config is the resolved configuration, with the population filled in.
	Config config.Config `json:"configuration"`
	// Data names the data, and says whether they are synthetic. It is nil if no model is trained.
	Data *string `json:"data"`
	// Model describes the model. It is nil if none is trained.
	Model *string `json:"model"`
	// OwnSteps describes the local steps of a trainer with an optimizer of its own. It is empty if the
	// run has no such trainer.
	OwnSteps string `json:"own_steps,omitempty"`
	// Rounds is the number of rounds, 0 where the end of the run is not known.
	Rounds int `json:"rounds"`
	// Virtual is the virtual time at the end of the run, in seconds.
	Virtual float64 `json:"virtual_seconds"`
	// Steps is the sum of K_r over the rounds.
	Steps int64 `json:"sgd_steps"`

	// RoundsWithin and VirtualWithin hold the rounds or the virtual seconds of 90 % of such runs. One of
	// them is set where not all rounds were played: the time if the run ends after a number of
	// rounds, and else the rounds.
	RoundsWithin  *Interval `json:"rounds_90"`
	VirtualWithin *Interval `json:"virtual_seconds_90"`

	// Wall is the wall time of the run on this machine, in seconds.
	Wall float64 `json:"wall_seconds"`
	// Training is the time of all local steps, in seconds of one core.
	Training float64 `json:"training_core_seconds"`
	// Evaluating is the time of all evaluations, on held-out samples and on the clients' own, in seconds
	// of one core.
	Evaluating float64 `json:"evaluation_core_seconds"`
	// Simulating is the time of messages and the clock, in seconds of one core.
	Simulating float64 `json:"simulation_core_seconds"`
	// FollowsMeasures says that K_r depends on what a run measures, such as losses. The figures are then those of
	// a K that stays at K_0.
	FollowsMeasures bool `json:"k_follows"`
	// IsUpperBound says that FollowsMeasures is set and that K_r never exceeds K_0, so that the run does at most the
	// foreseen steps.
	IsUpperBound bool `json:"at_most"`
	// IsSampled says that rounds are not all alike and too many to be played, so that the figures are
	// extrapolated from some of them.
	IsSampled bool `json:"sampled"`
	// MayEndSooner says that a stop depends on what is learned, so that the run may end sooner.
	MayEndSooner bool `json:"may_end_sooner"`
	// Correlations says in sentences how strongly speed and availability are correlated with the data, where the
	// configuration asks for that.
	Correlations []string `json:"correlations"`
	// Gains say, of a fleet of classes, for whom rounds wait, and what more speed would be worth. It is
	// nil if the fleet has one class, or if the run is too long to be played again.
	Gains []Gain `json:"gains"`
	// Uncounted are the classes of devices of whose tasks none would count. It is nil if Gains are, or if no
	// update of any class would count.
	Uncounted []metrics.ClassOutcomes `json:"classes_without_updates,omitempty"`
	// Heterogeneity has the heterogeneity indices of the fleet. It is nil if all clients are alike and always
	// present.
	Heterogeneity *Heterogeneity `json:"heterogeneity"`
	// Attackers says who attacks and how. It is empty if nobody does.
	Attackers string `json:"attackers,omitempty"`
	// State says how much memory the algorithm's state takes, and the per-client updates of a round.
	State string `json:"state"`
	// Bus is what carries the messages: nats or memory.
	Bus string `json:"bus"`
	// Files are the names of the files that the run writes into its folder.
	Files []string `json:"files"`
	// Growth is how large the files become that grow with the rounds of a run with real devices. It is
	// nil for a run without them.
	Growth Growth `json:"growth"`
	// Privacy is the privacy loss of all rounds. It is nil without differential privacy.
	Privacy *folder.Privacy `json:"privacy"`

	// LocalNoise is the privacy loss by one update, and that of a client that sends one in each round.
	// It is nil if clients add no noise.
	LocalNoise *folder.LocalNoise `json:"local_noise"`
	// DistributedNoise is what the noise that clients add together would cost; nil: they add none.
	DistributedNoise *folder.DistributedNoise `json:"distributed_noise"`

	// NoUpdates reports that not one update counted in the rounds that were tried, as under a deadline
	// that no client can meet: the run would end with the model with which it began.
	NoUpdates bool `json:"no_updates,omitempty"`

	// triedRounds is the number of first rounds that were tried, and tried counts their tasks.
	triedRounds int
	tried       metrics.Outcomes

	// kernel is the class of kernels that would train.
	kernel string
	// Secure says what secure aggregation promises and adds to a round. It is empty without it.
	Secure string `json:"secure_aggregation,omitempty"`
	// privacyText is Privacy in words.
	privacyText string
	// noiseText is LocalNoise in words.
	noiseText string
}

// Trial is the outcome of some first rounds that were played without learning.
type Trial struct {
	// Stop says how the trial ended.
	Stop round.Stop
	// Wall is the wall time of the trial in seconds, and Core its processor time in seconds of one core.
	Wall, Core float64
}

// Make forecasts the run of problem p up to the virtual time limit (0: no limit). Where all rounds
// are alike it computes them; otherwise it plays the run without learning. It does neither where nothing
// says when the run ends; the forecast then has 0 rounds. try plays the problem that it is given, some first
// rounds of the run with about the given number of tasks, with the messages of the real run; wall time
// follows from it.
func Make(
	ctx context.Context,
	p *problem.Problem,
	limit round.Time,
	tasks int,
	try func(context.Context, *problem.Problem) (Trial, error),
) (f Forecast, err error) {
	f = Forecast{
		kernel:        p.Kernel,
		Config:        p.Config,
		MayEndSooner:  len(p.Targets) > 0,
		Correlations:  p.CorrelationNotes(),
		State:         p.AboutState(),
		Secure:        p.AboutSecure(),
		Attackers:     p.AboutAttackers(),
		Heterogeneity: heterogeneityOf(p),
	}
	w, c, err := newWalk(ctx, p, limit)
	if err != nil {
		return f, err
	}
	f.FollowsMeasures = w.followsMeasures
	f.IsUpperBound = f.FollowsMeasures && schedule.AtMostK0(c.K)
	// Nothing is learned here, so a schedule that follows losses may be asked for K: it stays at K_0. With
	// followsMeasures set, the walk would keep the K of a round before it, and there is none.
	w.followsMeasures = false
	// How fast samples, tokens and budgets are used up follows from which clients are drawn, so a run that
	// they end must be played.
	endsByUse := c.Stop.Samples > 0 || c.Stop.Tokens > 0 || c.Stop.Budget != (round.Used{})
	if _, isAlike := p.FixedRound(); isAlike && !endsByUse {
		err = f.walkRounds(w)
	} else if !w.hasNoEnd() || c.Stop.Accepted > 0 || endsByUse {
		err = f.playRounds(ctx, p, limit, maxPlayed)
	}
	if err != nil {
		return f, err
	}
	if v := p.Privacy; v != nil {
		f.Privacy = v.Summary(f.Rounds)
		f.privacyText = v.Text(f.Rounds)
	}
	f.LocalNoise = p.LocalNoise(f.Rounds)
	f.noiseText = p.AboutLocalNoise(f.Rounds)
	// A run has one of the two kinds of noise at most.
	if noise := p.DistributedNoise(f.Rounds); noise != nil {
		f.DistributedNoise = noise
		f.noiseText = p.AboutDistributedNoise(f.Rounds)
	}
	// The trial is the last step, because it may take as long as the run itself.
	t, err := try(ctx, trialOf(p, tasks))
	if err != nil {
		return f, err
	}
	ended := int64(0)
	for outcome, n := range t.Stop.Outcomes {
		f.tried[outcome] = int64(n)
		ended += int64(n)
	}
	// Where the run ends within its first round, there are tasks and no round.
	f.NoUpdates = ended > 0 && f.tried[round.Accepted] == 0
	f.triedRounds = t.Stop.Rounds
	return f, f.addWork(ctx, p, evaluationsOf(&p.Data, &c), &t)
}

// trialOf returns the problem p without training and pace, for as many first rounds as have about the given
// number of tasks. Playing it measures how fast planning is.
func trialOf(p *problem.Problem, tasks int) *problem.Problem {
	trial := *p
	c := &trial.Config
	c.MakeTimingOnly()
	maxRounds := 1 + tasks/tasksOf(c)
	if n := c.Stop.Rounds; n > 0 {
		maxRounds = min(maxRounds, n)
	}
	c.Stop = config.Stop{Rounds: maxRounds}
	c.Pace = 0
	return &trial
}

// tasksOf is about how many tasks a round has: as many as the cohort has clients or, where rounds overlap, as
// many as updates close a round.
func tasksOf(c *config.Config) int {
	if closing.Overlaps(c.Close) {
		return updatesOf(c.Close, c.Cohort)
	}
	return c.Cohort
}

// walkRounds counts rounds, virtual time and local steps of a run with rounds that are all alike, up to
// its end. w is at the start of the run.
func (f *Forecast) walkRounds(w walk) error {
	for !w.hasNoEnd() {
		n, err := w.next(1)
		if n == 0 || err != nil {
			return err
		}
		f.Rounds = w.round
		f.Virtual = w.now.Seconds()
		f.Steps += int64(w.localSteps)
	}
	return nil
}

// addWork adds what the run takes of this machine's time. Messages and the clock take as long for each round as
// in the trial t, and learning as long for each step and sample as a single worker needs, divided among all
// cores. e says how many samples the run evaluates. All times are in seconds.
func (f *Forecast) addWork(ctx context.Context, p *problem.Problem, e evaluations, t *Trial) error {
	// The run has this many rounds for each round of the trial.
	rounds := float64(f.Rounds) / float64(max(1, t.Stop.Rounds))
	f.Wall = t.Wall * rounds
	f.Simulating = t.Core * rounds
	if p.Config.Train {
		model := p.Model.String()
		f.Model = &model
		if p.Trainer != nil && p.Trainer.Steps != nil {
			f.OwnSteps = p.Trainer.Steps.String()
		}
		stepSeconds, sampleSeconds, err := timeLearning(ctx, p)
		if err != nil {
			return err
		}
		// steps are the local steps of all clients whose updates count, as many a round as in the trial.
		steps := float64(f.Steps) * float64(t.Stop.Outcomes[round.Accepted]) / float64(max(1, t.Stop.Rounds))
		end := round.Time(f.Virtual * 1e9)
		samples := e.samplesBetween(0, f.Rounds, 0, end) + e.atEnd()
		f.Training = stepSeconds * steps
		f.Evaluating = sampleSeconds * samples
		f.Wall += (f.Training + f.Evaluating) / float64(runtime.GOMAXPROCS(0))
	}
	// A run with a pace has at most that many virtual seconds in a second of wall time.
	if pace := p.Config.Pace; pace > 0 {
		f.Wall = max(f.Wall, f.Virtual/pace)
	}
	// The virtual time of real devices is wall time.
	if p.Config.DevicesAlone() {
		f.Wall = max(f.Wall, f.Virtual)
	}
	return nil
}

// population says in words who takes part in the run of c: clients, devices, or both.
func population(c *config.Config) string {
	n := len(c.Devices.Names)
	devices := fmt.Sprintf("%d %s", n, human.Plural(n, "device"))
	clients := fmt.Sprintf("%d %s", c.Clients, human.Plural(c.Clients, "client"))
	switch {
	case n == 0:
		return clients
	case c.DevicesAlone():
		return devices
	}
	return clients + " and " + devices
}

// Write writes the forecast for people: the resolved configuration as YAML, then as comments what
// the run would be, how long it would take, and what is unusual about it.
func (f Forecast) Write(w io.Writer) error {
	c := &f.Config
	about := "timing only: no model is trained"
	if f.Model != nil {
		about = *f.Model + " on " + *f.Data + ", kernel class " + f.kernel
	}
	messages := "through NATS"
	if f.Bus == folder.InMemory {
		messages = "in memory, without NATS"
	}
	var notes []string
	if f.Growth != nil {
		notes = append(notes, fmt.Sprintf("It leaves about %s.", f.Growth))
	}
	if windowNote := c.Schedule.TooLong(f.Rounds); windowNote != "" && c.Train {
		notes = append(notes, "The training loss is a "+windowNote+".")
	}
	if f.NoUpdates {
		tried := fmt.Sprintf("none did in the %d %s tried", f.triedRounds, human.Plural(f.triedRounds, "round"))
		if f.triedRounds == 0 {
			tried = "the run ends within its first round"
		}
		notes = append(notes, fmt.Sprintf("No update would count: %s, so the model would stay as it begins (%s).",
			tried, MoreUpdatesAfter(f.tried)))
	}
	for i := range f.Uncounted {
		notes = append(notes, AboutUncounted(&f.Uncounted[i]))
	}
	text := ""
	for _, note := range append(
		append(notes, f.Correlations...),
		f.gainsText(),
		f.Heterogeneity.String(),
		f.State,
		f.Secure,
		f.privacyText,
		f.noiseText,
		f.Attackers,
	) {
		if note != "" {
			text += "# " + note + "\n"
		}
	}
	_, err := fmt.Fprintf(w, "%s\n# This run would be: %s, %s, %s a round, schedule %s.\n"+
		"# Rounds close %s. Selection: %s. Algorithm: %s.%s\n%s# %d rounds, %s virtual time%s, %d SGD steps a "+
		"client of each round%s.\n# About %s on this machine, messages %s; results in %s: %s.\n",
		c.YAML(), about, population(c), cohortText(c), c.Schedule.Name(),
		c.ClosingText(), selection.Rules.Text(c.Select), algorithm.Algorithms.Text(c.Aggregate.Algorithm),
		f.extrasText(), text, f.Rounds, human.VirtualTime(f.Virtual), f.intervalText(), f.Steps, f.conditionsText(),
		human.Duration(time.Duration(f.Wall*1e9)), messages, c.Out, strings.Join(f.Files, ", "))
	return err
}

// cohortText says how many clients a round has: a number, or the formula that gives it, with its limit.
func cohortText(c *config.Config) string {
	if c.Schedule.Cohort == "" {
		return strconv.Itoa(c.Cohort)
	}
	return fmt.Sprintf("%s (at most %d)", c.Schedule.Cohort, c.Cohort)
}

// extrasText returns sentences on local steps that are not plain SGD, on clipping, and on a rule that combines
// updates. It is empty if the run has none of these.
func (f *Forecast) extrasText() (text string) {
	c := &f.Config
	switch {
	case !learn.Plain(c.Local):
		text = " Local steps: " + learn.Optimizers.Text(c.Local) + "."
	case f.OwnSteps != "":
		text = " Local steps: the trainer's own, " + f.OwnSteps + "."
	}
	if s := c.Aggregate.Clip; s != nil {
		text += " Clipping: " + combine.Clips.Text(s) + "."
	}
	if s := c.Aggregate.Combine; s != nil {
		text += " Updates are combined by " + combine.Rules.Text(s) + "."
	}
	return text
}

// intervalText is the 90 % interval of the virtual time or, where the virtual time ends the run, of the
// number of rounds. It is empty where neither is known.
func (f *Forecast) intervalText() string {
	v := f.VirtualWithin
	n := f.RoundsWithin
	switch {
	case v != nil:
		return fmt.Sprintf(" (90 %%: %s to %s)", human.VirtualTime(v.P05), human.VirtualTime(v.P95))
	case n != nil:
		return fmt.Sprintf(" (90 %%: %.0f to %.0f rounds)", n.P05, n.P95)
	}
	return ""
}

// conditionsText returns the conditions under which the figures of the forecast hold, as the end of a
// sentence on the run's rounds. It is empty if they hold without any.
func (f *Forecast) conditionsText() (text string) {
	// Some of the rounds were played in place of all.
	if f.IsSampled {
		text = ", by a sample of them"
	}
	switch needs := registry.NeedsOf(f.Config.Select); {
	case needs.Candidates:
		text += " without the time to ask candidates"
	case needs.Losses:
		text += " with clients that are drawn uniformly"
	}
	if f.FollowsMeasures {
		text += " if K stays at K_0 (K_r follows what the run measures)"
	}
	return text
}

// timeLearning measures how long one worker takes: step is in seconds for a local step, and sample in seconds
// for the evaluation of a held-out sample. It counts processor time, which other programs do not lengthen; a
// trainer in a process of its own is timed by the wall clock. It trains simulated clients of the problem, one
// after the other, for at least minTime. Without any, step is 0.
func timeLearning(ctx context.Context, p *problem.Problem) (step, sample float64, err error) {
	t, err := actors.NewTrainer(*p.Learning())
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	started := time.Now()
	worked := cputime.Start()
	now := func() float64 {
		if p.Trainer != nil {
			return time.Since(started).Seconds()
		}
		return worked().Seconds()
	}
	const minTime = 200 * time.Millisecond
	// The weight is that of a client's change in the sum of control variates.
	var shared *actors.Shared
	if algorithm.HasControlVariates(p.Algorithm) {
		shared = &actors.Shared{Weight: 1 / float64(p.Config.Clients)}
	}
	sum := make([]int64, t.SumLength(shared))
	k0 := p.InitialSteps()
	batch := p.Batch()
	steps := 0
	start := now()
	// The clients are trained in turn, from the first one again behind the last.
	for n := 0; p.Config.Clients > 0 && time.Since(started) < minTime; n++ {
		client := n % p.Config.Clients
		clear(sum)
		work := []actors.Assignment{{
			Task:       1,
			Client:     client,
			LocalSteps: k0,
			Rate:       p.Config.Schedule.Eta0,
			Weight:     1,
		}}
		if batch != nil {
			work[0].Batch = batch(client)
		}
		if _, err := t.Train(ctx, p.Initial, shared, work, sum); err != nil {
			return 0, 0, err
		}
		steps += k0
	}
	trained := now()
	samples := min(p.Set.HeldOut(), 4096)
	_, _, err = t.Evaluate(ctx, p.Initial, actors.Measured{Client: actors.HeldOut, Count: samples})
	step = (trained - start) / float64(max(1, steps))
	sample = (now() - trained) / float64(max(1, samples))
	return step, sample, err
}
