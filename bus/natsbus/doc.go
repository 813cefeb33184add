// Package natsbus is the [bus.Transport] over NATS: on a connection ([Connect]) the
// two ends of a run, [Coordinator] and [Host], with the work queue, models and sums.
//
// What it promises:
//
//   - A plan or a sum that could not be delivered fails the run with its cause;
//     nothing is lost in silence.
//   - A host that stops or crawls holds nothing up for long: tasks go to hosts that
//     answer, and jobs of a host that is gone or slow are queued again (package
//     placement).
//   - Jobs travel through a JetStream work queue: a host that dies gives its
//     job back, and a sum counts once however often it is sent.
//   - Where both ends live in one process, models and partial sums are handed
//     over, not copied; between processes the same calls move them in chunks.
//
// To read it, begin with coordinator.go and host.go, the two ends. tasks.go has tasks and
// plans, which are plain messages; queue.go, jobs.go and sums.go have jobs and their
// results; models.go the models; lease.go the right to drive a run, which one coordinator
// has at a time; registry.go which hosts are present.
//
// How a connection is made, lost and found again, and what is tried again meanwhile, is
// package natsconn's. This one knows neither rounds nor the clock nor what a model is
// beyond its floats.
package natsbus
