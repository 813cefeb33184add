// Package prometheus is the output that shows a run to Prometheus and to programs
// that read its format.
//
// A scrape sees a round wholly or not at all. A round that closes waits for the scrape
// under way. What happens once for each client goes into a batch, which belongs
// to the run's goroutine and takes no lock; it is taken over once a round. No
// metric has a label whose values grow with the population. Durations are virtual,
// in seconds, unless a name says that they are of wall time (lag, hold, silence,
// last_..._time); each histogram is there in Prometheus' classic form and in its
// native one. What is counted for each task or round starts again in a run that is
// resumed, as Prometheus expects of a process that was restarted.
//
// The package reads what package metrics reports; it knows nothing of the bus, the
// clock or any file.
package prometheus
