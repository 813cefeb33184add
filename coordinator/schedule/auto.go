package schedule

import (
	"math"

	"fedpace/internal/portable/exact"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("auto", "steered by times of rounds and steps and the rest of the run", Auto{})
}

// Auto steers K by what the run itself measures (docs/auto.md). It begins with the K at which a share
// Start of a round's time is computing,
//
//	K* = Start/(1 − Start) · c/β
//
// where a round takes c + βK seconds ([Pace], measured over the last rounds), but with no more than
// K_0: more steps would make rounds hardly faster, and clients' models drift apart. It ends at 1,
//
//	K_r = ceil(K* · (1 − p/Until)^Power)
//
// where p is the part of the run that is over. The error that drift and noise leave is proportional
// to K and fades within rounds once K falls, while progress that was made stays, so K is large as
// long as time is left and falls towards the end. A learning rate that falls in a straight line is
// optimal for the last model under the like assumption (Defazio et al., When, Why and How Much?
// Adaptive Learning Rate Scheduling by Refinement, 2023).
//
// The first round has K_0, because nothing is measured yet. A run without a limit of its length falls
// as [RoundsK] does, from K*.
//
// Where the clients' losses rise beyond what their scatter explains ([ChangeTest]), the data have changed and
// there is progress to be made again: what is left of the run then counts as a run of its own, which begins
// with K*. p is the part of that rest that is over.
type Auto struct {
	Start float64 `key:"start" default:"0.8" range:"(0,1)" help:"share of a round that computes at the start"`
	Until float64 `key:"until" default:"0.9" range:"(0,1]" help:"part of the run after which K is 1"`
	Power float64 `key:"power" default:"1" range:"[0,100]" help:"power by which K falls until then"`
}

// Needs asks for what rounds take, how much of the run is over, and changes of the data.
func (Auto) Needs() Needs { return Needs{Pace: true, Changes: true} }

// AtMostK0 marks a schedule whose K never exceeds K_0.
func (Auto) AtMostK0() {}

// LocalSteps returns K_r: K_0 while no pace is measured, which is how long rounds and local steps take. Then it is K*
// (firstSteps), the number with which a run begins, over the cube root of r in a run without a limit, and otherwise
// times a power of what is left until the part Until of the run is over. Rounds and parts count from the
// newest change of the data. Powers are rounded once ([exact.Pow]), so that K is the same on every
// architecture.
func (a Auto) LocalSteps(progress Progress) int {
	if !progress.Pace.Known {
		return progress.K0
	}
	first := a.firstSteps(&progress)
	// A share that is NaN says that the run has no limit. In both results first is the largest number that K is
	// calculated from, by which wholeSteps bounds the rounding errors.
	if math.IsNaN(progress.Share) {
		return wholeSteps(first/exact.Cbrt(float64(progress.Round-progress.Change.Round)), first)
	}
	left := max(0, 1-progress.shareSinceChange()/a.Until)
	// [exact.Pow] takes longer than all the rest of a round without training, so it is called only if
	// the power changes something.
	if a.Power != 1 {
		left = exact.Pow(left, a.Power)
	}
	return wholeSteps(float64(first*left), first)
}

// Reason returns what the decision for the round of p rests on, for the user: the measured pace, which is
// how long rounds and local steps take, K* (in Top), the largest number of local steps, with which a run begins, the
// part of the run that is over, if known, the newest change of the data, and by how much losses have risen.
// It is zero as long as no pace is measured.
func (a Auto) Reason(p Progress) (r Reason) {
	if !p.Pace.Known {
		return r
	}
	r.Pace = p.Pace
	r.Top = a.firstSteps(&p)
	r.LossRise = p.LossRise
	r.ChangeRound = p.Change.Round
	if !math.IsNaN(p.Share) {
		r.Share = p.Share
	}
	return r
}

// shareSinceChange returns which part is over of what was left of the run at the newest change of the data,
// from 0 to 1: of the whole run if there was none. The part of the run that is over must be known.
func (p *Progress) shareSinceChange() float64 {
	if p.Change.Round == 0 || p.Change.Share >= 1 {
		return p.Share
	}
	// A run that was resumed with a later end has a smaller share than it had.
	return max(0, p.Share-p.Change.Share) / (1 - p.Change.Share)
}

// firstSteps returns K*, the real number of local steps with which the run begins: that at which the part
// Start of a round's time is computing, limited to 1 to K_0. The pace of p must be known.
func (a Auto) firstSteps(p *Progress) float64 {
	k0 := float64(p.K0)
	if p.Pace.Step == 0 {
		// Computing takes no time, so more steps cost nothing.
		return k0
	}
	// A round without computing takes as long as this many local steps.
	roundInSteps := p.Pace.Round / p.Pace.Step
	wanted := float64(a.Start / (1 - a.Start) * roundInSteps)
	return min(max(1, wanted), k0)
}
