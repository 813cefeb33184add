package coordinator

import (
	"sync/atomic"
	"time"

	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/algorithm/privacy"
	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/simclock"
)

// Config is one run.
type Config struct {
	Run       string       // name on the bus
	Round     round.Config // Round.Train says whether Learning is used
	ModelBits int64        // size of one transfer of the model, |x| in Eq. 3
	// UpdateBits is the size of an update's transfer; 0: that of the model.
	UpdateBits int64
	// DeviceOf says whose device and whose availability a simulated client has; nil: its
	// own.
	DeviceOf func(client int) (device, presence int)
	Learning Learning
	Bus      bus.CoordinatorConfig // what remote hosts learn of the run; its Kernel is Learning's
	Pace     float64               // virtual seconds per wall second; 0: free
	Observer Observer

	Devices *realdevices.Config // nil: all clients are simulated

	Checkpoint Checkpoint
	Resume     *State // goes on from there; nil: from the start
}

// Learning is what a run that trains needs beyond its rounds.
type Learning struct {
	Model   learn.ModelInfo
	Initial []float32 // Model.Params() values; not modified
	Spec    *bus.Spec // what a trainer must know: architecture, data, seed, minibatch
	Kernel  string    // class of the trainers that may take its jobs
	Jobs    int       // jobs a round is split into, about two per worker of this process; remote hosts add theirs
	HeldOut int       // validation samples, at least 1
	// Measured is how many of them an evaluation takes, spread evenly; 0: all.
	Measured int
	// OwnSamples is how many of a client's samples an evaluation by client takes, at most as
	// many as it has; nil where the run has none.
	OwnSamples func(client int) int
	// Samples gives a client's training samples for sample-weighted FedAvg
	// (Eq. 2); nil weighs the accepted updates equally (Algorithm 1).
	Samples func(client int) int
	// Taken gives the samples of a client's local step where updates weigh by those that their steps
	// took; nil: they do not.
	Taken func(client int) int
	// Batch gives a client's samples of a minibatch, 0 for the spec's; nil: all have
	// the spec's.
	Batch func(client int) int
	// Attackers are the clients that attack; nil: none does.
	Attackers *Attackers
	// Algorithm is how updates become a model; nil: FedAvg. It is made for the
	// model and the population, and its state moves on with the run.
	Algorithm *algorithm.Instance
	// Combine is what is done with single updates before.
	Combine combine.Setup
	// Privacy adds noise to the sums of updates that Combine has clipped; nil: there is none.
	Privacy *privacy.Mechanism
}

// Observer hears of a run as it goes, from the run's own goroutine: what takes
// long here holds the run. Any of its functions may be nil.
type Observer struct {
	// the devices that a run waits for are there, or late: its first round begins
	Begun func()
	Task  func(r *round.TaskReport) // a task has its outcome; r is reused
	// first-step losses of a round's updates, after their Task and before its Report; the lists are reused
	Losses func(tasks []round.Task, losses []float64)
	// so many of a round's simulated clients have been trained: 0, and more as their sums come
	Trained func(done, of int)
	Report  func(report *round.Report) error // a round is complete; an error ends the run
	// the model of that round was measured on the clients' own samples; scores may be kept; an error ends the run
	Clients func(round int, scores []metric.ClientScore) error
	// best validation so far by Round.Quality; params may be kept, not changed
	Best func(quality float64, params []float32)
	// the global model after a round with updates; may be kept, not changed
	Model func(round int, params []float32)
	// once, when the run is this coordinator's and before its first event; s may be asked from any goroutine
	Stats func(s *Stats)
}

// Stats tell how a run keeps up with wall time. They may be asked from any goroutine, and after
// the run's end, too.
type Stats struct {
	bus.Stats
	Pacer   *simclock.Pacer
	Devices *realdevices.Devices // nil: all clients are simulated
	lag     *atomic.Int64
}

// BusLag is the wall time from the last cohort's first task going out until its
// last plan was back.
func (s *Stats) BusLag() time.Duration { return time.Duration(s.lag.Load()) }
