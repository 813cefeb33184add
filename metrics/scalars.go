package metrics

import (
	"iter"
	"math"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
)

// Scalars yields the values of a round under the names that dashboards of experiments group them
// by, as in loss/training. They are those of rounds.csv: times in virtual seconds, steps in local
// SGD steps. What was not measured is left out.
func (r *Run) Scalars(report *round.Report) iter.Seq2[string, float64] {
	type scalar struct {
		name  string
		value float64
	}
	list := []scalar{
		{"loss/training", report.TrainingLoss},
		{"schedule/local_steps", float64(report.LocalSteps)},
		{"schedule/learning_rate", report.LearningRate},
		{"schedule/sgd_steps", float64(report.SGDSteps)},
		{"time/virtual_seconds", report.End.Seconds()},
		{"time/round_seconds", (report.End - report.Start).Seconds()},
	}
	for o, n := range report.Outcomes {
		list = append(list, scalar{"tasks/" + round.Outcome(o).String(), float64(n)})
	}
	if report.Evaluated {
		list = append(list, scalar{"loss/validation", report.ValidationLoss})
		for i, m := range r.Metrics {
			list = append(list, scalar{m.Name + "/validation", measure.At(report.Metrics, i)})
		}
	}
	return func(yield func(string, float64) bool) {
		for _, s := range list {
			if !math.IsNaN(s.value) && !yield(s.name, s.value) {
				return
			}
		}
	}
}
