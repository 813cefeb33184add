// Package throttle is a TCP proxy that behaves like a slow link: so many bits a second each
// way, shared by all connections, and a latency. It is for tests and benchmarks of real
// devices on one machine.
package throttle
