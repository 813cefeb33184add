// Package timeline keeps what each round's clients did, and when.
//
// A [Collector] hears of every task that has its outcome and keeps, round by
// round, the slowest tasks, all of real devices, and a sample of the others. It
// costs a few nanoseconds a task and memory that grows with neither clients nor
// rounds. The sample is a function of the seed: it is the tasks of the clients
// with the smallest keyed hashes, so the same clients are met again from round
// to round, and a run that is repeated shows the same ones.
//
// [Spans] splits a task into its phases. They tile the task: the first begins
// at its start, each begins where the one before ends, and the last ends at its
// end. A task that ended early is cut there.
//
// The package reads what package round reports. It knows nothing of the bus,
// the clock, files or pages, and nothing that it holds decides anything in a
// run.
package timeline
