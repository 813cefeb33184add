// Package simbus is a [bus.Transport] and a [bus.Line] for tests, within one process,
// over a network that a test may make as bad as it likes. A [Bus] stands where a server
// would; each part of a run has a [Conn] to it.
//
// Without a [Network] everything arrives at once. With one it arrives as that decides:
// late, twice or never, and the ends live with that as they do over a real network.
// They ask again, the coordinator holds a lease on its run that ends with its silence,
// and hosts with a stamp ([bus.HostConfig]) count as other processes: they show that
// they are there, jobs of the silent go to others, and their sums are copied. Real
// devices and the gateway for them meet over the same network (package gateway).
//
// The package knows neither rounds nor the clock nor what a model is.
package simbus
