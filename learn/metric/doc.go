// Package metric says by what models are judged: their validation loss, and the
// metrics that they have besides, such as accuracy.
//
// The metrics of a run are one list in one order, that of its model. Values travel
// as a list in the same order; NaN is a value that was not measured. One of the
// quantities is the run's [Quality]: plateaus, the best model and comparisons go by
// it.
//
// [Outcomes] are what a model gave for each sample, for measures that are no mean over samples. All of
// them are computed in one place from all samples: counts of classes are whole, ranks are those of all
// samples together, and real numbers are added in the order of their size. So neither the order of
// the samples nor who measured them changes a bit.
//
// The package is pure.
package metric
