// Package battery keeps what the batteries of simulated clients hold, and from when on
// each allows a task.
//
// A battery is charged while its client has no task, and gives what a task takes for as
// long as it is under way, whatever becomes of it. A client whose battery holds too
// little gets no task until it has been charged. How charging goes is asked of [Laws].
// Energy is in joules. The package is pure.
package battery
