package round

import (
	"errors"
	"fmt"
	"slices"

	"fedpace/coordinator/fairshare"
)

// check refuses what no machine remembers.
func (s *State) check(c *Config) error {
	timers := max(s.Deadline, s.Change, s.Answers, s.Transfer)
	r := &s.Round
	switch {
	case s.Phase > Stopped:
		return fmt.Errorf("unknown phase %d", s.Phase)
	case s.Now < 0 || r.Number < 0 || r.Number > MaxRounds || s.Simulated.Next < 1 || s.Devices.Next < FirstDeviceTask || s.NextTimer < 1 || s.SGDSteps < 0:
		return errors.New("a negative time or number")
	case s.Phase != Idle && (r.Number < 1 || r.LocalSteps < 1 || r.LocalSteps > MaxLocalSteps || !finite(r.LearningRate)):
		return fmt.Errorf("round %d with %d local steps and learning rate %v", r.Number, r.LocalSteps, r.LearningRate)
	case len(s.StepsDone) != c.population():
		return fmt.Errorf("steps done of %d clients, the run has %d", len(s.StepsDone), c.population())
	case slices.ContainsFunc(s.StepsDone, func(n int64) bool { return n < 0 }):
		return errors.New("a negative number of steps done")
	case c.Devices.Count == 0 && len(s.Devices.List)+len(s.Present) > 0:
		return errors.New("devices in a run without them")
	case len(s.Present) != c.Devices.Count:
		return fmt.Errorf("the presence of %d devices, the run has %d", len(s.Present), c.Devices.Count)
	case !finite(r.Loss.Value) || !finite(s.Measured.Loss) || !finite(s.Measured.Accuracy):
		return errors.New("a loss or accuracy that is not finite")
	case (s.Phase == Evaluating || s.Phase == Training || s.Phase == Querying) && !c.Train:
		return fmt.Errorf("%v in a run that does not train", s.Phase)
	case timers >= s.NextTimer:
		return errors.New("a timer that was never set")
	}
	unplanned, accepted, answering := 0, 0, 0
	for _, list := range []taskCheck{
		{s.Simulated.List, 0, c.Clients, 1, s.Simulated.Next, false},
		{s.Devices.List, c.Clients, c.population(), FirstDeviceTask, s.Devices.Next, false},
		{s.Candidates, 0, c.Clients, 1, s.Simulated.Next, true},
	} {
		if err := list.check(c, s); err != nil {
			return err
		}
		for i := range list.tasks {
			switch t := &list.tasks[i]; {
			case t.Status == TaskAccepted:
				accepted++
			case t.Status == TaskIssued:
				unplanned++
			case list.candidates && t.atWork():
				answering++
			}
		}
	}
	sum := 0
	for _, n := range r.Outcomes {
		if n < 0 {
			return errors.New("a negative number of outcomes")
		}
		sum += n
	}
	queries := len(s.Candidates) > 0 && s.Answers == 0 && unplanned == 0 && answering == 0
	switch {
	case (s.Phase == Planning) != (unplanned > 0):
		return fmt.Errorf("%v with %d tasks to be planned", s.Phase, unplanned)
	case (s.Phase == Querying) != queries:
		return fmt.Errorf("%v with %d candidates", s.Phase, len(s.Candidates))
	case s.Phase == Training && accepted == 0 || c.Train && accepted > 0 && accepted != r.Outcomes[Accepted]:
		return fmt.Errorf("%v with %d updates to be trained, %d were accepted", s.Phase, accepted, r.Outcomes[Accepted])
	case sum != r.Cohort:
		return fmt.Errorf("%d outcomes of %d tasks", sum, r.Cohort)
	}
	return nil
}

// taskCheck is a list of tasks with what they must be.
type taskCheck struct {
	tasks       []TaskState
	from, to    int    // clients from..to-1
	first, next uint64 // tasks first..next-1
	candidates  bool
}

func (l *taskCheck) check(c *Config, s *State) error {
	busy := newBitset(c.population())
	var last TaskState
	last.Task = l.first - 1
	for i := range l.tasks {
		t := &l.tasks[i]
		client := int(t.Client)
		bad := ""
		switch {
		case t.Task <= last.Task || t.Task >= l.next:
			bad = "its number is out of order"
		case client < l.from || client >= l.to:
			bad = "there is no such client"
		case t.Status > TaskAccepted:
			bad = "it is over"
		case t.underWay() && busy.has(client):
			bad = "the client has another task"
		case t.Round < 1 || int(t.Round) > s.Round.Number || t.Model > s.Model || t.Model < last.Model:
			bad = "its round or model does not fit"
		case t.LocalSteps < 1 || t.LocalSteps > MaxLocalSteps || !finite(t.LearningRate) || t.StepsDone < 0:
			bad = "its work is impossible"
		case t.Start < 0 || t.Start > s.Now || min(t.Download, t.Compute, t.Upload) < 0 || max(t.Download, t.Compute, t.Upload) > MaxDuration ||
			t.Takes < 0 || t.Takes > 3*MaxDuration || t.Timer >= s.NextTimer || t.Status == TaskIssued && t.Timer != 0:
			bad = "its time or timer is impossible"
		case !l.candidates && t.Status == TaskPlanned && !t.placed() && s.Phase != Planning:
			bad = "it is planned and not on the clock"
		case !l.candidates && t.placed() && i > 0 && !last.placed():
			bad = "it is on the clock before the task ahead of it"
		case t.Forced != Accepted && (t.Forced != Lost && t.Forced != Refused || client < c.Clients || t.Status == TaskIssued):
			bad = "its outcome cannot be known"
		case t.Status == TaskAccepted && (!c.Train || l.candidates || t.Timer == 0 || t.Drops || t.Forced != Accepted):
			bad = "it cannot have been accepted"
		case t.Stage == NoStage && (t.Computed != 0 || !t.Left.IsZero()) || t.Stage != NoStage && !t.linked(c, s, l.candidates):
			bad = "it cannot be on the link"
		}
		if bad != "" {
			return fmt.Errorf("task %d of client %d, the %d. kept: %s", t.Task, t.Client, i+1, bad)
		}
		last = *t
		if t.underWay() {
			busy.add(client)
		}
	}
	return nil
}

// placed reports whether the end of a task with a plan is to come on the clock
// or has come.
func (t *TaskState) placed() bool { return t.Timer != 0 || t.Stage != NoStage }

// atWork reports whether a candidate on the link has yet to answer or drop out.
func (t *TaskState) atWork() bool { return t.Timer != 0 || t.Stage != NoStage && t.Stage != Finished }

// linked reports whether a task can be on the link as it says.
func (t *TaskState) linked(c *Config, s *State, candidate bool) bool {
	fits := func(need fairshare.Work) bool { return !need.IsZero() && !need.Less(t.Left) }
	switch {
	case !c.Server.shared() || t.Status != TaskPlanned || int(t.Client) >= c.Clients:
		return false
	case (t.Computed != 0) != (t.Stage == Computing) || t.Computed >= s.NextTimer:
		return false
	}
	switch t.Stage {
	case Downloading:
		return fits(c.Server.Download)
	case Uploading:
		return fits(c.Server.Upload) && !candidate
	}
	return t.Stage <= Finished && t.Left.IsZero()
}
