package study

import (
	"fmt"
	"math"
	"slices"

	"fedpace/internal/portable"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// spans is the number of spans, over which values are averaged, in the time of the shortest run. A span
// is a length of virtual time, so that neither schedule.window nor the number of rounds makes a run
// look faster.
const spans = 20

// measured is what a comparison reads from the rounds of a run.
type measured struct {
	// Level is the level that the reference's runs reach at the cell's point. It is NaN if nothing
	// was learned.
	Level float64
	// TimeToLevel is the virtual second at which the mean over a span is at least as good as Level.
	// It is NaN if that never happens.
	TimeToLevel float64
	// Tail is the mean, over the last tenth of the virtual time, of the metric by which runs are
	// compared. It is NaN if it was not measured.
	Tail float64
	// TailLoss is the mean training loss of the rounds that close in the last tenth of the virtual
	// time.
	TailLoss float64

	// steps holds K_r of each round.
	steps []int
	// quality is the metric by which runs are compared.
	quality metric.Metric
	// timedMetric is the metric that must reach Level: quality, or trainingLoss if some run at the same point was
	// never evaluated.
	timedMetric metric.Metric
	// validations and losses collect the values over virtual time.
	validations, losses Tail
	// reference is the reference's run with the same seed at the same point. It is nil if there is
	// none, and for the reference itself.
	reference *Cell
	// controlled is the run that this run is the control of. It is nil if this run is no control.
	controlled *Cell
}

// measure reads the runs and sets what they are compared by: at each point of the grids (leaving out grids
// that choose a schedule) the level, the value of the metric that all runs are to reach, and for each run the
// time to that level and its partner, the run of the reference schedule with the same seed.
func (r *Comparison) measure() error {
	// points holds the cells of each point, which share a level, and pairs those cells of a point that
	// also share a seed, and with it their random draws.
	points := map[string][]*Cell{}
	pairs := map[string][]*Cell{}
	for i := range r.Runs {
		c := &r.Runs[i]
		if err := c.measureRounds(); err != nil {
			return err
		}
		// A run that diverged neither sets the level nor reaches it.
		if c.Diverged == "" {
			point := fmt.Sprint(c.Point)
			pair := fmt.Sprint(c.Config.Seed, point)
			points[point] = append(points[point], c)
			pairs[pair] = append(pairs[pair], c)
		}
	}
	// Levels are set first, because times are measured to them.
	for _, cells := range points {
		r.setLevel(cells)
	}
	for _, cells := range pairs {
		r.timeToLevels(cells)
	}
	return nil
}

// measureRounds reads the rounds of the cell's run from its folder and sets what is measured of it: the
// values of K, and the means of loss and quality over the run's end. A run that diverged has no
// values: all are NaN.
func (c *Cell) measureRounds() error {
	nan := math.NaN()
	c.measured = measured{
		Level:       nan,
		TimeToLevel: nan,
		Tail:        nan,
		TailLoss:    nan,
	}
	if c.Diverged != "" {
		return nil
	}
	run := c.Run()
	quality, err := run.Quality()
	if err != nil {
		return err
	}
	for r, err := range run.Follow() {
		if err != nil {
			return err
		}
		c.steps = append(c.steps, r.LocalSteps)
		// A training loss is that of a whole round, while a validation is of its end alone.
		c.losses.Add(r.Start.Seconds(), r.End.Seconds(), r.TrainingLoss)
		c.validations.Observe(r.End.Seconds(), r.Quality)
	}
	end := c.Summary.VirtualSeconds
	spacing := EveryRounds
	if c.Config.Evaluate.EverySeconds != 0 {
		spacing = EverySeconds
	}
	finalValue := metrics.Value(c.Summary.Metric(quality.Name).Validation)
	c.validations.End(end, finalValue, spacing)
	c.quality = quality.Metric
	c.timedMetric = quality.Metric
	c.Tail = c.validations.Mean(end)
	c.TailLoss = c.losses.Mean(end)
	return nil
}

// timedValues returns the values whose first crossing of the level is the run's time to the level: the metric
// by which runs are compared, or the training loss where a run at the same point was never evaluated.
func (c *Cell) timedValues() *Tail {
	if c.timedMetric == trainingLoss {
		return &c.losses
	}
	return &c.validations
}

// trainingLoss stands for the metric of runs that are timed by their training loss.
var trainingLoss = metric.Metric{Name: "training loss", Lower: true}

// setLevel sets the level that all runs at one point of the grids, cells, are to reach: a value of the metric by
// which runs are compared, to which their times are measured. It is evaluate.target. Without a target it follows
// from the runs of the reference schedule: the mean over each run's end, made worse by the standard deviation of
// the values in that mean, gives one value a run, of which the level is the worst, rounded to the easier side. So
// every run of the reference reaches the level in the end, and need not be lucky once. If a run was never
// evaluated, the level is one of the training loss, and the target does not count. It is NaN without a run of the
// reference.
func (r *Comparison) setLevel(cells []*Cell) {
	target := cells[0].Config.Evaluate.Target
	if slices.ContainsFunc(cells, func(c *Cell) bool { return math.IsNaN(c.Tail) }) {
		// A run was never evaluated, so all are timed by their training losses.
		for _, c := range cells {
			c.timedMetric = trainingLoss
		}
		target = nil
	}
	level := math.NaN()
	for _, c := range cells {
		// Only the reference's runs set the level.
		if c.Schedule != r.Reference {
			continue
		}
		end := c.Summary.VirtualSeconds
		ended := c.timedMetric.Worsen(c.timedValues().Mean(end), c.timedValues().noise(end))
		if math.IsNaN(level) || c.timedMetric.Better(level, ended) {
			level = ended
		}
	}
	level = roundToEasier(level, cells[0].timedMetric.Lower)
	// A target of the configuration takes precedence over what the reference reached.
	if target != nil {
		level = *target
	}
	for _, c := range cells {
		c.Level = level
	}
}

// roundToEasier rounds a level to four significant digits, so that it can be printed exactly. It
// rounds to the side that is easier to reach, which is up where lower values are better.
func roundToEasier(level float64, lowerIsBetter bool) float64 {
	if level == 0 {
		return level
	}
	// The unit is that of the fourth digit. max and min leave a level alone that rounding errors would make harder.
	unit := math.Pow10(portable.Decade(level) - 3)
	if lowerIsBetter {
		return max(level, math.Ceil(level/unit)*unit)
	}
	return min(level, math.Floor(level/unit)*unit)
}

// timeToLevels finds when each of the runs with one seed at one point reaches the level, and sets their
// partners: the reference's run and, for a control, the run that it controls.
func (r *Comparison) timeToLevels(cells []*Cell) {
	// The mean that must reach the level is one over a span of virtual time, a twentieth (1/spans) of the shortest
	// run, which is the same for all runs.
	span := math.Inf(1)
	var reference *Cell
	for _, c := range cells {
		span = min(span, c.Summary.VirtualSeconds/spans)
		if reference == nil && c.Schedule == r.Reference {
			reference = c
		}
	}
	for _, c := range cells {
		reachesLevel := func(mean float64) bool { return c.timedMetric.Reaches(mean, c.Level) }
		c.TimeToLevel = c.timedValues().firstReaching(span, reachesLevel)
		// The reference has no partner of its own.
		if c != reference {
			c.reference = reference
		}
		// A control is paired with the run of the same seed and grid values whose schedule it
		// changes.
		for _, candidate := range cells {
			hasItsSchedule := c.Control != "" && c.Schedule == candidate.Schedule+"-"+c.Control
			if hasItsSchedule && slices.Equal(c.Values, candidate.Values) {
				c.controlled = candidate
			}
		}
	}
}

// relativeSteps returns the run's sum of K_r over its rounds, divided by the sum that fixed K would have in the
// same virtual time. It is NaN if it is not known. Fixed K stands for the K_0 of the reference, the run of the
// reference schedule with the same seed, so that all runs that are compared have one measure.
func (c *Cell) relativeSteps() float64 {
	// The summary's value is relative to the run's own K_0. With another K_0 than the reference's, the steps of
	// both runs are compared instead.
	if r := c.reference; r != nil && c.Config.Schedule.K0 != r.Config.Schedule.K0 {
		return r.relativeSteps() * float64(c.Summary.SGDSteps) / float64(r.Summary.SGDSteps)
	}
	return metrics.Value(c.Summary.RelativeSGDSteps)
}

// minus is a quantity of the run less that of its partner. It is NaN without a partner.
func (c *Cell) minus(partner *Cell, quantity func(*Cell) float64) float64 {
	if partner == nil {
		return math.NaN()
	}
	return quantity(c) - quantity(partner)
}

// level is the level that runs of a comparison are to reach, if it is the same at all points of the grids, and
// else NaN. Runs without a level, such as those that diverged, are ignored.
func level(runs []Cell) float64 {
	level := math.NaN()
	for i := range runs {
		if c := &runs[i]; math.IsNaN(level) {
			level = c.Level
		} else if c.Level != level && !math.IsNaN(c.Level) {
			return math.NaN()
		}
	}
	return level
}

// levelName names for people the level of the metric whose time runs are compared by, such as
// "accuracy 0.7312". runs are the runs of one comparison; without a level it returns a general
// name.
func levelName(runs []Cell) string {
	value := level(runs)
	if math.IsNaN(value) {
		return "the level"
	}
	// A level follows from a run that did not diverge, so there is one.
	completed := slices.IndexFunc(runs, func(c Cell) bool { return c.Diverged == "" })
	return fmt.Sprintf("%s %.4g", metric.Title(runs[completed].timedMetric.Name), value)
}
