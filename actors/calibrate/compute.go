package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/internal/robust"
	"fedpace/internal/tasks"
)

// Compute is the measured time of local steps.
type Compute struct {
	// Task is custom for a model that is not of the paper.
	Task tasks.Task `json:"task"`
	// Model is the name of the model, as learn.Parse reads it.
	Model string `json:"model"`
	// Batch is the number of samples of a minibatch.
	Batch int `json:"batch"`
	// Kernel names the instructions that compute the steps, or the class of an external trainer.
	Kernel string `json:"kernel"`

	// SecondsPerStep is the time of one local step.
	SecondsPerStep robust.Estimate `json:"seconds_per_step"`
	// StepCV is the standard deviation of a step's time over its mean.
	StepCV float64 `json:"step_cv"`
	Phase

	// Tasks is the number of long tasks that were measured, and of tasks of one step.
	Tasks int `json:"tasks"`
	// Steps is the number of steps of a long task.
	Steps int `json:"steps"`
	// WarmUp is the number of pairs of tasks before them that do not count.
	WarmUp int `json:"warm_up"`
	// Seconds is the time of all measured tasks, those of the warm-up included.
	Seconds float64 `json:"seconds"`
	// Drift is the time of the last quarter over that of the first, minus one.
	Drift float64 `json:"drift"`
	// Settled says that the first half was left out because of the drift.
	Settled bool `json:"settled"`

	// PaperSeconds and PaperStd are the mean and the deviation of a step's time in the paper's
	// Table 2. They are 0 for what the paper does not have.
	PaperSeconds float64 `json:"paper_seconds_per_step,omitempty"`
	PaperStd     float64 `json:"paper_std_seconds,omitempty"`
}

const (
	// longTask is how many seconds a task of many steps is to take. It takes less if that is more than
	// a tenth of the measurement's time.
	longTask = 0.2
	// minLongSteps and maxLongSteps bound the number of steps of such a task. If the run's K_0 is
	// known, the task has no more steps than that: a processor that is fast for a short time only
	// would show another speed in longer tasks than in the run's.
	minLongSteps = 4
	maxLongSteps = 4096

	// warmUps is the largest number of rounds of the warm-up.
	warmUps = 10
	// steady is the largest extent of three times that count as equal, relative to their median.
	steady = 0.03
	// noDrift is the largest relative change of times over the measurement that counts as none.
	noDrift = 0.05
	// noSpread is a relative standard deviation of steps that is too small to be part of a class.
	noSpread = 0.002
	// noDigit is a range of factors that four digits hardly show.
	noDigit = 2e-4

	// rate is the learning rate of measured steps. It is so small that every model stays finite.
	rate = 1e-4
)

// Timing says how steps are measured.
type Timing struct {
	// Seconds is the total time of tasks. It gets longer if they are noisy.
	Seconds float64
	// Pause is the rest of the device before each task, as in a run while models are transferred.
	Pause time.Duration
}

// MeasureCompute measures the local steps of a subject on this device, as t says, and returns their
// times. notice is called with lines that a user should know. The measurement ends with an error if
// ctx is cancelled or the training diverges.
func MeasureCompute(ctx context.Context, subject *Subject, t Timing, notice func(string)) (c Compute, err error) {
	if subject.Measure != nil {
		return subject.Measure(ctx, notice)
	}
	device, err := real.Open(subject.deviceConfig(notice))
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	err = device.Prepare(ctx, Run, subject.Welcome)
	if err != nil {
		return c, err
	}
	// Any initial model takes as long as another.
	const anySeed = 1
	params, err := device.Initial(ctx, anySeed)
	if err != nil {
		return c, err
	}
	// A measurement with pauses ends by its number of rounds, because the pauses take time, too.
	stop := stopping{seconds: t.Seconds, notice: notice}
	if t.Pause > 0 {
		stop.sufficientRounds = wantedRounds
	}
	timer := &taskTimer{
		device:  device,
		subject: subject,
		initial: params,
		pause:   t.Pause,
		notice:  notice,
		task:    bus.Task{LearningRate: rate},
	}
	c, err = measureSteps(stop, subject.Steps, subject.Name, func(steps int) (float64, error) {
		return timer.run(ctx, steps)
	})
	c.Task = subject.Task
	c.Model = device.Model().String()
	c.Batch = subject.Batch()
	c.Kernel = device.Arithmetic()
	// The paper's time is comparable only for the same model and minibatch.
	if row, ok := subject.Task.Paper(); ok && c.Batch == row.Batch && c.Model == row.Architecture {
		c.PaperSeconds = row.SecondsPerStep
		c.PaperStd = row.StdPerStep
	}
	return c, err
}

// taskTimer has a device do one task after the other, and measures how long their local steps take.
type taskTimer struct {
	device  *real.Device
	subject *Subject
	// initial is the model that every task starts from.
	initial []float32
	// pause is the rest of the device before each task.
	pause  time.Duration
	notice func(string)
	// task is the last task.
	task bus.Task
}

// run does a task with this number of local steps and returns the seconds that they take. Each task has a number
// of its own, and its minibatches follow those of the task before.
func (r *taskTimer) run(ctx context.Context, steps int) (seconds float64, err error) {
	if err := Pause(ctx, r.pause); err != nil {
		return 0, err
	}
	r.task.Task++
	r.task.LocalSteps = uint32(steps)
	model := r.initial
	// In a run a model has just been downloaded, and its digest checked. Both have effects on the caches and
	// leave memory to be collected, so they are done here, too.
	if r.pause > 0 {
		model = slices.Clone(r.initial)
		_ = bus.DigestOf(model)
	}
	update, _, err := r.device.Compute(ctx, model, nil, &r.task)
	if err != nil {
		return 0, err
	}
	// A device with fewer samples than a minibatch measures a smaller one, so the user is informed.
	if r.task.Task == 1 && update.Samples < uint64(r.subject.Batch()) {
		r.notice(fmt.Sprintf(
			"%s: the device has %d samples, and a minibatch is all of them.",
			r.subject.Name,
			update.Samples,
		))
	}
	if math.IsNaN(update.FirstStepLoss) {
		return 0, fmt.Errorf("calibrate: %s: its steps do not stay finite", r.subject.Name)
	}
	r.task.StepsDone += uint64(steps)
	return float64(update.ComputeNs) / 1e9, nil
}

// measureSteps measures tasks of one step and of many steps in turns, and fits a line to their
// times: its slope is the time of a step, and what remains is the overhead of a task. stop decides
// when there are enough rounds. k0 is the number of local steps with which the run that is to be predicted
// begins, 0 if it is not known: no task has more steps than k0 or, where k0 is smaller, minLongSteps. run
// does a task with the given number of steps and returns its seconds. subject names what is measured for
// people.
func measureSteps(stop stopping, k0 int, subject string, run func(steps int) (float64, error)) (c Compute, err error) {
	maxSteps := maxLongSteps
	if k0 > 0 {
		maxSteps = min(max(k0, minLongSteps), maxLongSteps)
	}
	// The first task is measured by itself, as it also fills caches and allocates memory.
	firstTaskSteps := min(max(k0, 1), maxLongSteps)
	firstTaskSeconds, err := run(firstTaskSteps)
	if err != nil {
		return c, err
	}
	// A task is a small part of the time that the measurement may take, so that there are several of them.
	taskSeconds := min(longTask, stop.seconds/10)
	c.Steps, err = chooseSteps(taskSeconds, maxSteps, run)
	if err != nil {
		return c, err
	}
	short := Group{Size: 1}
	long := Group{Size: float64(c.Steps)}
	// A round is one short and one long task, so that a change of speed meets both.
	round := func() error {
		shortSeconds, err := run(1)
		if err != nil {
			return err
		}
		longSeconds, err := run(c.Steps)
		short.Seconds = append(short.Seconds, shortSeconds)
		long.Seconds = append(long.Seconds, longSeconds)
		c.Seconds += shortSeconds + longSeconds
		return err
	}
	// The warm-up ends when the times no longer change. They are not part of the result.
	for c.WarmUp < warmUps && !isSteady(long.Seconds) && c.Seconds < max(stop.seconds, 5*taskSeconds) {
		if err := round(); err != nil {
			return c, err
		}
		c.WarmUp++
	}
	warmUpSeconds := c.Seconds
	short.Seconds = nil
	long.Seconds = nil
	// Rounds follow until the interval is narrow enough or the time is spent.
	width := math.Inf(1)
	for stop.needsRound(subject, len(long.Seconds), c.Seconds-warmUpSeconds, width) {
		if err := round(); err != nil {
			return c, err
		}
		width = fitLine(long, short).Main.RelativeHalfWidth()
	}
	c.settle(&short, &long, subject, stop.notice)
	line := fitLine(long, short)
	c.summarise(line, short)
	// What the first task took beyond the time that the line expects is its delay.
	expected := c.Overhead.Value + float64(firstTaskSteps)*c.SecondsPerStep.Value
	c.FirstTask = max(0, firstTaskSeconds-expected)
	if c.Noisy {
		stop.notice(fmt.Sprintf(
			"%s stays noisy: ±%.3g %% after %d tasks. Something else may be running on this device.",
			subject,
			100*line.Main.RelativeHalfWidth(),
			c.Tasks,
		))
	}
	return c, nil
}

// chooseSteps returns the number of steps of a task that takes about taskSeconds, at least minLongSteps and
// at most maxSteps. It runs tasks of 1, 2, 4, ... steps, none of more than maxSteps, until one takes a
// quarter of taskSeconds, and extrapolates. Of three measured times the shortest counts, as other programs
// only make them longer.
func chooseSteps(taskSeconds float64, maxSteps int, run func(steps int) (float64, error)) (int, error) {
	for steps := 1; ; steps = min(2*steps, maxSteps) {
		shortest := math.Inf(1)
		for range 3 {
			seconds, err := run(steps)
			if err != nil {
				return 0, err
			}
			shortest = min(shortest, seconds)
			// Repetitions cannot make it longer, so such a task is too short already.
			if shortest < taskSeconds/4 {
				break
			}
		}
		if shortest >= taskSeconds/4 || steps >= maxSteps {
			wanted := int(math.Ceil(taskSeconds / shortest * float64(steps)))
			return min(max(wanted, minLongSteps), maxSteps), nil
		}
	}
}

// isSteady reports whether the last three times differ by at most the share steady of their median.
// Fewer than three times are never steady.
func isSteady(times []float64) bool {
	if len(times) < 3 {
		return false
	}
	latest := times[len(times)-3:]
	return slices.Max(latest)-slices.Min(latest) <= steady*robust.Median(latest)
}

// settle compares the last quarter of the long tasks with the first, and stores the relative change
// as c.Drift. If they differ by more than noise explains and the change goes one way, the device
// slows down (heat) or was busy before: then only the last half of both groups is kept, and notice
// informs the user. subject names what is measured.
func (c *Compute) settle(short, long *Group, subject string, notice func(string)) {
	quarter := len(long.Seconds) / 4
	if quarter < 2 {
		return
	}
	first := robust.MedianOf(long.Seconds[:quarter], 0.95)
	latest := robust.MedianOf(long.latest(quarter).Seconds, 0.95)
	c.Drift = latest.Value/first.Value - 1
	// Intervals that overlap show no change.
	overlap := latest.Low <= first.High && first.Low <= latest.High
	if math.Abs(c.Drift) <= noDrift || overlap {
		return
	}
	// A change that turns back between the quarters is noise.
	before := first.Value
	for i := 1; i < 4; i++ {
		next := robust.Median(long.Seconds[i*quarter : (i+1)*quarter])
		fallsBack := c.Drift > 0 && next < before*(1-steady)
		risesAgain := c.Drift < 0 && next > before*(1+steady)
		if fallsBack || risesAgain {
			return
		}
		before = next
	}
	comparison := "longer"
	if c.Drift < 0 {
		comparison = "less"
	}
	notice(fmt.Sprintf(
		"%s: the last quarter took %.2g %% %s than the first; the class is that of the last half. "+
			"A longer --seconds shows whether it stays so.",
		subject,
		100*math.Abs(c.Drift),
		comparison,
	))
	// The last half is what the device does when it is warm.
	half := len(long.Seconds) / 2
	*short = short.latest(half)
	*long = long.latest(half)
	c.Settled = true
}

// summarise derives the numbers of the class from the line that was fitted to all tasks, and from the times of short,
// the tasks of one step. The simulator gives a task of K steps the relative variance v² + s²/K, where v is the
// relative standard deviation of the task's factor and s that of a step (step_cv), so tasks of one step and of many
// separate the two. c.Vary gets the factors of long tasks without what their steps explain, and without what tasks of
// the same time have in common (l.Blocks.Rest), which is the uncertainty of the class instead.
func (c *Compute) summarise(l Line, short Group) {
	c.SecondsPerStep = l.Slope
	c.Phase = l.phase()
	c.Tasks = len(l.Factors)
	k := float64(c.Steps)
	// A task of one step has the variance v² + s², one of k steps v² + s²/k. Their difference gives s²,
	// of which s²/k is at most the whole variance of a long task.
	shortDeviation := robust.Deviation(short.Seconds) / l.Slope.Value
	longDeviation := l.Scatter
	stepVariance := (shortDeviation*shortDeviation - longDeviation*longDeviation) / (1 - 1/k)
	stepVariance = min(max(0, stepVariance), k*longDeviation*longDeviation)
	c.StepCV = math.Sqrt(stepVariance)
	if c.StepCV < noSpread {
		c.StepCV = 0
		stepVariance = 0
	}
	// Of the scatter of long tasks the factors keep the part that is not due to steps.
	if longDeviation > 0 {
		taskDeviation := math.Sqrt(max(0, longDeviation*longDeviation-stepVariance/k))
		c.Vary = vary(shrink(l.Blocks.Rest, taskDeviation/longDeviation))
	}
}

// vary returns factors in the form in which a class lists them: widened for a small sample, and condensed
// to at most maxFactors values. It is nil if the factors are practically equal.
func vary(factors []float64) []float64 {
	if slices.Max(factors)-slices.Min(factors) < noDigit {
		return nil
	}
	return robust.Condense(robust.Widen(factors), maxFactors)
}
