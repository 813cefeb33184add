package round

import "fmt"

// step is the time of the machine's newest step, and what follows from it. The parts of
// the machine share it.
type step struct {
	now Time
	// nextTimer is the number of the next timer.
	nextTimer uint64
	effects   Effects
}

// setTimer asks the driver to put timer t on the clock, and returns the number by which it can be
// cancelled. No number is used twice.
func (s *step) setTimer(t Timer) uint64 {
	t.Seq = s.nextTimer
	s.nextTimer++
	s.effects.Timers = append(s.effects.Timers, t)
	return t.Seq
}

// cancelTimer asks the driver to remove a timer, if it is set, from the clock, and sets its number to
// noTimer.
func (s *step) cancelTimer(timer *uint64) {
	if *timer != noTimer {
		s.effects.Cancel = append(s.effects.Cancel, *timer)
		*timer = noTimer
	}
}

// clearTimer sets a timer's number to noTimer because it fell due. It is an error if t has another number:
// it then was cancelled, or is another timer.
func clearTimer(timer *uint64, t Timer) error {
	if *timer != t.Seq {
		return fmt.Errorf("round: timer %d is not set", t.Seq)
	}
	*timer = noTimer
	return nil
}

// emitOutcome adds to the effects the report that a task or candidate (candidate) ended at the time end with an
// outcome. newest is the version of the model against which its staleness counts: the newest one. The report is
// filled in place, without a copy, because a run has one for each task.
func (s *step) emitOutcome(task *TaskState, o Outcome, end Time, newest uint64, candidate bool) {
	report := appendElement(&s.effects.Ended)
	report.Task = task.Task
	report.Client = int(task.Client)
	report.LocalSteps = int(task.LocalSteps)
	report.Probe = candidate
	report.Outcome = o
	report.Revises = false
	report.Model = task.Model
	report.Staleness = int(newest - task.Model)
	report.Start = task.Start
	report.End = end
	report.Plan.Download = task.Download
	report.Plan.Compute = task.Compute
	report.Plan.Upload = task.Upload
	report.Plan.Drops = task.Drops
	report.Plan.Dropout = task.Dropout
}

// describe fills task with the task as the driver sees it, and returns that. train says whether the run trains;
// without training there is a single model, number 0.
func (t *TaskState) describe(task *Task, train bool) *Task {
	task.Task = t.Task
	task.Client = int(t.Client)
	task.Round = int(t.Round)
	task.Model = 0
	task.LocalSteps = int(t.LocalSteps)
	task.LearningRate = t.LearningRate
	task.StepsDone = t.StepsDone
	task.Start = t.Start
	task.Staleness = 0
	task.Batch = int(t.Batch)
	task.BatchPart = 0
	task.Probe = false
	task.Joules = 0
	if train {
		task.Model = t.Model
	}
	return task
}

// appendElement appends an element to a list and returns a pointer to it, for the caller to fill: it may
// hold what its memory held before.
func appendElement[T any](list *[]T) *T {
	n := len(*list)
	if n == cap(*list) {
		*list = append(*list, *new(T))
	}
	*list = (*list)[:n+1]
	return &(*list)[n]
}
