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
	Phase Phase
	Now   Time
	// Round is under way, or about to be reported.
	Round RoundState
	// Model is the newest version: the number of rounds that made a model, or would have.
	Model uint64

	// Window is of the training loss. Followed is of the loss that the schedules see, if that is
	// another.
	Window   schedule.Window
	Plateau  schedule.Plateau
	Followed schedule.Window
	// Changes is the test for changes of the data, if a schedule reads them.
	Changes schedule.ChangeTest

	Simulated Tasks
	Devices   Tasks
	// Candidates are numbered with the tasks of simulated clients.
	Candidates []TaskState
	Sites      []SiteState
	// Remaining is what is left of shared transfers: of those of tasks in their order, then of
	// candidates, then of sites. It is set only in a copy, see [Machine.State].
	Remaining []fairshare.Work

	// Timers that are set, by number; 0 stands for a timer that is not set.
	Deadline uint64
	Change   uint64
	// ChangeAt is when Change falls due.
	ChangeAt Time
	Answers  uint64
	// Transfer is the next end of a shared transfer, and TransferAt is when it falls due.
	Transfer   uint64
	TransferAt Time
	NextTimer  uint64

	// Order is what an order remembers that follows its clients. It is set only in a copy.
	Order []byte
	// StepsDone are the local steps accepted so far, by client, if the run trains.
	StepsDone []int64
	// Present says by device whether it takes part, and Known what is known of it.
	Present []bool
	Known   []KnownDevice
	// LastWork is by simulated client, if computing overlaps with transfers.
	LastWork []LastWork
	// Charges are by simulated client, if any runs on a battery.
	Charges []Charge
	// Secure are the members of the round under way, and Recovery is the timer RecoveryEnds, or
	// noTimer: with secure aggregation alone.
	Secure   []SecureMember
	Recovery uint64
	// Waiting are, where rounds overlap, the members of no group, Ready the tasks of those of them that have
	// taken their steps, and InGroup is how many tasks of the group are under way.
	Waiting []SecureMember
	Ready   []uint64
	InGroup int
	// Masking says that real devices of the group mask their updates, so that the group's stages are not on the
	// clock yet.
	Masking bool
	// Stop sums up the rounds that were reported. It has a reason once the run is to stop. Its
	// evaluation is the newest one.
	Stop Stop
}

// RoundState is what the machine remembers of one round: its report as far as it
// is known, with 0 for losses that are not.
type RoundState struct { //nolint:revive // State is the whole machine's
	Report
	// Overdue says that the round's deadline has passed.
	Overdue bool
	// Trained says that the training loss is known.
	Trained bool
	// Trimmed is the trimmed mean of the round's losses, if the schedules see that.
	Trimmed float64

	// K is as its schedule gave it: local steps, or parts of an epoch.
	K int
	// Decided is when the schedules were asked.
	Decided Time
	// Limit is how long the round's clients are to take, where the selection says it.
	Limit Time
	// Times are what accepted tasks took, if a schedule reads what follows from them.
	Times []Time

	// Earlier is how many of the outcomes are of tasks of earlier rounds. It stays 0 where rounds
	// overlap.
	Earlier int

	// StragglerShare is that of the newest round before this one that has a share. Straggled says
	// that there is such a round.
	Straggled      bool
	StragglerShare float64

	// Slowest is how long the accepted task of the round took that took longest, and Computing the
	// part of it that was computing. Both are 0 unless a schedule reads the pace.
	Slowest   Time
	Computing Time
	// Pace is the mean of the rounds before this one, and Paced the number of rounds in it.
	Pace  schedule.Pace
	Paced int
}

// reset clears the numbers of a round that has ended. It keeps the round's number, its schedules'
// decisions, the steps so far, and what the next decision of the schedules may need.
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
		Pace:           r.Pace,
		Paced:          r.Paced,
	}
}

// clone returns a copy of the state that shares no memory with it, so that the machine can continue
// while the copy is kept.
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
		s.Sites[i].Members = slices.Clone(s.Sites[i].Members)
	}
	s.Simulated.List = slices.Clone(s.Simulated.List)
	s.Devices.List = slices.Clone(s.Devices.List)
	s.Candidates = slices.Clone(s.Candidates)
	s.Secure = slices.Clone(s.Secure)
	s.Waiting = slices.Clone(s.Waiting)
	s.Ready = slices.Clone(s.Ready)
	return s
}
