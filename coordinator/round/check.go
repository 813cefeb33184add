package round

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/actors/measure"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/fairshare"
	"fedpace/internal/bitset"
)

// check returns an error for a state that no machine of the configuration comes to.
func (s *State) check(c *Config) error {
	r := &s.Round
	switch {
	case s.Phase > Awaiting || s.Phase == Awaiting && c.Clients > 0:
		return fmt.Errorf("unknown phase %d", s.Phase)
	case s.Now < 0 || r.Round < 0 || r.Round > MaxRounds || s.Simulated.Next < 1 || s.Devices.Next < FirstDeviceTask || s.NextTimer < 1 || min(r.SGDSteps, int64(r.LeftOut)) < 0:
		return errors.New("a negative time or number")
	case s.Phase != Idle && (r.Round < 1 || r.LocalSteps < 1 || r.LocalSteps > MaxLocalSteps || !finite(r.LearningRate)):
		return fmt.Errorf("round %d with %d local steps and learning rate %v", r.Round, r.LocalSteps, r.LearningRate)
	case r.K < 0 || r.Decided < 0 || !(r.StragglerShare >= 0 && r.StragglerShare <= 1) || !finite(r.Trimmed) || len(r.Times) > 0 && !c.readsStragglers():
		return errors.New("what no schedule can know of a round")
	case r.Steps.Tasks < 0 || r.Steps.Tasks > r.Cohort:
		return fmt.Errorf("the local steps of %d of %d tasks", r.Steps.Tasks, r.Cohort)
	case len(s.StepsDone) != c.population():
		return fmt.Errorf("steps done of %d clients, the run has %d", len(s.StepsDone), c.population())
	case slices.ContainsFunc(s.StepsDone, func(n int64) bool { return n < 0 }):
		return errors.New("a negative number of steps done")
	case c.Devices.Count == 0 && len(s.Devices.List)+len(s.Present) > 0:
		return errors.New("devices in a run without them")
	case len(s.Present) != c.Devices.Count:
		return fmt.Errorf("the presence of %d devices, the run has %d", len(s.Present), c.Devices.Count)
	case len(s.Known) != c.Devices.Count || slices.ContainsFunc(s.Known, KnownDevice.impossible):
		return errors.New("what no device can have told or taken")
	case !finite(r.TrainingLoss) || !finite(r.ValidationLoss) || !finite(s.Stop.ValidationLoss) ||
		r.Evaluated && measure.Check(c.Metrics, r.Metrics) != nil || s.Stop.Evaluated && measure.Check(c.Metrics, s.Stop.Metrics) != nil:
		return errors.New("a loss or metric that is not finite")
	case slices.ContainsFunc(s.Order.Values, func(v float64) bool { return !finite(v) }):
		return errors.New("a memory of the selection that is not finite")
	case (s.Phase == Evaluating || s.Phase == Training || s.Phase == Querying) && !c.Train:
		return fmt.Errorf("%v in a run that does not train", s.Phase)
	case max(s.Deadline, s.Change, s.Answers, s.Transfer) >= s.NextTimer:
		return errors.New("a timer that was never set")
	}
	if heldOut, clients := c.evaluation(r, &s.Stop); s.Phase == Evaluating && !heldOut && clients == 0 {
		return fmt.Errorf("%v after round %d, when no evaluation is due", s.Phase, r.Round)
	}
	k := checker{Config: c, State: s, left: s.Left}
	err := cmp.Or(
		s.checkCharges(c),
		k.check(s.Simulated.List, 0, c.Clients, 1, s.Simulated.Next, false),
		k.check(s.Devices.List, c.Clients, c.population(), FirstDeviceTask, s.Devices.Next, false),
		k.check(s.Candidates, 0, c.Clients, 1, s.Simulated.Next, true))
	if err != nil {
		return err
	}
	sum := 0
	for _, n := range r.Outcomes {
		if n < 0 {
			return errors.New("a negative number of outcomes")
		}
		sum += n
	}
	queries := len(s.Candidates) > 0 && s.Answers == 0 && k.unplanned == 0 && k.answering == 0
	switch {
	case (s.Phase == Planning) != (k.unplanned > 0):
		return fmt.Errorf("%v with %d tasks to be planned", s.Phase, k.unplanned)
	case (s.Phase == Querying) != queries:
		return fmt.Errorf("%v with %d candidates", s.Phase, len(s.Candidates))
	case s.Phase == Training && k.accepted == 0 || c.Train && k.accepted > 0 && k.accepted != r.Outcomes[Accepted]:
		return fmt.Errorf("%v with %d updates to be trained, %d were accepted", s.Phase, k.accepted, r.Outcomes[Accepted])
	case r.Stale < 0 || r.Stale > min(r.Earlier, r.Outcomes[Accepted]) || r.Earlier > r.Cohort || r.Earlier > 0 && !closing.UsesLate(c.Late):
		return fmt.Errorf("%d tasks of earlier rounds, %d of them accepted", r.Earlier, r.Stale)
	case sum != r.Cohort:
		return fmt.Errorf("%d outcomes of %d tasks", sum, r.Cohort)
	case len(k.left) > 0:
		return fmt.Errorf("%d shared transfers too many", len(k.left))
	}
	return nil
}

// checker holds lists of tasks to what they must be, and counts them.
type checker struct {
	*Config
	*State
	left                           []fairshare.Work // what the tasks to come have left
	unplanned, accepted, answering int
}

// check refuses tasks other than first..next-1 of the clients from..to-1.
func (k *checker) check(tasks []TaskState, from, to int, first, next uint64, candidates bool) error {
	busy := bitset.New(k.population())
	last := TaskState{Task: first - 1}
	for i := range tasks {
		t := &tasks[i]
		client := int(t.Client)
		bad := ""
		switch {
		case t.Task <= last.Task || t.Task >= next:
			bad = "its number is out of order"
		case client < from || client >= to:
			bad = "there is no such client"
		case t.Status > TaskAccepted:
			bad = "it is over"
		case t.underWay() && busy.Has(client):
			bad = "the client has another task"
		case t.Round < 1 || int(t.Round) > k.Round.Round || t.Model > k.Model || t.Model < last.Model:
			bad = "its round or model does not fit"
		case t.LocalSteps < 1 || t.LocalSteps > MaxLocalSteps || !finite(t.LearningRate) || t.StepsDone < 0:
			bad = "its work is impossible"
		case t.Start < 0 || t.Start > k.Now || min(t.Download, t.Compute, t.Upload, t.Dropout) < 0 ||
			max(t.Download, t.Compute, t.Upload, t.Dropout) > MaxDuration || t.Timer >= k.NextTimer || t.Status == TaskIssued && t.Timer != 0:
			bad = "its time or timer is impossible"
		case !candidates && t.Status == TaskPlanned && !t.placed() && k.Phase != Planning:
			bad = "it is planned and not on the clock"
		case !candidates && t.placed() && i > 0 && !last.placed():
			bad = "it is on the clock before the task ahead of it"
		case t.Forced != Accepted && (t.Forced != Lost && t.Forced != Refused && t.Forced != Late || client < k.Clients || t.Status == TaskIssued):
			bad = "its outcome cannot be known"
		case t.Status == TaskAccepted && (!k.Train || candidates || t.Timer == 0 || t.Drops || t.Forced != Accepted):
			bad = "it cannot have been accepted"
		case !k.linked(t, candidates):
			bad = "it cannot be on the link"
		}
		if bad != "" {
			return fmt.Errorf("task %d of client %d, the %d. kept: %s", t.Task, t.Client, i+1, bad)
		}
		last = *t
		if t.underWay() {
			busy.Add(client)
		}
		switch {
		case t.Status == TaskAccepted:
			k.accepted++
		case t.Status == TaskIssued:
			k.unplanned++
		case candidates && t.atWork():
			k.answering++
		}
	}
	return nil
}

// linked reports whether a task can be at its stage, and takes what is left of
// its transfer.
func (k *checker) linked(t *TaskState, candidate bool) bool {
	if t.Stage == NoStage {
		return t.Link == 0
	}
	if !k.Server.shared() || t.Status != TaskPlanned || int(t.Client) >= k.Clients {
		return false
	}
	need := k.Server.Download
	switch t.Stage {
	case Computing:
		return t.Link > 0 && t.Link < k.NextTimer
	case Finished:
		return t.Link == 0
	case Uploading:
		need = k.Server.Upload
	}
	if t.Stage > Finished || t.Stage == Uploading && candidate || t.Link != 0 || need.IsZero() || len(k.left) == 0 || need.Less(k.left[0]) {
		return false
	}
	k.left = k.left[1:]
	return true
}

// checkCharges refuses charges that no machine of the configuration comes to.
func (s *State) checkCharges(c *Config) error {
	clients := c.Clients
	if c.Batteries == nil {
		clients = 0
	}
	if len(s.Charges) != clients {
		return errors.New("batteries of another run")
	}
	for _, x := range s.Charges {
		if !(x.Joules >= -1) || math.IsInf(x.Joules, 0) || x.At < 0 || x.At > s.Now {
			return errors.New("a battery that holds what none can hold")
		}
	}
	return nil
}
