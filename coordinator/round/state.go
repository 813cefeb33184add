package round

import (
	"slices"

	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/schedule"
)

// State is all that a machine remembers between two steps, besides its
// configuration. It holds no NaN, so any encoding that keeps int64, uint64 and
// float64 exact (encoding/json and encoding/gob among them) restores it. It
// does not depend on how the machine came there.
type State struct {
	Phase   Phase
	Now     Time
	Round   RoundState      // under way, or about to be reported
	Model   uint64          // newest version: rounds that made a model, or would have
	Window  schedule.Window // the training loss
	Plateau schedule.Plateau

	Followed schedule.Window // the loss that the schedules see, if that is another

	Simulated  Tasks
	Devices    Tasks
	Candidates []TaskState // numbered with the tasks of simulated clients
	Sites      []SiteState
	// what is left of shared transfers, in the order of tasks, then of candidates, then of sites; set in a copy only
	Remaining []fairshare.Work

	// Timers that are set, by number; 0: none.
	Deadline   uint64
	Change     uint64
	ChangeAt   Time // when that is, if it is set
	Answers    uint64
	Transfer   uint64 // next end of a shared transfer
	TransferAt Time   // when that is; 0: none
	NextTimer  uint64

	Order     []byte        // what an order remembers that follows its clients; set in a copy only
	StepsDone []int64       // local steps accepted so far, by client, if the run trains
	Present   []bool        // by device: whether it takes part
	Known     []KnownDevice // by device
	LastWork  []LastWork    // by simulated client, if tasks overlap with transfers
	Charges   []Charge      // by simulated client, if any runs on a battery
	// the rounds that were reported, with a reason once the run is to stop; its evaluation is the newest one
	Stop Stop
}

// RoundState is what the machine remembers of one round: its report as far as it
// is known, with 0 for losses that are not.
type RoundState struct {
	Report
	Overdue bool    // its deadline has passed
	Trained bool    // its training loss is known
	Trimmed float64 // the trimmed mean of its losses, if the schedules see that

	K       int    // as its schedule gave it: local steps, or parts of an epoch
	Decided Time   // when the schedules were asked
	Limit   Time   // how long its clients are to take, where the selection says it
	Times   []Time // what its accepted tasks took, if a schedule reads what follows

	Earlier int // tasks of earlier rounds among its outcomes, unless rounds overlap

	Straggled      bool    // a straggler share is known
	StragglerShare float64 // that of the newest round before that has one
}

// reset forgets all but the round's number and schedules, the steps so far, and what
// the next round's schedules may know of it.
func (r *RoundState) reset() {
	*r = RoundState{
		Report: Report{
			Round:        r.Round,
			LocalSteps:   r.LocalSteps,
			LearningRate: r.LearningRate,
			SGDSteps:     r.SGDSteps,
		},
		K:              r.K,
		Decided:        r.Decided,
		Times:          r.Times[:0],
		Straggled:      r.Straggled,
		StragglerShare: r.StragglerShare,
	}
}

// clone is a state that shares no memory with another that a machine writes to.
func (s State) clone() State {
	s.Window.Recent = slices.Clone(s.Window.Recent)
	s.Followed.Recent = slices.Clone(s.Followed.Recent)
	s.Plateau.Best = slices.Clone(s.Plateau.Best)
	s.Round.Times = slices.Clone(s.Round.Times)
	s.StepsDone = slices.Clone(s.StepsDone)
	s.Present = slices.Clone(s.Present)
	s.Known = slices.Clone(s.Known)
	s.Charges = slices.Clone(s.Charges)
	s.LastWork = slices.Clone(s.LastWork)
	s.Sites = slices.Clone(s.Sites)
	for i := range s.Sites {
		s.Sites[i].Clients = slices.Clone(s.Sites[i].Clients)
	}
	s.Simulated.List = slices.Clone(s.Simulated.List)
	s.Devices.List = slices.Clone(s.Devices.List)
	s.Candidates = slices.Clone(s.Candidates)
	return s
}
