package round

import "math"

// Outcome is how a task ended. Every task ends in exactly one.
type Outcome uint8

// The outcomes, in the order of the columns of rounds.csv.
const (
	Accepted  Outcome = iota // its update counts
	Late                     // it would have finished after its round's deadline, or from too old a base model
	Dropped                  // the client left in mid-task
	Lost                     // a real device fell silent
	Cancelled                // the round closed without it (over-selection) or the run ended
	Refused                  // its update was not valid
	outcomes
)

// Outcomes is the number of outcomes.
const Outcomes = int(outcomes)

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
	Cohort       int     // tasks that ended in it: those issued, unless rounds overlap
	Candidates   int     // clients asked for their loss
	Outcomes     [Outcomes]int
	TrainingLoss float64 // mean first-step loss of the accepted clients at the round's start model (Eq. 15's inner mean), each at its own base model where rounds overlap; NaN when not trained or nothing was accepted
	WindowLoss   float64 // mean of TrainingLoss over the last s rounds, this one included; NaN when none has one
	SGDSteps     int64   // sum of K_r over the rounds so far, this one included

	Evaluated          bool // whether the two below were measured on this round's new model
	ValidationLoss     float64
	ValidationAccuracy float64
}

// Time is virtual time: nanoseconds since the run's start.
type Time int64

// Seconds converts to seconds, for output only.
func (t Time) Seconds() float64 { return float64(t) / 1e9 }

// noLoss marks a loss that was not measured.
var noLoss = math.NaN()
