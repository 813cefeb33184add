// Package memory is the [bus.Transport] within one process: no server, no port,
// no encoding. A [Bus] stands where a server would, and each part of a run has a
// [Conn] to it.
//
// Tasks go to hosts in batches and come back as plans; models, jobs and sums are
// handed over as they are. Nothing is lost on the way, and no end can be silent, since all
// of them live and die with one process. So there are no leases, no heartbeats and no
// repeats. The effects of a faulty network on the ends of a run are tested with another
// bus (bus/bustest/simbus).
//
// The package knows neither rounds nor the clock nor what a model is.
package memory
