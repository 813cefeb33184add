package round

import (
	"math"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/learn/metric"
)

// Effects is what the driver must do after an event. It is valid until the
// next Step, which reuses its memory.
type Effects struct {
	// Tasks are to be sent to their clients, in this order. Timers are to be set on the clock, and
	// those of the numbers in Cancel are to be taken off it.
	Tasks  []Task
	Timers []Timer
	Cancel []uint64

	// Mask are tasks of real devices that have taken their steps. Together they are those of the round's group of
	// secure aggregation: they agree on masks and upload now. Then comes an event for each, as for a new task.
	Mask []Task

	// Query are candidates, each of whose losses on the newest model is to be found. Then comes
	// Queried.
	Query []Task
	// Train are tasks, each to be trained from its own base model. Their updates make the next
	// model, in this order. Then comes Trained.
	Train []Task
	// Evaluate has the newest model measured on the held-out samples. Then comes Evaluated.
	Evaluate bool
	// EvaluateClientsRound is the number of the round whose model, the newest one, is to be measured on
	// each simulated client's own samples. Then comes Evaluated, which says nothing of the result.
	// 0 means that it is not to be measured so.
	EvaluateClientsRound int

	// Release are the versions of the model that no task will start from again.
	Release []uint64

	// Ended are the tasks that have got their outcome, in that order. Report is a round that is
	// complete, and Stopped how the run ended, else nil.
	Ended   []TaskReport
	Report  *Report
	Stopped *Stop

	// Ignored says why the event did not count: it was a repeat or a stale answer. It is empty if
	// the event counted.
	Ignored string
}

// reset empties the effects but keeps the memory of their lists, so that the next event allocates
// nothing.
func (e *Effects) reset() {
	e.Tasks = e.Tasks[:0]
	e.Timers = e.Timers[:0]
	e.Cancel = e.Cancel[:0]
	e.Mask = e.Mask[:0]
	e.Query = e.Query[:0]
	e.Train = e.Train[:0]
	e.Release = e.Release[:0]
	e.Ended = e.Ended[:0]
	e.Evaluate = false
	e.EvaluateClientsRound = 0
	e.Report = nil
	e.Stopped = nil
	e.Ignored = ""
}

// Task is one client's work, numbered and with the schedules of the round in
// which it was issued.
type Task struct {
	// Task is the task's number, unique in the run. Numbers begin with 1.
	Task   uint64
	Client int
	Round  int
	// Model is the version of the base model. Version 0 is the initial one, and each aggregation
	// makes the next.
	Model uint64
	// LocalSteps is the client's number of local steps.
	LocalSteps   int
	LearningRate float64
	// StepsDone is the number of local steps of this client that were accepted when the task was
	// issued. It is 0 unless the run trains.
	StepsDone int64
	// Batch is the number of samples of a minibatch where a formula gives it, else 0. BatchPart is then its
	// part of the configured one, 0 where it is the same.
	Batch     int
	BatchPart float64
	// Start is when the task is issued.
	Start Time
	// Staleness is the number of aggregations since the base model. It is set in Effects.Train and Effects.Mask
	// alone, and is 0 unless rounds overlap or late updates are used.
	Staleness int
	// Joules is what the client's battery holds, 0 if it has none. It is set in Effects.Tasks alone.
	Joules float64
	// Probe marks a candidate, which is asked only for its loss: it downloads the model and
	// computes one local step.
	Probe bool
}

// TaskReport is a task that has its outcome, or a candidate whose part is over. An
// accepted one counts only once its round is reported: tasks of a round that
// the run's end cuts short do not.
type TaskReport struct {
	Task   uint64
	Client int
	// Model is the version of the base model, and Staleness the number of aggregations since then
	// when the task ended.
	Model     uint64
	Staleness int
	// LocalSteps is the client's K, 1 of a candidate.
	LocalSteps int
	// Probe marks a candidate, which is Accepted when it was chosen.
	Probe   bool
	Outcome Outcome
	// Revises says that the task was Accepted before, and is Refused since it was trained.
	Revises bool
	// Start and End are the time that it took its client.
	Start, End Time
	// Plan is the plan as it counts: a chosen candidate does not download the model again.
	Plan Plan
}

// Outcome is how a task ended. Every task ends in exactly one.
type Outcome uint8

// The outcomes, in the order of the columns of rounds.csv.
const (
	// Accepted means that the update counts.
	Accepted Outcome = iota
	// Late means that the task would have finished after its round's deadline, or that its base
	// model is too old.
	Late
	// Dropped means that the client left before the task was done.
	Dropped
	// Lost means that a real device fell silent.
	Lost
	// Cancelled means that the round closed without the task (over-selection), or that the run
	// ended.
	Cancelled
	// Refused means that the update was not valid.
	Refused

	// Outcomes is the number of outcomes.
	Outcomes = iota
)

var outcomeNames = [Outcomes]string{"accepted", "late", "dropped", "lost", "cancelled", "refused"}

// String returns the outcome's name in metrics and results.
func (o Outcome) String() string { return outcomeNames[o] }

// Report is what is known of one round when it has closed and its updates are
// in the model: one row of rounds.csv.
type Report struct {
	// Round is the number of the round, from 1.
	Round int
	// Start is when the first task was issued or, where rounds overlap, when the round before
	// closed. End is when the round closed.
	Start, End Time
	// LocalSteps is K_r, the local steps of the round's schedule.
	LocalSteps int
	// LearningRate is eta_r, the learning rate of the round.
	LearningRate float64
	// Reason is why the schedule gave K_r; the zero value where it does not say.
	Reason schedule.Reason
	// Closing are the numbers by which the round closed, where a formula gave them.
	Closing closing.Numbers
	// Wanted is the number of clients that the round selects, where a formula gave it, else 0.
	Wanted int
	// Batch is the number of samples of a minibatch, where a formula gave it, else 0.
	Batch int
	// LateLimit is how many rounds old the base model of a late update may be, where a formula gave it,
	// else 0.
	LateLimit int
	// Cohort is the number of tasks that ended in the round: those issued in it, unless rounds
	// overlap or late updates are used.
	Cohort int
	// Candidates is the number of clients that were asked for their loss.
	Candidates int
	// Excluded is the number of clients that the selection left out when it was their turn.
	Excluded int
	Outcomes [Outcomes]int
	// LateUsed is the number of accepted updates of tasks that outlived their round.
	LateUsed int
	// Steps is the spread of the local steps of the round's tasks.
	Steps metric.Spread
	// TrainingLoss is the mean first-step loss of the accepted clients at the round's start model
	// (Eq. 15's inner mean), each at its own base model where rounds overlap or updates are late.
	// It is NaN if nothing was trained.
	TrainingLoss float64
	// WindowLoss is the mean of TrainingLoss over the last s rounds, this one included. It is NaN
	// if none of them has one.
	WindowLoss float64
	// SGDSteps is the sum of K_r over the rounds up to this one, of each round of a site where
	// sites add up.
	SGDSteps int64
	// Tokens is how many the local steps of accepted tasks have taken so far, 0 where samples have
	// none.
	Tokens int64
	// Secure is what secure aggregation did in the round, zero without.
	Secure SecureReport

	// Used is what clients have used up to the round's report, if a budget or a column needs it.
	Used Used

	// Evaluated says that the two fields below were measured on this round's new model. Metrics are
	// shared and never written to.
	Evaluated      bool
	ValidationLoss float64
	Metrics        []float64
}

// KnowsSteps reports whether Steps is of all tasks of the round, and of some.
func (r *Report) KnowsSteps() bool { return r.Cohort > 0 && r.Steps.Tasks == r.Cohort }

// noLoss marks a loss that was not measured.
var noLoss = math.NaN()

// Stop says why and where a run ended.
type Stop struct {
	// Reason is for people, such as "10000 rounds". It is empty before the end of the run.
	Reason string
	// TimeUp says that the run ended at its limit of virtual time.
	TimeUp bool
	// Rounds is the number of rounds that count, and EndTime the end of the last of them.
	Rounds   int
	EndTime  Time
	Outcomes [Outcomes]int
	// Samples is how many the local steps of accepted tasks have taken, if a limit is on them or
	// they have tokens.
	Samples int64
	// Used is what clients have used on tasks that have ended, if a budget or a report needs it.
	Used Used
	// Evaluated says that the final model was measured. Metrics are shared and never written to.
	Evaluated      bool
	ValidationLoss float64
	Metrics        []float64
	// ClientsEvaluated says that it was measured on the clients' own samples.
	ClientsEvaluated bool
}

// NoClients is the reason of a run that ends because no client is left to ask.
const NoClients = "no client is available any more"

// BatteryEmpty is the reason of such a run where clients run on batteries.
const BatteryEmpty = "no client is available any more whose battery allows a task"

// Excluded is the reason of a run that ends because its selection leaves out every
// client: none can do its local steps by the deadline.
const Excluded = "every client is too slow for the deadline"
