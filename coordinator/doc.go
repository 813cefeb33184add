// Package coordinator drives the pure round machine over the bus, the clock and
// the trainers.
//
// [Run] owns one run from its first task to its last evaluation. It is a single
// loop: the machine takes one event and returns effects; the driver does at once
// what can be done at once (timers, observers, tasks to devices), and the rest
// leads to the next event: training, an evaluation, a plan, or the clock's next
// timer. Nothing in a result depends on when a message arrives: the machine
// places plans in task order, partial sums are exact, and losses are averaged in
// task order.
//
// Models are on the bus by digest for as long as the machine says that a task
// may be trained from them. A round whose tasks start from several models is
// split into jobs of one base model each.
//
// What makes the next model of a round's updates is package aggregate: the loop hands it the tasks
// that the machine has accepted, and takes an outcome.
//
//	run.go         the loop
//	planner.go     simulated clients: tasks out, plans in
//	checkpoint.go  the state between two steps
//	config.go      what a run is made of
//
// Between two steps a run is a [State]. A [Checkpoint] keeps it, and a later
// attempt of the run continues from there.
//
// The package knows no file: reports go to an [Observer], states to a
// Checkpoint, and the model is returned.
package coordinator
