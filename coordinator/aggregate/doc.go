// Package aggregate makes the next model of a round's accepted updates.
//
// An [Aggregator] serves one run. The coordinator's loop hands it a [Round], the number and the
// accepted tasks, and gets an [Outcome]: the clients' losses, the tasks whose updates were refused,
// and the sum from which [Aggregator.Advance] makes the next model. Between the two calls nothing
// has changed but the outcome, so a run that is interrupted there trains the round again, to the
// same bits. Values pass as values: no function leaves a result in a field for another to read.
//
// How one round goes:
//
//   - [Aggregator.Train] (train.go) makes a clientUpdate of each task (update.go), weighs them
//     (weights.go), and has simulated clients trained by jobs (jobs.go). Most updates are added up
//     as their sums arrive; those that a rule or the algorithm must see by itself are kept
//     (combine.go). Updates of real devices, which are with the coordinator already, are added
//     last (devices.go).
//   - A round with updates of real devices is tried before it counts: the guard (guard.go) is
//     given losses and norms, and returns a verdict that the aggregator carries out
//     (vetting.go).
//   - A round by way of sites moves the sites' own models first (sites.go).
//   - [Aggregator.Advance] (aggregator.go) applies the server half of the algorithm, publishes
//     the new version (models.go), and moves the clients' states on (clientstate.go).
//
// Evaluations (evaluate.go) are jobs, too. Jobs are made and their answers taken in jobs.go alone,
// and vectors are put on the bus and removed in models.go alone.
//
// Nothing in a result depends on which trainer does a job, on how tasks are cut into jobs, or on
// the order of answers: partial sums are exact integers, and losses are averaged in task order.
// The package knows neither the clock nor the round machine's state.
package aggregate
