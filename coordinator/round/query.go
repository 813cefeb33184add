package round

import (
	"cmp"
	"fmt"
	"slices"
)

// Where the selection is [selection.ByLosses] a round begins with candidates: they are
// issued and planned as tasks are, compute one local step, and are asked for
// their losses together. There are candidates in the state as long as that
// takes.

// untilAnswer shortens a plan to a candidate's answer, a number whose upload takes
// no time.
func (p *Plan) untilAnswer() {
	p.Upload = 0
	if p.Dropout >= p.Total() {
		p.Drops = false
	}
}

// withoutDownload makes a plan that of a client that holds the model.
func (p *Plan) withoutDownload() {
	p.Dropout = max(0, p.Dropout-p.Download)
	p.Download = 0
}

// placeCandidates starts the candidates, which all have plans.
func (m *Machine) placeCandidates() error {
	m.s.Phase = Clocked
	last := Time(0)
	for i := range m.s.Candidates {
		t := &m.s.Candidates[i]
		if m.link != nil {
			m.beginTransfers(t)
		}
		last = max(last, t.takes())
	}
	if m.link == nil {
		m.s.Answers = m.set(Timer{At: m.s.Now + last, Priority: priorityTask, Kind: CandidatesAnswered})
	}
	return nil
}

// candidateDrops handles a candidate whose client drops out on a shared link.
func (m *Machine) candidateDrops(timer Timer) error {
	t := find(m.s.Candidates, timer.Task)
	if t == nil || t.Timer != timer.Seq {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	t.Timer = 0
	m.endTransfers(t)
	return m.candidateDone()
}

// candidateDone asks for the losses once no candidate is under way on a shared
// link any more.
func (m *Machine) candidateDone() error {
	m.link.candidates--
	if m.link.candidates > 0 {
		return nil
	}
	return m.queryLosses()
}

// queryLosses asks for the losses of the candidates that answered and are still
// available.
func (m *Machine) queryLosses() error {
	m.s.Candidates = slices.DeleteFunc(m.s.Candidates, func(t TaskState) bool {
		switch {
		case t.Drops:
			m.endCandidate(&t, Dropped)
		case !m.available(int(t.Client)):
			m.endCandidate(&t, Cancelled)
		default:
			return false
		}
		return true
	})
	if len(m.s.Candidates) == 0 {
		return m.closeRound()
	}
	m.requestLosses()
	m.s.Phase = Querying
	return nil
}

// requestLosses asks the driver for the losses.
func (m *Machine) requestLosses() {
	for i := range m.s.Candidates {
		m.describe(grow(&m.out.Query), &m.s.Candidates[i]).Probe = true
	}
}

// queried gives the candidates with the highest losses their tasks, in the
// order in which the candidates were drawn. Of equal losses the first drawn
// goes before.
func (m *Machine) queried(losses []float64) error {
	candidates := m.s.Candidates
	if m.s.Phase != Querying {
		return fmt.Errorf("round: candidates' losses while the machine was %v", m.s.Phase)
	}
	if len(losses) != len(candidates) {
		return fmt.Errorf("round: %d losses of %d candidates", len(losses), len(candidates))
	}
	order := make([]int, len(losses))
	for i, loss := range losses {
		if !finite(loss) {
			return fmt.Errorf("round: the loss of candidate %d in round %d is %v", candidates[i].Client, m.Round(), loss)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(losses[j], losses[i]) })
	chosen := order[:min(m.config.Cohort, len(order))]
	for _, i := range order[len(chosen):] {
		m.endCandidate(&candidates[i], Cancelled)
	}
	slices.Sort(chosen)
	m.free = m.free[:0]
	for _, i := range chosen {
		m.free = append(m.free, candidates[i].Client)
	}
	m.setRoundDeadline(m.free)
	m.s.Candidates = nil
	for _, i := range chosen {
		m.endCandidate(&candidates[i], Accepted)
		m.issueTask(int(candidates[i].Client))
	}
	m.s.Candidates = candidates[:0]
	m.s.Phase = Planning
	return nil
}

// cancelQuery gives up the candidates there are.
func (m *Machine) cancelQuery() {
	m.cancel(&m.s.Answers)
	for i := range m.s.Candidates {
		m.endCandidate(&m.s.Candidates[i], Cancelled)
	}
	m.s.Candidates = m.s.Candidates[:0]
}

// endCandidate ends a candidate's part, which may have been over before now.
func (m *Machine) endCandidate(t *TaskState, o Outcome) {
	m.endTransfers(t)
	m.cancel(&t.Timer)
	m.emitOutcome(t, o, min(m.s.Now, t.Start+t.takes()), true)
}
