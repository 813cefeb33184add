package study

import "fedpace/internal/statistics"

// Tail are a run's evaluations, of which the last ones say how the run ended. A best value is
// favoured by chance, the more the more often a model is looked at; a mean is not.
type Tail struct {
	seconds, values []float64
}

// Add adds an evaluation at a virtual time in seconds.
func (t *Tail) Add(seconds, value float64) {
	t.seconds, t.values = append(t.seconds, seconds), append(t.values, value)
}

// Mean is the mean of those in the last tenth of a run that ended at a virtual time; NaN if
// there are none.
func (t *Tail) Mean(end float64) float64 {
	var last []float64
	for i, at := range t.seconds {
		if at >= 0.9*end {
			last = append(last, t.values[i])
		}
	}
	return statistics.EstimateMean(last).Mean
}
