// Package simulation plays whole runs through a network that fails, in simulated
// time: a coordinator, hosts, real devices with their gateway, and the bus of
// package simbus. It is tests alone.
//
// A seed decides all: the run, its hosts and devices, how each message travels
// (late, twice, in another order, never), and what happens to the parts (crash,
// stop, hang, partition, a slow part, a second coordinator, a bus that forgets). An
// attempt of the coordinator may end before the run does with one of the errors in
// a list; another goes on from its last checkpoint. The run must end within an
// hour.
//
// A run without devices must end with the history and the model of the same run
// without faults. What devices measure decides a run's history, so one with
// devices is compared with a replay of what they said, to the same bits. Their
// updates that count are compared with the work that their tasks ask for, computed
// directly, and each must count once. Where the algorithm is plain FedAvg, the
// models of all rounds are computed directly, too, from who was accepted.
//
// A coordinator writes rows, what devices said, and checkpoints as the program does,
// by [folder.Store], on a disk of its own. Most of its crashes cut the power: the disk
// then holds what was synced and, of what was not, any part. No checkpoint that was
// said to be written may be lost, and the newest under its name must be whole,
// together with the outputs that it goes on from. The rows in the folder are those
// that are compared.
//
// Every seed runs in a bubble of testing/synctest: time moves when all goroutines
// wait, so a run of minutes takes milliseconds. The delay of a message is a draw
// of (seed, link, number on the link), so hardly ever do two arrive at one
// instant, and a seed replays:
//
//	go test ./internal/simulation -run TestSeeds -seed 17 -v
package simulation
