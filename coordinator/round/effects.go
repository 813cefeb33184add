package round

import (
	"math"

	"fedpace/learn/metric"
)

// Effects is what the driver must do after an event. It is valid until the
// next Step, which reuses its memory.
type Effects struct {
	Tasks  []Task   // send these, in this order
	Timers []Timer  // set these on the clock
	Cancel []uint64 // take these timers off it, by Seq

	Query    []Task // find the loss of each on the newest model; then Queried
	Train    []Task // train each from its own base model and make the next one, in this order; then Trained
	Evaluate bool   // measure the newest model; then Evaluated
	// EvaluateClients has the newest model, which is that of this round, measured on each simulated
	// client's own samples; then Evaluated, which says nothing of it. 0: not.
	EvaluateClients int

	Release []uint64 // versions of the model that no task will start from again

	Ended   []TaskReport // tasks that have their outcome, in the order in which they got it
	Report  *Report      // a round is complete
	Stopped *Stop        // the run is over

	Ignored string // why the event did not count ("" when it did): a repeat or a stale answer
}

func (e *Effects) reset() {
	e.Tasks = e.Tasks[:0]
	e.Timers = e.Timers[:0]
	e.Cancel = e.Cancel[:0]
	e.Query = e.Query[:0]
	e.Train = e.Train[:0]
	e.Release = e.Release[:0]
	e.Ended = e.Ended[:0]
	e.Evaluate = false
	e.EvaluateClients = 0
	e.Report = nil
	e.Stopped = nil
	e.Ignored = ""
}

// Task is one client's work, numbered and with the schedules of the round in
// which it was issued.
type Task struct {
	Task         uint64 // unique in the run, from 1
	Client       int
	Round        int
	Model        uint64 // version of the base model: 0 is the initial one, each aggregation adds one
	LocalSteps   int    // the client's K
	LearningRate float64
	// local steps of this client that were accepted when the task was issued; 0 unless the run trains
	StepsDone int64
	Start     Time // Effects.Tasks: when it is issued
	// Effects.Train: aggregations since the base model; 0 unless rounds overlap or late updates are used
	Staleness int
	Joules    float64 // Effects.Tasks: what its client's battery holds; 0: it has none
	Probe     bool    // a candidate's: asks only for its loss, takes its download and one local step's computing
}

// TaskReport is a task that has its outcome, or a candidate whose part is over. An
// accepted one counts only once its round is reported: tasks of a round that
// the run's end cuts short do not.
type TaskReport struct {
	Task       uint64
	Client     int
	Model      uint64  // version of its base model
	Staleness  int     // aggregations since then when it ended
	LocalSteps int     // the client's K; 1 of a probe
	Probe      bool    // a candidate, Accepted when it was chosen
	Outcome    Outcome // how it ended
	Revises    bool    // it was Accepted, and is Refused since it was trained
	Start, End Time    // the time that it took its client
	Plan       Plan    // as it counts: a chosen candidate does not download again
}

// Outcome is how a task ended. Every task ends in exactly one.
type Outcome uint8

// The outcomes, in the order of the columns of rounds.csv.
const (
	Accepted  Outcome = iota // its update counts
	Late                     // it would have finished after its round's deadline, or its base model is too old
	Dropped                  // the client left in mid-task
	Lost                     // a real device fell silent
	Cancelled                // the round closed without it (over-selection) or the run ended
	Refused                  // its update was not valid

	Outcomes = iota // how many there are
)

var outcomeNames = [Outcomes]string{"accepted", "late", "dropped", "lost", "cancelled", "refused"}

// String is the outcome's name in metrics and results.
func (o Outcome) String() string { return outcomeNames[o] }

// Report is what is known of one round when it has closed and its updates are
// in the model: one row of rounds.csv.
type Report struct {
	Round        int     // from 1
	Start, End   Time    // virtual time of the first task (rounds that overlap: of the close before) and of the close
	LocalSteps   int     // K_r
	LearningRate float64 // eta_r
	Cohort       int     // tasks that ended in it: those issued, unless rounds overlap or late updates are used
	Candidates   int     // clients asked for their loss
	Excluded     int     // clients that the selection left out when it was their turn
	Outcomes     [Outcomes]int
	LateUsed     int           // accepted updates of tasks that outlived their round
	Steps        metric.Spread // spread of the local steps of these tasks
	// mean first-step loss of the accepted clients at the round's start model (Eq. 15's inner
	// mean), each at its own base model where rounds overlap or updates are late; NaN when not
	// trained or nothing was accepted
	TrainingLoss float64
	WindowLoss   float64 // mean of TrainingLoss over the last s rounds, this one included; NaN when none has one
	// sum of K_r over the rounds so far, this one included; of each round of a site, where sites add up
	SGDSteps int64
	Tokens   int64 // that the local steps of accepted tasks have taken so far; 0 where samples have none

	Evaluated      bool // whether the two below were measured on this round's new model
	ValidationLoss float64
	Metrics        []float64 // shared, never written to
}

// KnowsSteps reports whether Steps is of all tasks of the round, and of some.
func (r *Report) KnowsSteps() bool { return r.Cohort > 0 && r.Steps.Tasks == r.Cohort }

// noLoss marks a loss that was not measured.
var noLoss = math.NaN()

// Stop says why and where a run ended.
type Stop struct {
	Reason   string // e.g. "10000 rounds"
	TimeUp   bool   // it ended at its limit of virtual time
	Rounds   int
	EndTime  Time // end of the last round that counts
	Outcomes [Outcomes]int
	// that the local steps of accepted tasks have taken, if a limit is on them or they have tokens
	Samples          int64
	Evaluated        bool // whether the final model was measured
	ValidationLoss   float64
	Metrics          []float64 // shared, never written to
	ClientsEvaluated bool      // whether it was measured on the clients' own samples
}

// NoClients is the reason of a run that ends because no client is left to ask.
const NoClients = "no client is available any more"

// BatteryEmpty is the reason of such a run where clients run on batteries.
const BatteryEmpty = "no client is available any more whose battery allows a task"

// Excluded is the reason of a run that ends because its selection leaves out every
// client: none can do its local steps by the deadline.
const Excluded = "every client is too slow for the deadline"
