package study

import (
	"math"
	"slices"

	"fedpace/actors/measure"
	"fedpace/experiment/folder"
	"fedpace/metrics"
)

// quantity is a number that runs come to.
type quantity struct {
	name, title string
	of          func(*Cell) float64
}

// quantities are the columns of runs with these metrics, in their order.
func quantities(names []string) []quantity {
	list := []quantity{
		{"rounds", "rounds", func(c *Cell) float64 { return float64(c.Summary.Rounds) }},
		{"virtual_seconds", "virtual s", func(c *Cell) float64 { return c.Summary.VirtualSeconds }},
		{"relative_sgd_steps", "relative steps", func(c *Cell) float64 { return metrics.Value(c.Summary.RelativeSGDSteps) }},
		{"best_training_loss", "best loss", func(c *Cell) float64 { return metrics.Value(c.Summary.BestTrainingLoss) }},
	}
	for _, name := range names {
		list = append(list,
			quantity{"validation_" + name, measure.Title(name), func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Validation) }},
			quantity{"best_validation_" + name, "best " + measure.Title(name), func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Best) }})
	}
	list = append(list,
		quantity{"tail_validation_" + names[0], "tail " + measure.Title(names[0]), func(c *Cell) float64 { return c.Tail }},
		quantity{tailGain, "above fixed's", func(c *Cell) float64 { return c.TailGain }})
	return append(list, []quantity{
		{"seconds_to_fixed_best_loss", "s to fixed's best loss", func(c *Cell) float64 { return c.TimeToTarget }},
		{"client_sgd_steps", "clients' steps", func(c *Cell) float64 { return float64(c.Summary.ClientSteps.Useful + c.Summary.ClientSteps.Wasted) }},
		{"energy_joules", "energy J", func(c *Cell) float64 {
			if c.Summary.EnergyJoules == nil {
				return math.NaN()
			}
			return c.Summary.EnergyJoules.Useful + c.Summary.EnergyJoules.Wasted
		}},
		{"wasted_time_share", "wasted time", func(c *Cell) float64 { return c.Summary.ClientSeconds.WastedShare() }},
		{"straggler_share", "straggler share", func(c *Cell) float64 { return metrics.Value(c.Summary.StragglerShare) }},
	}...)
}

// tailGain is how much better runs end than K-eta-fixed with the same seed. One seed shows no
// more of it than the tails do.
const tailGain = "tail_gain_over_fixed"

// fairness are the columns of the last evaluation on the clients' own samples by these
// metrics; none where no cell has one.
func fairness(names []string, cells []Cell) (list []quantity) {
	if !slices.ContainsFunc(cells, func(c Cell) bool { return c.Summary.ClientEvaluation != nil }) {
		return nil
	}
	for _, name := range names {
		add := func(column, title string, of func(folder.MetricFairness) *float64) {
			list = append(list, quantity{column + name, title, func(c *Cell) float64 {
				if c.Summary.ClientEvaluation == nil {
					return math.NaN()
				}
				return metrics.Value(of(c.Summary.ClientEvaluation.Of(name)))
			}})
		}
		what := "clients' " + name
		add("mean_", what, func(f folder.MetricFairness) *float64 { return f.Mean })
		add("worst_decile_", what+", worst tenth", func(f folder.MetricFairness) *float64 { return f.Worst })
		if name != measure.Loss {
			add("jain_", what+", Jain's index", func(f folder.MetricFairness) *float64 { return f.Jain })
		}
	}
	return list
}

// shownBest names the quantities of which a comparison shows the best values: what
// runs are compared by, then their other metrics.
func shownBest(runs []Cell) (names []string) {
	for i := range runs {
		for _, m := range runs[i].Summary.Shown() {
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}
