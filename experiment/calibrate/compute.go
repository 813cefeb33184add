package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/internal/robust"
	"fedpace/internal/tasks"
)

// Compute is how long local steps take.
type Compute struct {
	Task   tasks.Task `json:"task"`   // custom: of a model of one's own
	Model  string     `json:"model"`  // as learn.Parse reads it
	Batch  int        `json:"batch"`  // samples of a minibatch
	Kernel string     `json:"kernel"` // instructions, or the class of an external trainer

	SecondsPerStep robust.Estimate `json:"seconds_per_step"`
	Overhead       robust.Estimate `json:"overhead_seconds"` // of a task, besides its steps
	StepCV         float64         `json:"step_cv"`          // deviation of a step's time over its mean
	Vary           []float64       `json:"vary"`             // factors on a step's time, by task; nil: none
	Scatter        float64         `json:"scatter"`          // deviation of a long task's time over its mean

	Tasks   int     `json:"tasks"`   // of Steps steps that were measured, and as many of one
	Steps   int     `json:"steps"`   // of a long task
	WarmUp  int     `json:"warm_up"` // pairs of tasks before them that do not count
	Seconds float64 `json:"seconds"` // that all of it took
	Drift   float64 `json:"drift"`   // last quarter over the first, less one
	Settled bool    `json:"settled"` // the first half was left out because of it
	Noisy   bool    `json:"noisy"`   // the interval is wide, and stays so

	PaperSeconds float64 `json:"paper_seconds_per_step,omitempty"` // Table 2; 0: not of the paper
	PaperStd     float64 `json:"paper_std_seconds,omitempty"`
}

const (
	// longTask is how long the tasks of many steps are to take, or a tenth of the time
	// there is, and how many they may have.
	longTask  = 0.2 // s
	leastLong = 4
	mostLong  = 4096

	warmUps  = 10   // at most
	steady   = 0.03 // extent of three times that are alike, relative to their middle
	noDrift  = 0.05
	noSpread = 0.002 // a deviation that a class need not have

	rate = 1e-4 // of learning: 0 would be as quick, and this one keeps every model finite
)

// MeasureCompute measures a subject's local steps for so many seconds, longer where they
// are noisy. say is told what a user should know; it may be nil.
func MeasureCompute(ctx context.Context, of *Subject, seconds float64, say func(string)) (c Compute, err error) {
	if say == nil {
		say = func(string) {}
	}
	device, err := real.Open(of.device(say))
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	if err = device.Prepare(ctx, Run, of.welcome); err != nil {
		return c, err
	}
	params, err := device.Initial(ctx, 1)
	if err != nil {
		return c, err
	}
	task := &bus.Task{LearningRate: rate}
	c, err = measureSteps(seconds, say, of.Name, func(steps int) (float64, error) {
		task.Task, task.LocalSteps = task.Task+1, uint32(steps)
		u, err := device.Compute(ctx, params, task)
		if err != nil {
			return 0, err
		}
		if task.Task == 1 && u.Samples < uint64(of.Batch()) {
			say(fmt.Sprintf("%s: the device has %d samples, and a minibatch is all of them.", of.Name, u.Samples))
		}
		if math.IsNaN(u.FirstStepLoss) {
			return 0, fmt.Errorf("calibrate: %s: its steps do not stay finite", of.Name)
		}
		task.StepsDone += uint64(steps)
		return float64(u.ComputeNs) / 1e9, nil
	})
	c.Task, c.Model, c.Batch, c.Kernel = of.Task, device.Model().String(), of.Batch(), device.Arithmetic()
	if row, ok := of.Task.Paper(); ok && c.Batch == row.Batch && c.Model == row.Architecture {
		c.PaperSeconds, c.PaperStd = row.SecondsPerStep, row.StdPerStep
	}
	return c, err
}

// measureSteps measures tasks of one step and of many in turns. run does a task of so many
// steps and returns how long that took.
func measureSteps(seconds float64, say func(string), what string, run func(steps int) (float64, error)) (c Compute, err error) {
	length := min(longTask, seconds/10)
	if c.Steps, err = chooseSteps(length, run); err != nil {
		return c, err
	}
	one, long := Group{Size: 1}, Group{Size: float64(c.Steps)}
	round := func() error {
		a, err := run(1)
		if err != nil {
			return err
		}
		b, err := run(c.Steps)
		one.Seconds, long.Seconds = append(one.Seconds, a), append(long.Seconds, b)
		c.Seconds += a + b
		return err
	}
	for c.WarmUp < warmUps && !isSteady(long.Seconds) && c.Seconds < max(seconds, 5*length) {
		if err := round(); err != nil {
			return c, err
		}
		c.WarmUp++
	}
	warmed := c.Seconds
	one.Seconds, long.Seconds = nil, nil
	e := effort{seconds: seconds, say: say}
	for width := math.Inf(1); e.more(what, len(long.Seconds), c.Seconds-warmed, width); width = fit(long, one).Main.Width() {
		if err := round(); err != nil {
			return c, err
		}
	}
	c.settle(&one, &long, what, say)
	c.summarise(fit(long, one), one)
	if c.Noisy = c.Tasks < leastRounds || fit(long, one).Main.Width() > Narrow; c.Noisy {
		say(fmt.Sprintf("%s stays noisy: ±%.3g %% after %d tasks. Something else may be running on this device.", what, 100*fit(long, one).Main.Width(), c.Tasks))
	}
	return c, nil
}

// chooseSteps finds how many steps a task of such a length has. The shortest of three times
// counts: whatever else runs makes them longer.
func chooseSteps(length float64, run func(steps int) (float64, error)) (int, error) {
	for steps := 1; ; steps *= 2 {
		took := math.Inf(1)
		for range 3 {
			t, err := run(steps)
			if err != nil {
				return 0, err
			}
			if took = min(took, t); took < length/4 {
				break
			}
		}
		if took >= length/4 || steps >= mostLong {
			return min(max(int(math.Ceil(length/took*float64(steps))), leastLong), mostLong), nil
		}
	}
}

// isSteady reports whether the last three times are alike.
func isSteady(times []float64) bool {
	if len(times) < 3 {
		return false
	}
	last := times[len(times)-3:]
	return slices.Max(last)-slices.Min(last) <= steady*robust.Median(last)
}

// settle compares the last quarter with the first. Where they differ by more than noise
// would explain, the device slows down as it goes on (heat), or has been busy: its last
// half is what lasts.
func (c *Compute) settle(one, long *Group, what string, say func(string)) {
	quarter := len(long.Seconds) / 4
	if quarter < 2 {
		return
	}
	first, last := robust.MedianOf(long.Seconds[:quarter], 0.95), robust.MedianOf(long.last(quarter).Seconds, 0.95)
	c.Drift = last.Value/first.Value - 1
	if math.Abs(c.Drift) <= noDrift || last.Low <= first.High && first.Low <= last.High {
		return
	}
	how := "longer"
	if c.Drift < 0 {
		how = "less"
	}
	say(fmt.Sprintf("%s: the last quarter took %.2g %% %s than the first; the class is that of the last half. A longer --seconds shows whether it stays so.", what, 100*math.Abs(c.Drift), how))
	half := len(long.Seconds) / 2
	*one, *long, c.Settled = one.last(half), long.last(half), true
}

// summarise makes the class's numbers of a fitted line and of the tasks of one step.
//
// The simulator gives a task of K steps the relative variance v² + s²/K: v² is that of the
// factor of the task, s that of a step (step_cv). So tasks of one step and of many tell
// them apart. What the steps explain is taken off the factors.
func (c *Compute) summarise(l Line, one Group) {
	c.SecondsPerStep, c.Overhead, c.Scatter, c.Tasks = l.Slope, l.Overhead, l.Scatter, len(l.Factors)
	k := float64(c.Steps)
	short := robust.Deviation(one.Seconds) / l.Slope.Value
	long := l.Scatter
	steps := min(max(0, (short*short-long*long)/(1-1/k)), k*long*long)
	if c.StepCV = math.Sqrt(steps); c.StepCV < noSpread {
		c.StepCV, steps = 0, 0
	}
	if long > 0 {
		left := math.Sqrt(max(0, long*long-steps/k)) / long
		c.Vary = vary(shrink(l.Factors, left))
	}
}

// vary is factors as a class has them; nil where they say nothing.
func vary(factors []float64) []float64 {
	if slices.Max(factors)-slices.Min(factors) < noSpread {
		return nil
	}
	return robust.Condense(factors, most)
}
