package fit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"fedpace/actors/fleet"
	"fedpace/internal/robust"
)

// confidence is the level of all intervals.
const confidence = 0.9

// timeModel says how long a device's tasks take.
type timeModel struct {
	phases [phases]phase
	// stepOverhead is the overhead of computing in seconds, with its interval.
	stepOverhead robust.Estimate
	// stepCV is the coefficient of variation of the time of a local step.
	stepCV float64
}

// phase is what was fitted of one phase of a device's tasks: download, compute or upload.
type phase struct {
	// typical is the median over the tasks of what speed returns: megabits in a second of a transfer, but seconds for
	// a step of computing. It is 0 if the phase was not measured.
	typical robust.Estimate
	// overhead is the part in seconds that depends on neither size nor steps.
	overhead float64
	// firstExtra is by how many seconds the device's first task took longer than is typical.
	firstExtra float64
	// factors holds, for each task, the time that it took divided by the typical time, both without overhead.
	factors []float64
	// uncertainty is the relative deviation of the typical speed in another run.
	uncertainty float64
}

// megabits is the size in megabits of the transfer in phase p: the model's for a download, and the update's for an
// upload. p is not the phase of computing, which transfers nothing.
func megabits(b fleet.Bits, p int) float64 {
	if p == download {
		return float64(b.Down) / 1e6
	}
	return float64(b.Up) / 1e6
}

// typicalSeconds is how long phase p of the task x typically takes, without overhead. b has the sizes of the
// transfers.
func (l *timeModel) typicalSeconds(x *task, p int, b fleet.Bits) float64 {
	if p == compute {
		secondsPerStep := l.phases[p].typical.Value
		return float64(x.steps) * secondsPerStep
	}
	megabitsPerSecond := l.phases[p].typical.Value
	return megabits(b, p) / megabitsPerSecond
}

// factor is the time that phase p of the task x took divided by the typical time, both without overhead. It
// may be below 0 for a task that took less than the overhead.
func (l *timeModel) factor(x *task, p int, b fleet.Bits) float64 {
	return (x.took[p] - l.phases[p].overhead) / l.typicalSeconds(x, p, b)
}

// speed is the speed of phase p of the task x, without overhead: in seconds for a step of computing, and in megabits a
// second for a transfer. b has the sizes of the transfers.
func (l *timeModel) speed(x *task, p int, b fleet.Bits) float64 {
	seconds := x.took[p] - l.phases[p].overhead
	if p == compute {
		return seconds / float64(x.steps)
	}
	return megabits(b, p) / seconds
}

// measuredPhases lists the phases that a run measures: all or, if links is false, computing alone.
func measuredPhases(links bool) []int {
	if links {
		return []int{download, compute, upload}
	}
	return []int{compute}
}

// fitTimeModel estimates from a device's tasks how long a task takes: for each phase an overhead, a
// typical speed and the factors by which single tasks differ from it. classOverhead is the overhead
// of the device's class, which is kept where the tasks cannot tell. b holds the sizes of the
// messages in bits. links says whether transfers were measured; if not, their phases stay empty.
func fitTimeModel(tasks []task, classOverhead fleet.Overhead, b fleet.Bits, links bool) (l timeModel) {
	steps := make([]float64, len(tasks))
	seconds := [phases][]float64{}
	for i := range tasks {
		steps[i] = float64(tasks[i].steps)
		for p, took := range tasks[i].took {
			seconds[p] = append(seconds[p], took)
		}
	}
	for p, overhead := range classOverhead.Phases() {
		l.phases[p].overhead = *overhead
	}
	var slope robust.Estimate
	l.stepOverhead, slope = overheadOfSteps(steps, seconds[compute], classOverhead.Compute)
	l.phases[compute].overhead = l.stepOverhead.Value
	for _, p := range measuredPhases(links) {
		fitted := &l.phases[p]
		// The class's overhead is lowered where it leaves too little of the shortest transfer.
		if p != compute {
			fitted.overhead = min(fitted.overhead, maxOverhead*slices.Min(seconds[p]))
		}
		speeds := make([]float64, len(tasks))
		for i := range tasks {
			speeds[i] = l.speed(&tasks[i], p, b)
		}
		fitted.typical = robust.MedianOf(speeds, confidence)
		for i := range tasks {
			fitted.factors = append(fitted.factors, max(0, l.factor(&tasks[i], p, b)))
		}
		// How far the mean of a next run of tasks may lie from these, as tasks near in time resemble each other.
		fitted.uncertainty = fiveDigits(min(1, robust.BlocksOf(fitted.factors).Next))
	}
	computing := &l.phases[compute]
	// The same tasks fit a longer overhead with shorter steps, and the other way. The interval of a step's time is
	// therefore widened to that of the slope, the seconds by which one more step lengthens a task.
	if slope.Value > 0 {
		secondsPerStep := &computing.typical
		secondsPerStep.Low = min(secondsPerStep.Low, max(0, slope.Low))
		secondsPerStep.High = max(secondsPerStep.High, slope.High)
	}
	// A task's factor is split into what varies from step to step, stepCV, and what all of its steps share.
	l.stepCV, computing.factors = scatterOfSteps(steps, computing.factors)
	balance(steps, computing.factors)
	return l
}

// setFirstTask sets by how many seconds longer than typical each phase of the device's first task took, 0 if it
// did not. first is that task, and b holds the sizes of the messages in bits. links says whether transfers were
// measured; if not, only computing is set.
func (l *timeModel) setFirstTask(first *task, b fleet.Bits, links bool) {
	for _, p := range measuredPhases(links) {
		fitted := &l.phases[p]
		extraSeconds := first.took[p] - fitted.overhead - l.typicalSeconds(first, p, b)
		fitted.firstExtra = fiveDigits(max(0, extraSeconds))
	}
}

// balance scales factors so that their mean over the tasks is their mean over all steps. With that mean all
// steps together take as long as they took. The two means differ where tasks with few steps have other
// factors than tasks with many. steps and factors have an entry for each task.
func balance(steps, factors []float64) {
	mean := stat.Mean(factors, nil)
	if !(mean > 0) {
		return
	}
	scale := stat.Mean(factors, steps) / mean
	for i := range factors {
		factors[i] *= scale
	}
}

// maxOverhead is the largest share of the shortest time that an overhead can have. It is less than 1, so
// that time is left to which a speed belongs.
const maxOverhead = 0.9

// overheadOfSteps returns the overhead of computing, the seconds that a task takes beside its steps, and the seconds
// for a step, each with its interval. It fits a robust line through the tasks and takes its value at no steps.
// steps and seconds have an entry for each task. The overhead of the class is kept if the interval
// contains it, or if the numbers of steps are too much alike to tell; the slope is 0 in the latter
// case.
func overheadOfSteps(steps, seconds []float64, classOverhead float64) (overhead, slope robust.Estimate) {
	limit := maxOverhead * slices.Min(seconds)
	classOverhead = min(classOverhead, limit)
	// The class's overhead with an interval of no width.
	unchanged := robust.Estimate{Value: classOverhead, Low: classOverhead, High: classOverhead}
	if slices.Max(steps) < 1.5*slices.Min(steps) {
		return unchanged, slope
	}
	slope, ok := robust.Slope(steps, seconds, confidence)
	if !ok {
		return unchanged, slope
	}
	// intercept is the value at no steps of a line with this slope, from 0 to limit. A steeper line has a lower one.
	intercept := func(slope, limit float64) float64 {
		residuals := make([]float64, len(steps))
		for i := range residuals {
			residuals[i] = seconds[i] - slope*steps[i]
		}
		return min(max(0, robust.Median(residuals)), limit)
	}
	// The upper end of the interval may be as long as the shortest task, of which the steps would take nothing.
	overhead = robust.Estimate{
		Value: intercept(slope.Value, limit),
		Low:   intercept(slope.High, limit),
		High:  intercept(slope.Low, slices.Min(seconds)),
	}
	if overhead.Low <= classOverhead && classOverhead <= overhead.High {
		overhead.Value = classOverhead
	}
	return overhead, slope
}

// scatterOfSteps separates the scatter of single steps from that of whole tasks. steps and factors have an entry for
// each task: its number of steps K, and its computing time divided by the typical time of K steps. The square of a
// task's deviation from the mean factor is in the mean v² + c²/K, where c is the coefficient of variation of a step.
// Both are found by weighted least squares: the variance of each square is twice its mean squared, as for normal
// deviations, and squares beyond three deviations count as three (Huber 1964, Robust estimation of a location
// parameter). It returns c, and the factors without the part of the steps. c is 0, and the factors stay, if c is not
// more than two standard errors above 0.
func scatterOfSteps(steps, factors []float64) (stepCV float64, taskFactors []float64) {
	n := len(steps)
	// Few tasks, or tasks of about as many steps each, cannot tell v from c.
	if n < 10 || slices.Max(steps) < 2*slices.Min(steps) {
		return 0, factors
	}
	mean := stat.Mean(factors, nil)
	squares := make([]float64, n)
	for i, f := range factors {
		squares[i] = (f - mean) * (f - mean)
	}
	// These are the estimates of v² and c², and the standard error of that of c².
	taskVariance := stat.Mean(squares, nil)
	stepVariance := 0.0
	standardError := 0.0
	if taskVariance == 0 {
		return 0, factors
	}
	for range 10 {
		// The line y = v² + c²·(1/K) is fitted by its normal equations. w0, w1 and w2 are sums of the weights w, of
		// w/K and of w/K²; y0 and y1 are sums of w·y and w·y/K.
		var w0, w1, w2, y0, y1 float64
		for i, k := range steps {
			fitted := taskVariance + stepVariance/k
			w := 1 / (2 * fitted * fitted)
			y := min(squares[i], 9*fitted)
			w0 = w0 + w
			w1 = w1 + w/k
			w2 = w2 + w/k/k
			y0 = y0 + w*y
			y1 = y1 + w*y/k
		}
		determinant := w0*w2 - w1*w1
		taskVariance = (y0*w2 - y1*w1) / determinant
		stepVariance = (y1*w0 - y0*w1) / determinant
		standardError = math.Sqrt(w0 / determinant)
		// A square cannot be below 0. With v = 0 the line goes through the origin.
		if taskVariance < 0 {
			taskVariance = 0
			stepVariance = y1 / w2
		}
		if stepVariance < 0 {
			return 0, factors
		}
	}
	if stepVariance <= 2*standardError {
		return 0, factors
	}
	taskFactors = make([]float64, n)
	for i, k := range steps {
		taskShare := taskVariance / (taskVariance + stepVariance/k)
		taskFactors[i] = max(0, mean+(factors[i]-mean)*math.Sqrt(taskShare))
	}
	return math.Sqrt(stepVariance), taskFactors
}

const (
	// maxFactors bounds the values that stand for the factors of the tasks in a class.
	maxFactors = 40
	// equalTolerance is the distance below which factors count as equal.
	equalTolerance = 1e-4
)

// variation returns the distribution of factors, by which the times of tasks differ from the typical time; nil if
// they do not differ or nothing is known. With at least [robust.Enough] tasks it is the factors themselves. With fewer
// it is a lognormal distribution whose middle 90 % hold the factor of the next task, by Student's t. Both
// have the mean of the factors. With isSpeed the distribution is one of a speed instead: its values are one over
// the factors.
func variation(factors []float64, isSpeed bool) fleet.Distribution {
	n := len(factors)
	if n < 2 {
		return nil
	}
	mean := stat.Mean(factors, nil)
	if slices.Max(factors)-slices.Min(factors) < equalTolerance {
		if math.Abs(mean-1) < equalTolerance {
			return nil
		}
		if isSpeed {
			mean = 1 / mean
		}
		return fleet.Constant{Value: fiveDigits(mean)}
	}
	if n >= robust.Enough {
		values := empiricalOf(robust.Condense(factors, maxFactors), isSpeed)
		slices.Sort(values.Values)
		return values
	}
	var logs []float64
	// A factor may be 0, which has no logarithm.
	for _, f := range factors {
		logs = append(logs, math.Log(max(f, mean/100)))
	}
	// With 90 % the next task's logarithm is within t times the root of 1 + 1/n standard deviations of the mean. The
	// lognormal distribution gets the sigma with which its own middle is as wide.
	spreadOfNext := math.Sqrt(1 + 1/float64(n))
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.5 + confidence/2)
	sigma := stat.StdDev(logs, nil) * spreadOfNext * t / distuv.UnitNormal.Quantile(0.5+confidence/2)
	// One over the speed has the mean of the factors: e^(sigma²/2) over the speed's median.
	if isSpeed {
		return fleet.Lognormal{Median: fiveDigits(math.Exp(sigma*sigma/2) / mean), Sigma: fiveDigits(sigma)}
	}
	return fleet.Lognormal{Mean: fiveDigits(mean), Sigma: fiveDigits(sigma)}
}

// empiricalOf returns the factors as an empirical distribution that keeps their order. If isSpeed is set, the
// distribution is one of a speed, and each value is one over the factor.
func empiricalOf(factors []float64, isSpeed bool) fleet.Empirical {
	values := slices.Clone(factors)
	for i, x := range values {
		if isSpeed {
			x = 1 / x
		}
		values[i] = fiveDigits(x)
	}
	return fleet.Empirical{Values: values}
}
