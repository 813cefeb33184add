package metrics

import (
	"math"
	"slices"

	"fedpace/learn/metric"
)

// Fairness is how evenly a model serves the clients. Every client has the same weight, however many
// samples it has.
type Fairness struct {
	// Clients is the number of evaluated clients.
	Clients int
	// Metrics holds the fairness of each metric of the run, in the order of Run.Metrics.
	Metrics []MetricFairness
	// Loss is the mean loss over the clients.
	Loss float64
	// WorstLoss is the mean loss over the tenth of the clients with the highest loss.
	WorstLoss float64
}

// MetricFairness is how evenly one metric is distributed over the clients that have a value of it. A
// client has none where its samples do not determine the metric, such as a recall of a class that it
// lacks. All values are NaN if no client has one.
type MetricFairness struct {
	// Mean is the arithmetic mean over the clients.
	Mean float64
	// Worst is the mean over the tenth of the clients with the worst values, at least one client.
	Worst float64
	// Jain is Jain's index of the values; NaN if one is negative.
	Jain float64
}

// ClassFairness is the fairness among the clients of one class of devices.
type ClassFairness struct {
	Class string
	Fairness
}

// ClientEvaluation is the result of evaluating a model on the clients' own samples.
type ClientEvaluation struct {
	// Round is the number of the round after which the model was evaluated.
	Round int
	// Scores holds the loss and the metrics of each client.
	Scores []metric.ClientScore
	All    Fairness
	// Classes holds the fairness in each class that has clients, in the run's order. It is empty if
	// the run has fewer than two classes.
	Classes []ClassFairness
}

// newClientEvaluation computes the fairness of the model after a round, over all clients and by
// class.
func newClientEvaluation(run *Run, number int, scores []metric.ClientScore) *ClientEvaluation {
	e := &ClientEvaluation{Round: number, Scores: scores, All: FairnessOf(run.Metrics, scores)}
	// With fewer than two classes, the fairness by class would repeat the fairness over all.
	if len(run.Classes) < 2 {
		return e
	}
	byClass := make([][]metric.ClientScore, len(run.Classes))
	for _, s := range scores {
		class := run.Class(s.Client)
		byClass[class] = append(byClass[class], s)
	}
	for class, list := range byClass {
		if len(list) > 0 {
			e.Classes = append(e.Classes, ClassFairness{run.Classes[class], FairnessOf(run.Metrics, list)})
		}
	}
	return e
}

// FairnessOf computes the fairness of a model from its scores on the clients' own samples. list
// names the metrics in the order of the values in each score. There must be at least one score. NaN
// stands for a metric that a client lacks.
func FairnessOf(list []metric.Metric, scores []metric.ClientScore) Fairness {
	values := make([]float64, len(scores))
	const lowerIsBetter = true
	losses := fairness(values, scores, lowerIsBetter, func(s *metric.ClientScore) float64 { return s.Loss })
	f := Fairness{
		Clients:   len(scores),
		Loss:      losses.Mean,
		WorstLoss: losses.Worst,
	}
	for i, m := range list {
		value := func(s *metric.ClientScore) float64 { return s.Metrics[i] }
		f.Metrics = append(f.Metrics, fairness(values, scores, m.Lower, value))
	}
	return f
}

// fairness is the fairness of one value of the clients' scores. lowerIsBetter says that the largest
// values are the worst. values is memory for as many values as there are scores, which
// the call overwrites. NaN stands for a client without a value.
func fairness(
	values []float64,
	scores []metric.ClientScore,
	lowerIsBetter bool,
	value func(*metric.ClientScore) float64,
) MetricFairness {
	values = values[:0]
	for i := range scores {
		if v := value(&scores[i]); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return MetricFairness{Mean: math.NaN(), Worst: math.NaN(), Jain: math.NaN()}
	}
	f := MetricFairness{Mean: mean(values), Jain: Jain(values)}
	slices.Sort(values)
	// The tenth is rounded up, so that it has at least one client.
	worst := values[:(len(values)+9)/10]
	if lowerIsBetter {
		worst = values[len(values)-len(worst):]
	}
	f.Worst = mean(worst)
	return f
}

// mean returns the arithmetic mean of values, which is NaN (0/0) if there are none. A NaN among
// them makes it NaN.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Jain is the fairness index of Jain, Chiu and Hawe (1984), (Σ x)² / (n Σ x²), of values that must
// not be negative. It is 1 where all are equal, also where all are 0 or there are none, and k/n where k of n
// values are equal and the others 0. It is NaN if a value is negative.
func Jain(values []float64) float64 {
	sum := 0.0
	squares := 0.0
	for _, v := range values {
		if v < 0 {
			return math.NaN()
		}
		sum += v
		squares += float64(v * v)
	}
	if squares == 0 {
		return 1
	}
	// Rounding could make the index exceed 1 by a little.
	return min(1, float64(sum*sum)/(float64(len(values))*squares))
}
