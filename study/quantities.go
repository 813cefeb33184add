package study

import (
	"math"
	"slices"

	"fedpace/experiment/folder"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// quantity is a number that describes how a run ended or what it cost.
type quantity struct {
	// name identifies the quantity in files; title heads its column for people.
	name, title string
	value       func(*Cell) float64
	// positiveWord and negativeWord say what a positive and a negative difference is called. They are empty if runs
	// are not compared by the quantity.
	positiveWord, negativeWord string
	// cost marks a quantity that tells what the run took. Tables for people have these columns
	// last.
	cost bool
	// swapsWords says that the two words change places where lower values of the compared metric are
	// better.
	swapsWords bool
}

// toLevel is the name of the quantity: virtual seconds until a run is as good as the reference ends.
const toLevel = "seconds_to_level"

// tailQuantity begins the name of the quantity by which runs are compared first: the mean of a validation
// metric over the last tenth of the virtual time. The metric's name follows.
const tailQuantity = "tail_validation_"

// quantities returns the columns of runs that are measured by the metrics with these names, in their order.
// Runs are compared by the first of them, so names must not be empty.
func quantities(names []string) []quantity {
	list := []quantity{
		{name: "rounds", cost: true, title: "rounds",
			value: func(c *Cell) float64 { return float64(c.Summary.Rounds) }},
		{
			name:  "virtual_seconds",
			cost:  true,
			title: "virtual s",
			value: func(c *Cell) float64 { return c.Summary.VirtualSeconds },
		},
		{name: "relative_sgd_steps", cost: true, title: "relative", value: (*Cell).relativeSteps},
		{name: "tail_training_loss", title: "training loss", value: func(c *Cell) float64 { return c.TailLoss }},
	}
	// Each metric has two columns here: the value of the final model, and the best value of any round.
	for _, name := range names {
		bestTitle := "best " + metric.Title(name)
		// A baseline is the same in every round: its best value is in the file alone.
		if metric.Constant(name) {
			bestTitle = ""
		}
		list = append(list,
			quantity{
				name:  "validation_" + name,
				title: metric.Title(name),
				value: func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Validation) },
			},
			quantity{
				name:  "best_validation_" + name,
				title: bestTitle,
				value: func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Best) },
			})
	}
	// Runs are compared by the mean over their end, because best values are favoured by chance.
	tail := func(c *Cell) float64 { return c.Tail }
	return append(list, []quantity{
		{
			name:         tailQuantity + names[0],
			title:        "tail " + metric.Title(names[0]),
			value:        tail,
			positiveWord: "better",
			negativeWord: "worse",
			swapsWords:   true,
		},
		{name: "tail_gain_over_fixed", value: func(c *Cell) float64 { return c.minus(c.reference, tail) }},
		{name: "level", value: func(c *Cell) float64 { return c.Level }},
		{
			name:         toLevel,
			title:        "s to the level",
			value:        func(c *Cell) float64 { return c.TimeToLevel },
			positiveWord: "later",
			negativeWord: "sooner",
		},
		{
			name:  "client_sgd_steps",
			cost:  true,
			title: "clients' steps",
			value: func(c *Cell) float64 { return c.Summary.ClientSteps.All() },
		},
		{
			name:  "energy_joules",
			cost:  true,
			title: "energy J",
			value: func(c *Cell) float64 { return c.Summary.EnergyJoules.All() },
		},
		{
			name:  "wasted_time_share",
			cost:  true,
			title: "wasted time",
			value: func(c *Cell) float64 { return c.Summary.ClientSeconds.WastedShare() },
		},
		{
			name:  "straggler_share",
			cost:  true,
			title: "straggler share",
			value: func(c *Cell) float64 { return metrics.Value(c.Summary.StragglerShare) },
		},
	}...)
}

// fairness are the columns of the last evaluation on the clients' own samples, for these metrics. There
// are none if no cell has such an evaluation.
func fairness(names []string, cells []Cell) (list []quantity) {
	// Without such an evaluation the columns would be empty in all rows.
	if !slices.ContainsFunc(cells, func(c Cell) bool { return c.Summary.ClientEvaluation != nil }) {
		return nil
	}
	for _, name := range names {
		add := func(prefix, title string, value func(folder.MetricFairness) *float64) {
			list = append(list, quantity{name: prefix + name, title: title, value: func(c *Cell) float64 {
				// Only some of the runs may have evaluated clients.
				if c.Summary.ClientEvaluation == nil {
					return math.NaN()
				}
				return metrics.Value(value(c.Summary.ClientEvaluation.ByMetric(name)))
			}})
		}
		clientMetric := "clients' " + name
		add("mean_", clientMetric, func(f folder.MetricFairness) *float64 { return f.Mean })
		add("worst_decile_", clientMetric+", worst tenth", func(f folder.MetricFairness) *float64 { return f.Worst })
		// Jain's index is a measure of how evenly a quantity is shared, which says little of a
		// loss.
		if name != metric.Loss {
			add("jain_", clientMetric+", Jain's index", func(f folder.MetricFairness) *float64 { return f.Jain })
		}
	}
	return list
}

// emissions are the columns of what the clients' energy emits and costs by a trace of the electrical
// grid. There are none if no cell has such a trace.
func emissions(cells []Cell) (list []quantity) {
	add := func(name, title string, value func(*folder.Summary) *float64) {
		// Without a trace, or without prices in it, the column would be empty in all rows.
		if !slices.ContainsFunc(cells, func(c Cell) bool { return value(&c.Summary) != nil }) {
			return
		}
		list = append(list, quantity{
			name:  name,
			cost:  true,
			title: title,
			value: func(c *Cell) float64 { return metrics.Value(value(&c.Summary)) },
		})
	}
	add("carbon_grams", "CO2 g", func(s *folder.Summary) *float64 { return s.CarbonGrams })
	add("energy_cost", "cost of energy", func(s *folder.Summary) *float64 { return s.EnergyCost })
	return list
}

// optionalQuantities are the columns that a comparison of these cells has besides those of all
// comparisons: by client, for these metrics, and of emissions.
func optionalQuantities(names []string, cells []Cell) []quantity {
	return append(fairness(names, cells), emissions(cells)...)
}

// metricNames names the metrics of which a comparison shows the best values: first that by which runs are
// compared.
func metricNames(runs []Cell) (names []string) {
	for i := range runs {
		// The metrics of a summary are in order, first the one by which models are compared.
		for _, m := range runs[i].Summary.Metrics {
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}
