// Package chaos holds tests of runs that are spread over processes: they kill
// coordinators, hosts and NATS servers, cut and delay connections, and check that
// a run comes to the bits of one that nobody disturbed.
//
// Everything in it is real: the program is built once, each part is a process of
// its own, the servers are NATS servers. The package has no code but its tests
// and knows nothing of the program but its command line and its results.
package chaos
