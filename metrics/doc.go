// Package metrics shows a run while it goes, to Prometheus and whoever reads
// its format.
//
// It promises one consistent picture: a scrape sees a round wholly or not at
// all, and costs the run no more than a short lock. What happens once for each
// client goes into a [Tally], which belongs to one goroutine and takes no lock;
// [Metrics.ObserveRound] merges it once a round. No metric has a label whose
// values grow with the population.
//
// Durations are virtual, in seconds. The package reads what package round
// reports; it knows nothing of the bus, the clock or any file, and nothing that
// it holds decides anything in a run.
package metrics
