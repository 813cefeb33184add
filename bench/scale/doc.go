// Command scale measures what a simulated client costs: wall time, processor
// time and memory of runs that are timed only, from ten thousand clients to a
// million.
//
//	go run ./bench/scale                     the table
//	go run ./bench/scale --figure scale.svg  and its figure
//	go run ./bench/scale --check             exit status 1 where a target is missed
//	go run ./bench/scale --pairs 3           runs through NATS beside runs in memory
//
// Each line of the table is a run in a process of its own, through the embedded
// NATS server, by the package that every command runs experiments with; the
// fastest of --repeat is taken. It needs a quiet machine: the targets are those
// of two cores.
package main
