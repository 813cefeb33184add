// Package coordinator drives the pure round machine over the bus, the clock and
// the trainers.
//
// [Run] owns one run from its first task to its last evaluation. It is a
// single loop: it hands the machine one event, does what the effects say and
// finds the next event where the machine's phase says to look: plans from the
// bus while it is planning, the clock's next timer while time runs, the
// trainers' sums while it is asking for losses, training or evaluating. Nothing
// in a result depends on when a message arrives: plans are placed in task order
// by the machine, partial sums are exact, losses are averaged in task order.
//
// Models are on the bus by digest for as long as the machine says that a task
// may be trained from them; a round whose tasks name several is split into jobs
// of one base model each.
//
// Between two steps a run is a [State], which a [Checkpoint] keeps and from which
// another life of the run goes on.
//
// It knows no file: reports go to an [Observer], states to a Checkpoint, the
// model is returned.
package coordinator
