// Package real is a real device: a client that takes part in runs from a machine
// of its own, a Raspberry Pi for example.
//
// A [Device] waits for runs that name it, fetches each task's model, runs the
// task's K_r steps of SGD on its own data and sends its model back, with the time
// that download, compute and upload took by its monotonic clock. The
// coordinator's clock holds for it and places it by those durations.
//
// It survives lost connections and coordinators that are started again. A task says
// how many of the device's steps have counted, from which its place in its data follows. A task
// also has the digest of the state that the client keeps, such as an optimizer's moments: a device
// that has lost this state fetches it from the run.
//
// The package knows the bus, the data and the models, and nothing of rounds,
// schedules or the clock.
package real
