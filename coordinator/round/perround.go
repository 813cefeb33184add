package round

import (
	"cmp"
	"math"
	"slices"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// closingRule returns the rule that closes the round under way: the run's rule, or the one with the
// numbers of this round if they differ from round to round.
func (m *Machine) closingRule() closing.Rule {
	if m.perRound == nil {
		return m.config.Closing
	}
	return m.round.Closing.Rule()
}

// settleFormulas calculates the numbers that formulas give the round that opens, each from those before
// it: its cohort, its minibatches, the limit of its late updates, and by what it closes. progress is what the round's
// schedules were given.
func (m *Machine) settleFormulas(progress schedule.Progress) (err error) {
	cohort := m.config.CohortFormula
	late, _ := m.config.Late.(closing.PerRoundLateness)
	batch := m.config.BatchFormula
	if cohort == "" && batch == "" && late == nil && m.perRound == nil {
		return nil
	}
	facts := closing.Facts{
		Round:    progress.Round,
		Seconds:  progress.Seconds,
		K:        m.round.LocalSteps,
		K0:       progress.K0,
		Cohort:   m.config.Cohort,
		Quantile: m.expectedQuantile,
		Mean:     m.expectedMean,
	}
	// A formula sees 0 where the share of stragglers is not known yet.
	if !math.IsNaN(progress.StragglerShare) {
		facts.StragglerShare = progress.StragglerShare
	}
	if cohort != "" {
		m.round.Wanted, err = cohort.Whole("schedule.cohort", facts, m.config.Cohort)
		if err != nil {
			return err
		}
		facts.Cohort = m.round.Wanted
	}
	if batch != "" {
		m.round.Batch, err = batch.Whole("schedule.batch", facts, m.config.Batch)
		if err != nil {
			return err
		}
	}
	if late != nil {
		m.round.LateLimit, err = late.LimitIn(facts)
		if err != nil {
			return err
		}
	}
	if m.perRound != nil {
		m.round.Closing, err = m.perRound.In(facts)
		if err != nil {
			return err
		}
		m.takeRoundDeadline()
	}
	return nil
}

// cohort returns the number of clients that the round under way selects: the run's, or that which a
// formula gave the round.
func (m *Machine) cohort() int { return cmp.Or(m.round.Wanted, m.config.Cohort) }

// goesOn reports whether a task may go on after the close of the round under way, if its base model will
// then be this many aggregations old. It is called only if late updates can count, so m.lateness is not nil.
func (m *Machine) goesOn(aggregations int) bool {
	// A formula gave the round a limit of its own.
	if m.round.LateLimit > 0 {
		return aggregations <= m.round.LateLimit
	}
	return m.lateness.Keeps(aggregations)
}

// takeRoundDeadline sets the deadline by which the sampling limits clients' local steps to that of the round
// under way. It does nothing if all rounds have the same deadline, which the sampling has from the beginning.
func (m *Machine) takeRoundDeadline() {
	if m.perRound != nil {
		m.sampling.setup.Deadline = m.round.Closing.Deadline
	}
}

// taskTimes are the times that tasks of one K are expected to take, in seconds: of all clients, or of
// maxExpected that are spread evenly over them.
type taskTimes struct {
	// k is that K; 0 before any times were computed.
	k int
	// seconds are the expected times of tasks, in ascending order.
	seconds []float64
}

// maxExpected is how many clients stand for all in what tasks are expected to take.
const maxExpected = 1000

// expectedTimes returns how many seconds tasks with the K of the round under way are expected to take, in ascending
// order: for all clients, or for maxExpected clients that are spread evenly. K is in steps, or in parts of an epoch
// where the schedule counts epochs. The result is kept until K changes.
func (m *Machine) expectedTimes() []float64 {
	k := m.round.K
	// The times depend on K alone, so those of an earlier round with the same K are used again.
	if m.taskTimes.k == k {
		return m.taskTimes.seconds
	}
	clients := m.config.Clients
	if clients == 0 {
		clients = m.config.Devices.Count
	}
	count := min(clients, maxExpected)
	seconds := make([]float64, count)
	for i := range seconds {
		// The product may pass 32 bits, so it is calculated with 64.
		client := int(int64(i) * int64(clients) / int64(count))
		steps := m.sampling.scheduledSteps(client)
		seconds[i] = m.config.Expect(client, steps).Seconds()
	}
	slices.Sort(seconds)
	m.taskTimes = taskTimes{k: k, seconds: seconds}
	return seconds
}

// expectedMean returns the mean of expectedTimes, in seconds: what a task with the K of the round under
// way is expected to take in the mean over all clients, not only over those of the round.
func (m *Machine) expectedMean() float64 {
	seconds := m.expectedTimes()
	sum := 0.0
	for _, x := range seconds {
		sum += x
	}
	return sum / float64(len(seconds))
}

// expectedQuantile returns the number of seconds within which this part of the clients, from 0 to 1, is
// expected to do a task with the K of the round under way: a quantile of [Machine.expectedTimes]. It is NaN
// if part is out of range.
func (m *Machine) expectedQuantile(part float64) float64 {
	isPart := part >= 0 && part <= 1
	if !isPart {
		return math.NaN()
	}
	seconds := m.expectedTimes()
	n := float64(len(seconds))
	// The part, times the clients, is rounded up to a whole number of clients. The tolerance keeps rounding
	// errors of the part from adding a client.
	clients := int(math.Ceil(float64(part*n) - partTolerance*n))
	return seconds[max(0, clients-1)]
}

// partTolerance is how much a part may exceed a whole number of clients and still count as that number,
// so that rounding errors of a formula do not ask for one client more.
const partTolerance = 1e-12
