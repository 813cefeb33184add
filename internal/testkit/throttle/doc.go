// Package throttle is a TCP proxy that behaves like a slow link: it has a speed for each
// direction, which all connections share, and a latency. It is for tests and benchmarks of
// real devices on one machine.
package throttle
