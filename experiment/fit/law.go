package fit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"fedpace/actors/clientmodel"
	"fedpace/internal/robust"
)

// confidence is that of all intervals.
const confidence = 0.9

// law is what the tasks of a device come to.
type law struct {
	overhead     clientmodel.Overhead
	download, up phase
	compute      phase
	atNoSteps    robust.Estimate // overhead of the local steps
	cv           float64
	first        clientmodel.Overhead // that the first task took besides
}

// phase is one phase of a device's tasks: megabits a second, or seconds a step.
type phase struct {
	typical robust.Estimate
	factors []float64 // of each task: what it took, without overhead, over what is typical
	// uncertainty is the relative deviation of what is typical in another run.
	uncertainty float64
}

// lawOf estimates a device's law from tasks. known is the overhead of the class which the
// device has. links says whether the transfers are measured.
func lawOf(tasks []task, known clientmodel.Overhead, bits clientmodel.Bits, links bool) (l law) {
	of := func(f func(*task) float64) []float64 {
		list := make([]float64, len(tasks))
		for i := range tasks {
			list[i] = f(&tasks[i])
		}
		return list
	}
	l.overhead = known
	if links {
		l.download = transfers(of(func(t *task) float64 { return t.download }), &l.overhead.Download, bits.Down)
		l.up = transfers(of(func(t *task) float64 { return t.upload }), &l.overhead.Upload, bits.Up)
	}
	steps, seconds := of(func(t *task) float64 { return float64(t.steps) }), of(func(t *task) float64 { return t.compute })
	var slope robust.Estimate
	l.atNoSteps, slope = overheadOfSteps(steps, seconds, known.Compute)
	l.overhead.Compute = l.atNoSteps.Value
	each := make([]float64, len(tasks))
	for i := range each {
		each[i] = (seconds[i] - l.overhead.Compute) / steps[i]
	}
	step := &l.compute.typical
	*step = robust.MedianOf(each, confidence)
	if slope.Value > 0 { // another overhead would go with another time of a step
		step.Low, step.High = min(step.Low, max(0, slope.Low)), max(step.High, slope.High)
	}
	for _, x := range each {
		l.compute.factors = append(l.compute.factors, max(0, x/step.Value))
	}
	for _, p := range []*phase{&l.download, &l.compute, &l.up} { // in the order of time
		p.uncertainty = short(min(1, robust.BlocksOf(p.factors).Next))
	}
	l.cv, l.compute.factors = scatterOfSteps(steps, l.compute.factors)
	balance(steps, l.compute.factors)
	return l
}

// besides is what the first task took besides what is typical.
func (l *law) besides(first *task, bits clientmodel.Bits, links bool) (o clientmodel.Overhead) {
	more := func(took, typical float64) float64 { return short(max(0, took-typical)) }
	o.Compute = more(first.compute, l.overhead.Compute+float64(first.steps)*l.compute.typical.Value)
	if links {
		o.Download = more(first.download, l.overhead.Download+float64(bits.Down)/1e6/l.download.typical.Value)
		o.Upload = more(first.upload, l.overhead.Upload+float64(bits.Up)/1e6/l.up.typical.Value)
	}
	return o
}

// balance scales factors so that all steps together take as long with their mean as they took:
// where few steps have other factors than many, the mean of the tasks' is not that.
func balance(steps, factors []float64) {
	if all := stat.Mean(factors, nil); all > 0 {
		for i, scale := 0, stat.Mean(factors, steps)/all; i < len(factors); i++ {
			factors[i] *= scale
		}
	}
}

// mostOverhead is the part of the shortest time that an overhead can have: less than all, so
// that there is a speed.
const mostOverhead = 0.9

// transfers is what transfers of so many bits come to besides an overhead, which is lowered
// where it is more than they took.
func transfers(seconds []float64, overhead *float64, bits int64) (p phase) {
	*overhead = min(*overhead, mostOverhead*slices.Min(seconds))
	speeds := make([]float64, len(seconds))
	for i, s := range seconds {
		speeds[i] = float64(bits) / 1e6 / (s - *overhead)
	}
	p.typical = robust.MedianOf(speeds, confidence)
	for _, v := range speeds {
		p.factors = append(p.factors, p.typical.Value/v)
	}
	return p
}

// overheadOfSteps is what local steps take however few they are: where the line through the
// tasks meets no steps, with the slope of robust.Slope. What the device's class has stays
// where the interval holds it. It stays, too, where the numbers of steps are too much alike
// to tell: then the slope is 0.
func overheadOfSteps(steps, seconds []float64, known float64) (overhead, slope robust.Estimate) {
	most := mostOverhead * slices.Min(seconds)
	known = min(known, most)
	stays := robust.Estimate{Value: known, Low: known, High: known}
	if slices.Max(steps) < 1.5*slices.Min(steps) {
		return stays, slope
	}
	slope, ok := robust.Slope(steps, seconds, confidence)
	if !ok {
		return stays, slope
	}
	at := func(slope float64) float64 {
		rest := make([]float64, len(steps))
		for i := range rest {
			rest[i] = seconds[i] - slope*steps[i]
		}
		return min(max(0, robust.Median(rest)), most)
	}
	overhead = robust.Estimate{Value: at(slope.Value), Low: at(slope.High), High: at(slope.Low)}
	if overhead.Low <= known && known <= overhead.High {
		overhead.Value = known
	}
	return overhead, slope
}

// scatterOfSteps tells apart how single steps scatter and how tasks do. The square of a
// task's deviation from the mean factor is v² + c²/K in the mean, c being the coefficient of
// variation of a step. The two are found by weighted least squares: the variance of each
// square is twice its mean squared, as for normal deviations, and those beyond three
// deviations count as three (Huber 1964, Robust estimation of a location parameter). c
// counts if it is more than two standard errors. Then each factor is left with the tasks'
// part of its deviation.
func scatterOfSteps(steps, factors []float64) (cv float64, rest []float64) {
	n := len(steps)
	if n < 10 || slices.Max(steps) < 2*slices.Min(steps) {
		return 0, factors
	}
	mean := stat.Mean(factors, nil)
	squares := make([]float64, n)
	for i, f := range factors {
		squares[i] = (f - mean) * (f - mean)
	}
	v, c, deviation := stat.Mean(squares, nil), 0.0, 0.0 // the squares of v and c, and how sure c's is
	if v == 0 {
		return 0, factors
	}
	for range 10 {
		var w0, w1, w2, y0, y1 float64 // sums of weights, times 1/K, times 1/K²; with the squares
		for i, k := range steps {
			fitted := v + c/k
			w := 1 / (2 * fitted * fitted)
			y := min(squares[i], 9*fitted)
			w0, w1, w2 = w0+w, w1+w/k, w2+w/k/k
			y0, y1 = y0+w*y, y1+w*y/k
		}
		det := w0*w2 - w1*w1
		v, c, deviation = (y0*w2-y1*w1)/det, (y1*w0-y0*w1)/det, math.Sqrt(w0/det)
		if v < 0 {
			v, c = 0, y1/w2
		}
		if c < 0 {
			return 0, factors
		}
	}
	if c <= 2*deviation {
		return 0, factors
	}
	rest = make([]float64, n)
	for i, k := range steps {
		rest[i] = max(0, mean+(factors[i]-mean)*math.Sqrt(v/(v+c/k)))
	}
	return math.Sqrt(c), rest
}

const (
	// mostFactors is how many values stand for the tasks in a class.
	mostFactors = 40
	// alike are factors that are no further apart.
	alike = 1e-4
)

// vary is the law by which tasks take more or less than what is typical: their factors, or of
// few tasks a lognormal law whose 90 % are those in which the next task lies, by Student's t.
// Either has the mean of the factors. A factor of a speed is one over that of a time. nil:
// nothing varies, or nothing is known of it.
func vary(factors []float64, speed bool) clientmodel.Distribution {
	n := len(factors)
	if n < 2 {
		return nil
	}
	mean := stat.Mean(factors, nil)
	if slices.Max(factors)-slices.Min(factors) < alike {
		if math.Abs(mean-1) < alike {
			return nil
		}
		if speed {
			mean = 1 / mean
		}
		return clientmodel.Constant{Value: short(mean)}
	}
	if n >= robust.Enough {
		values := robust.Condense(factors, mostFactors)
		for i, f := range values {
			if speed {
				f = 1 / f
			}
			values[i] = short(f)
		}
		slices.Sort(values)
		return clientmodel.Empirical{Values: values}
	}
	var logs []float64
	for _, f := range factors {
		logs = append(logs, math.Log(max(f, mean/100)))
	}
	next := math.Sqrt(1 + 1/float64(n))
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.5 + confidence/2)
	sigma := stat.StdDev(logs, nil) * next * t / distuv.UnitNormal.Quantile(0.5+confidence/2)
	if speed { // of which one over has the mean
		return clientmodel.Lognormal{Median: short(math.Exp(sigma*sigma/2) / mean), Sigma: short(sigma)}
	}
	return clientmodel.Lognormal{Mean: short(mean), Sigma: short(sigma)}
}
