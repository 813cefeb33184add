// Package simulation plays whole runs through a network that fails, in simulated
// time: a coordinator, hosts and the bus of package memory. It is tests alone.
//
// A seed decides all: the run, its hosts, how each message travels (late, twice,
// in another order, never), and what happens to the parts (crash, stop, hang,
// partition, a slow part, a second coordinator, a bus that forgets). Each seed
// must end with the history and the model of the same run without faults. An
// attempt of the coordinator may end before with one of the errors in a list;
// another goes on from its last checkpoint.
//
// Every seed runs in a bubble of testing/synctest: time moves when all goroutines
// wait, so a run of minutes takes milliseconds. The delay of a message is a draw
// of (seed, link, number on the link), so hardly ever do two arrive at one
// instant, and a seed replays:
//
//	go test ./internal/simulation -run TestSeeds -seed 17 -v
package simulation
