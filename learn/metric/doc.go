// Package metric says by what models are judged: their validation loss, and the
// metrics that they have besides, such as accuracy.
//
// The metrics of a run are one list in one order, that of its model. Values travel
// as a list in the same order; NaN is a value that was not measured. One of the
// quantities is the run's [Quality]: plateaus, the best model and comparisons go by
// it.
//
// The package is pure and uses the standard library alone.
package metric
