// Package natsbus is the [bus.Transport] over NATS: connections ([Connect]), the
// two ends of a run ([OpenCoordinator], [OpenHost]), the work queue, models and
// sums.
//
// What it promises:
//
//   - A plan or a sum that could not be delivered fails the run with its cause;
//     nothing is lost in silence.
//   - A host that stops or crawls holds nothing up for long: tasks go to hosts that
//     answer (package placement), and jobs of a host that is gone or slow are
//     queued again.
//   - Jobs travel through a JetStream work queue: a host that dies gives its
//     job back, and a sum counts once however often it is sent.
//   - Where both ends live in one process, models and partial sums are handed
//     over, not copied; between processes the same calls move them in chunks.
//
// It knows neither rounds nor the clock nor what a model is beyond its floats,
// and no server: package embedded has the one in this process.
package natsbus
