package metric

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Metric names a quantity besides the loss.
type Metric struct {
	// Name identifies the metric in configurations and in the columns of results.
	Name string
	// Lower says that smaller values are better.
	Lower bool
}

// Names that have a meaning of their own.
const (
	// Loss is the name of the validation loss, which is no metric.
	Loss = "loss"
	// Accuracy is the share of samples whose label a classifier finds, 0 to 1.
	Accuracy = "accuracy"
)

// Find returns the place of the metric with this name in a list; -1 if it is not there.
func Find(list []Metric, name string) int {
	return slices.IndexFunc(list, func(m Metric) bool { return m.Name == name })
}

// Names lists the names of metrics.
func Names(list []Metric) (names []string) {
	for _, m := range list {
		names = append(names, m.Name)
	}
	return names
}

// Check returns an error for the first value that its metric cannot have. values holds one value
// for each metric of the list, in the same order.
func Check(list []Metric, values []float64) error {
	if len(values) != len(list) {
		return fmt.Errorf("%d values of %d metrics", len(values), len(list))
	}
	for i, v := range values {
		if err := list[i].Check(v); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error if v is not finite, or is an accuracy outside the range from 0 to 1.
func (m Metric) Check(v float64) error {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Errorf("%s is %v", m.Name, v)
	case m.Name == Accuracy && (v < 0 || v > 1):
		return fmt.Errorf("%s is %v, and is a share: want 0 to 1", m.Name, v)
	}
	return nil
}

// Quality is the quantity by which models are compared.
type Quality struct {
	Metric
	// Index is the place of the metric in the model's list, or -1 for the loss.
	Index int
}

// QualityOf returns the quantity of the given name: a metric of the list, or the loss. An empty
// name stands for the first metric, or for the loss if the list is empty. The loss has the index -1. A name that is
// neither a metric nor the loss is an error.
func QualityOf(list []Metric, name string) (Quality, error) {
	index := 0
	if name != "" {
		index = Find(list, name)
	}
	switch {
	case name == Loss, name == "" && len(list) == 0:
		return Quality{Metric{Loss, true}, -1}, nil
	case index < 0:
		return Quality{}, fmt.Errorf(
			"%q is not measured; the model has %s",
			name,
			strings.Join(append(Names(list), Loss), ", "),
		)
	}
	return Quality{list[index], index}, nil
}

// ValueIn returns the value of the quantity in an evaluation that gave this loss and these metrics.
// It is NaN if the quantity was not measured.
func (q Quality) ValueIn(loss float64, metrics []float64) float64 {
	if q.Index < 0 {
		return loss
	}
	return ValueAt(metrics, q.Index)
}

// ValueAt returns the value of the metric with index i; NaN if it was not measured.
func ValueAt(metrics []float64, i int) float64 {
	if i >= len(metrics) {
		return math.NaN()
	}
	return metrics[i]
}

// Better reports whether value a is better than value b. Any number is better than NaN, and NaN is not
// better than anything.
func (m Metric) Better(a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return !math.IsNaN(a)
	}
	if m.Lower {
		return a < b
	}
	return a > b
}

// Reaches reports whether v is at least as good as a target.
func (m Metric) Reaches(v, target float64) bool {
	return m.Lower && v <= target ||
		!m.Lower && v >= target
}

// Worsen returns the value that is worse than v by the given amount, which is not negative.
func (m Metric) Worsen(v, by float64) float64 {
	if m.Lower {
		return v + by
	}
	return v - by
}

// Error returns a number that falls as models get better: v itself where lower values are better, and
// 1 − v elsewhere, which for an accuracy is the share of samples that are classified wrongly.
func (m Metric) Error(v float64) float64 {
	if m.Lower {
		return v
	}
	return 1 - v
}

// Target is a value that a quantity is to reach.
type Target struct {
	Quality
	Value float64
}

// Reached returns the first of the targets that an evaluation with this loss and these metrics reaches; nil
// if it reaches none.
func Reached(targets []Target, loss float64, metrics []float64) *Target {
	for i := range targets {
		if t := &targets[i]; t.Reaches(t.ValueIn(loss, metrics), t.Value) {
			return t
		}
	}
	return nil
}

// AccuracyOf returns the accuracy among the values of metrics. found is false if it is not there.
func AccuracyOf(list []Metric, values []float64) (v float64, found bool) {
	if i := Find(list, Accuracy); i >= 0 && i < len(values) {
		return values[i], true
	}
	return 0, false
}

// ClientScore is what a model achieves on the samples of one client.
type ClientScore struct {
	// Client is the client's number in the population.
	Client int
	// Samples is the number of samples that were measured.
	Samples int
	// Loss is the mean loss of these samples.
	Loss float64
	// Metrics holds the value of each of the model's metrics. It is NaN where the samples do not
	// determine it.
	Metrics []float64
}

// Best returns the word for the best values so far: "lowest" or "highest".
func (m Metric) Best() string {
	if m.Lower {
		return "lowest"
	}
	return "highest"
}

// Shown returns the quantities that a run's results show, in their order: the one that
// models are compared by, then the other metrics.
func Shown(list []Metric, first Quality) []Quality {
	shown := []Quality{first}
	for i, m := range list {
		if i != first.Index {
			shown = append(shown, Quality{m, i})
		}
	}
	return shown
}

// Title returns what the metric with this name, or the loss, is called in tables and figures.
func Title(name string) string {
	if name == Loss {
		return "validation loss"
	}
	if title, ok := titles[name]; ok {
		return title
	}
	return strings.ReplaceAll(name, "_", " ")
}

// Direction returns the word for the direction in which a metric gets better: "lower" or
// "higher".
func (m Metric) Direction() string {
	if m.Lower {
		return Lower
	}
	return Higher
}

// The words for directions.
const (
	Lower  = "lower"
	Higher = "higher"
)

// titles are the titles of metrics that the field writes in other words or letters than those of their names.
var titles = map[string]string{
	"majority_share": "majority baseline",
	"f1_macro":       "F1 (macro)",
	"auroc":          "AUROC",
	"r2":             "R²",
}

// reserved are names that columns of results have already.
var reserved = []string{Loss, "round", "virtual_seconds", "each", "best"}

// maxName is the most characters of a name.
const maxName = 40

// CheckNames returns an error for the first metric whose name cannot be part of a column's name, belongs
// to another column, or occurs before in the list.
func CheckNames(list []Metric) error {
	for i, metric := range list {
		switch {
		case metric.Name == "" ||
			len(metric.Name) > maxName ||
			strings.Trim(metric.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "":
			return fmt.Errorf("metric %.60q is not 1 to %d letters, digits and _", metric.Name, maxName)
		case slices.Contains(reserved, metric.Name):
			return fmt.Errorf("a metric has the name %q, which results have already", metric.Name)
		case Find(list, metric.Name) < i:
			return fmt.Errorf("two metrics have the name %q", metric.Name)
		}
	}
	return nil
}

// Spread is the smallest, the mean and the largest of the clients' K in a round.
type Spread struct {
	// Tasks is the number of tasks that were added. The spread of a round is known if all of its
	// tasks were added.
	Tasks int
	// Smallest and Largest are the extremes of K, the local steps of a task.
	Smallest, Largest int
	// Sum is the sum of K over the tasks.
	Sum int64
}

// Add adds one more task, which takes this many local steps.
func (s *Spread) Add(steps int) {
	if s.Tasks == 0 || steps < s.Smallest {
		s.Smallest = steps
	}
	s.Largest = max(s.Largest, steps)
	s.Sum += int64(steps)
	s.Tasks++
}

// Mean returns the mean number of local steps of the tasks.
func (s Spread) Mean() float64 { return float64(s.Sum) / float64(s.Tasks) }

// Timetable says after which rounds of a run the model is measured. The zero value has none.
type Timetable struct {
	// Every is the number of rounds from one measurement to the next. With 0, round numbers lead to
	// no measurement.
	Every int
	// Rounds lists further rounds after which the model is measured, in any order.
	Rounds []int
	// Grid is the time from one instant of a grid to the next, in virtual nanoseconds: the
	// first round that ends at an instant or later is measured. 0: there is no grid.
	Grid int64
}

// Any reports whether the model is measured at all before the run ends.
func (t *Timetable) Any() bool { return t.Every > 0 || t.Grid > 0 || len(t.Rounds) > 0 }

// Due reports whether the model is measured after a round. end is the virtual time in
// nanoseconds at which the round ended, and before that at which the previous round ended,
// 0 for the first round. A round in which several instants of the timetable lie is measured
// once, since it makes one model.
func (t *Timetable) Due(round int, before, end int64) bool {
	return t.Every > 0 && round%t.Every == 0 ||
		slices.Contains(t.Rounds, round) ||
		t.Grid > 0 && end/t.Grid > before/t.Grid
}
