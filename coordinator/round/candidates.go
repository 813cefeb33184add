package round

import (
	"cmp"
	"fmt"
	"slices"
)

// candidates are the clients that a round with the selection [selection.ByLosses] asks for their
// losses before it selects its cohort among them. They are issued and planned as tasks are, compute
// one local step, and are asked for their losses together. The list is empty once the cohort is
// selected.
type candidates struct {
	step      *step
	transfers *transfers
	// list holds the candidates of the round's query, numbered with the tasks of simulated clients.
	list []TaskState
	// answersTimer is the number of the timer of the last candidate's answer, where transfers are not shared, or
	// noTimer.
	answersTimer uint64
	// unanswered counts the candidates that have not answered, where transfers are shared.
	unanswered int
}

// underWay reports whether the round waits for candidates. As long as it does, the number of a task
// is that of a candidate.
func (c *candidates) underWay() bool { return len(c.list) > 0 }

// start has the candidates begin: clients that download the model and compute a loss, by which the round
// then selects its cohort among them. It is called when all have a plan, which says how long that takes them.
//
// If clients do not share bandwidth, one timer is set for the last answer, because all losses are queried
// together. If they do, the end of each candidate depends on the transfers of the others, and
// [transfers.beginTask] sets its timers.
func (c *candidates) start() {
	if c.transfers == nil {
		last := Time(0)
		for i := range c.list {
			last = max(last, c.list[i].duration())
		}
		c.answersTimer = c.step.setTimer(Timer{At: c.step.now + last, Priority: priorityTask, Kind: CandidatesAnswered})
		return
	}
	const isCandidate = true
	const hasModel = false
	for i := range c.list {
		c.unanswered++
		c.transfers.beginTask(&c.list[i], isCandidate, hasModel)
	}
}

// dropOut handles the timer by which a candidate, a client that is asked for its loss, drops out: its transfer
// ends, so that others that share the link have its bandwidth. The candidate stays in the list until
// removeUnavailable. A timer that is not the candidate's is an error.
func (c *candidates) dropOut(timer Timer) error {
	t := find(c.list, timer.Task)
	if t == nil || t.Timer != timer.Seq {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	t.Timer = 0
	c.transfers.endTask(t)
	return nil
}

// removeUnavailable is called when all candidates should have answered. It takes those out of the list that
// cannot be selected, because they have dropped out or are not available any more, and reports how they ended. The
// others stay in their order. available says whether a client can be given a task.
func (c *candidates) removeUnavailable(available func(client int) bool) {
	c.list = slices.DeleteFunc(c.list, func(t TaskState) bool {
		switch {
		case t.Drops:
			c.finish(&t, Dropped)
		case !available(int(t.Client)):
			c.finish(&t, Cancelled)
		default:
			return false
		}
		return true
	})
}

// query asks the driver for the loss of each candidate on the newest model. train says whether the run
// trains; if not, there is a single model, and the query names no version.
func (c *candidates) query(train bool) {
	for i := range c.list {
		c.list[i].describe(appendElement(&c.step.effects.Query), train).Probe = true
	}
}

// choose ends the query of a round: it returns the cohort, the clients with the highest losses, in the
// order in which they were drawn, and ends the part of all other candidates. losses[i] is that of candidate
// i. Of equal losses the candidate that was drawn first is chosen. A loss that is not finite is an error.
func (c *candidates) choose(losses []float64, cohort int) (clients []int32, err error) {
	if len(losses) != len(c.list) {
		return nil, fmt.Errorf("round: %d losses of %d candidates", len(losses), len(c.list))
	}
	// order has the places of the candidates, those with the highest losses first.
	order := make([]int, len(losses))
	for i, loss := range losses {
		if !finite(loss) {
			t := &c.list[i]
			return nil, fmt.Errorf("round: the loss of candidate %d in round %d is %v", t.Client, t.Round, loss)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(losses[j], losses[i]) })
	chosen := order[:min(cohort, len(order))]
	// The other candidates are done, and their clients are free again.
	for _, i := range order[len(chosen):] {
		c.finish(&c.list[i], Cancelled)
	}
	// The chosen ones are listed in the order in which they were drawn.
	slices.Sort(chosen)
	for _, i := range chosen {
		c.finish(&c.list[i], Accepted)
		clients = append(clients, c.list[i].Client)
	}
	c.list = c.list[:0]
	return clients, nil
}

// cancel ends the part of all candidates as cancelled, because the run ends, and cancels the timer of their
// last answer.
func (c *candidates) cancel() {
	c.step.cancelTimer(&c.answersTimer)
	for i := range c.list {
		c.finish(&c.list[i], Cancelled)
	}
	c.list = c.list[:0]
}

// finish ends a candidate's part with an outcome, and reports it to the driver. The report says when the
// candidate was done: now, or earlier if it has waited for the others.
func (c *candidates) finish(t *TaskState, o Outcome) {
	c.transfers.endTask(t)
	c.step.cancelTimer(&t.Timer)
	end := min(c.step.now, t.Start+t.duration())
	const isCandidate = true
	c.step.emitOutcome(t, o, end, t.Model, isCandidate)
}
