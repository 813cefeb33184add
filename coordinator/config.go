package coordinator

import (
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/simclock"
)

// Config is one run.
type Config struct {
	// Run is the name of the run on the bus.
	Run string
	// Round is the configuration of the round machine. Its Train says whether Learning is used.
	Round round.Config
	// ModelBits is the size in bits of one transfer of the model, |x| in Eq. 3.
	ModelBits int64
	// UpdateBits is the size in bits of one transfer of an update; 0 stands for ModelBits.
	UpdateBits int64
	// DeviceOf returns the numbers of the clients whose device and whose availability a simulated
	// client has. If it is nil, each client has its own.
	DeviceOf func(client int) (device, presence int)
	Learning aggregate.Learning
	// Bus configures the coordinator's end of the run on the bus. Its Kernel is that of Learning.
	Bus bus.CoordinatorConfig
	// Pace is how many virtual seconds pass in one second of wall time, 0 for as many as the
	// machine can.
	Pace     float64
	Observer Observer

	// Devices are the run's real devices, nil if all clients are simulated.
	Devices *realdevices.Config

	Checkpoint Checkpoint
	// Resume is the checkpoint to go on from, nil for a run from the start.
	Resume *State
}

// Observer is informed of a run, from the run's own goroutine: a slow observer holds the run. Any of
// its functions may be nil.
type Observer struct {
	// Begun is called when the first round begins: the devices that the run waits for have joined, or
	// the wait for them is over.
	Begun func()
	// Task is called when a task has its outcome. r is reused.
	Task func(r *round.TaskReport)
	// Losses reports the first-step losses of a round's updates, after their Task and before the round's
	// Report. The lists are reused.
	Losses func(tasks []round.Task, losses []float64)
	// Trained reports how many of a round's simulated clients have been trained: 0 first, and more as
	// their sums arrive.
	Trained func(done, clients int)
	// Report is called when a round is complete. Its error ends the run.
	Report func(report *round.Report) error
	// Clients is called when the model of a round was measured on the clients' own samples. scores may be
	// kept. An error ends the run.
	Clients func(round int, scores []metric.ClientScore) error
	// Best reports the best model so far by Round.Quality. params may be kept, not changed.
	Best func(quality float64, params []float32)
	// Model reports the global model after each round with updates. params may be kept, not changed.
	Model func(round int, params []float32)
	// Stats is called once, when the run is this coordinator's and before its first event. s may be
	// read from any goroutine.
	Stats func(s *Stats)
}

// Stats show how a run keeps up with wall time. They may be read from any goroutine, and after
// the run's end, too.
type Stats struct {
	bus.Stats
	Pacer *simclock.Pacer
	// Devices are the open devices of the run, nil if all clients are simulated.
	Devices *realdevices.Devices
	lag     *atomic.Int64
}

// BusLag returns the wall time from sending the first task of the newest cohort whose plans are
// complete until its last plan arrived.
func (s *Stats) BusLag() time.Duration { return time.Duration(s.lag.Load()) }
