// Package prometheus shows a run to Prometheus and to programs that read its
// format.
//
// A scrape sees a round wholly or not at all, and costs the run no more than a
// short lock. What happens once for each client goes into a [Tally], which
// belongs to one goroutine and takes no lock; [Metrics.ObserveRound] takes it
// over once a round. No metric has a label whose values grow with the
// population. Durations are virtual, in seconds, unless a name says that they
// are of wall time (lag, hold, silence, last_..._time); each histogram is there
// in Prometheus' classic form and in its native one.
//
// The package reads what package round reports; it knows nothing of the bus, the
// clock or any file, and nothing that it holds decides anything in a run.
package prometheus
