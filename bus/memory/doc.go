// Package memory is the [bus.Transport] within one process: no server, no port,
// no encoding. A [Bus] stands where a server would, and each part of a run has a
// [Conn] to it.
//
// Tasks go to hosts in batches and come back as plans; models, jobs and sums are
// handed over as they are. Nothing is lost on the way, and nobody is silent: the
// ends live and die with their process. So there are no leases, no heartbeats and no
// repeats. What a faulty network does to the ends of a run is tested with a bus of
// its own (bus/bustest/simbus).
//
// The package knows neither rounds nor the clock nor what a model is.
package memory
