package metrics

import (
	"math"
	"slices"

	"fedpace/learn/metric"
)

// Fairness is how evenly a model serves clients. Every client counts once, however many
// samples it has.
type Fairness struct {
	Clients   int
	Metrics   []MetricFairness // of the run's metrics
	Loss      float64          // mean over the clients
	WorstLoss float64          // mean over the tenth of them with the highest
}

// MetricFairness is the same of a metric; NaN if a client has no value.
type MetricFairness struct {
	Mean  float64 // over the clients
	Worst float64 // mean over the tenth of them with the worst values, at least one
	Jain  float64 // Jain's index of the values; NaN if one is negative
}

// ClassFairness is that of the clients of one class of devices.
type ClassFairness struct {
	Class string
	Fairness
}

// ClientEvaluation is a model that was measured on the clients' own samples.
type ClientEvaluation struct {
	Round   int                  // after which it is the model
	Scores  []metric.ClientScore // by client
	All     Fairness
	Classes []ClassFairness // those that have clients, in the run's order; none where all are alike
}

func newClientEvaluation(run *Run, number int, scores []metric.ClientScore) *ClientEvaluation {
	e := &ClientEvaluation{Round: number, Scores: scores, All: FairnessOf(run.Metrics, scores)}
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

// FairnessOf sums up scores, of which there are some, with a value of each metric.
func FairnessOf(list []metric.Metric, scores []metric.ClientScore) Fairness {
	values := make([]float64, len(scores))
	fairness := func(value func(s *metric.ClientScore) float64, lower bool) MetricFairness {
		for i := range scores {
			values[i] = value(&scores[i])
		}
		f := MetricFairness{Mean: mean(values), Jain: Jain(values)}
		slices.Sort(values)
		worst := values[:(len(values)+9)/10]
		if lower {
			worst = values[len(values)-len(worst):]
		}
		f.Worst = mean(worst)
		if math.IsNaN(f.Mean) {
			f.Worst = f.Mean
		}
		return f
	}
	losses := fairness(func(s *metric.ClientScore) float64 { return s.Loss }, true)
	f := Fairness{Clients: len(scores), Loss: losses.Mean, WorstLoss: losses.Worst}
	for i, m := range list {
		f.Metrics = append(f.Metrics, fairness(func(s *metric.ClientScore) float64 { return s.Metrics[i] }, m.Lower))
	}
	return f
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Jain is the fairness index of Jain, Chiu and Hawe (1984) of values that are not negative,
// (Σ x)² / (n Σ x²): 1 where all are equal, also where all are 0, and k/n where k of n share
// everything equally. It is NaN if a value is negative.
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
	return min(1, float64(sum*sum)/(float64(len(values))*squares))
}
