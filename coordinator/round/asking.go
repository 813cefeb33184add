package round

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// probe is what a candidate is asked for.
func (m *Machine) probe(f *flight) Task {
	t := m.task(f)
	t.Probe = true
	return t
}

// probe is a plan up to a candidate's answer, a number whose upload takes no
// time.
func (p Plan) probe() Plan {
	p.Upload = 0
	if p.Dropout >= p.Total() {
		p.Drops = false
	}
	return p
}

// withoutDownload is the plan of a client that holds the model.
func (p Plan) withoutDownload() Plan {
	p.Dropout = max(0, p.Dropout-p.Download)
	p.Download = 0
	return p
}

// placeAnswers sets a timer for when every candidate has answered or dropped
// out.
func (m *Machine) placeAnswers() {
	last := Time(0)
	for i := range m.probes.list {
		last = max(last, m.probes.list[i].takes)
	}
	m.answers = m.schedule(Timer{At: m.now + last, Priority: priorityTask, Kind: CandidatesAnswered})
	m.phase = Clocked
}

// ask asks for the losses of the candidates that answered and are still
// available.
func (m *Machine) ask() error {
	m.probes.list = slices.DeleteFunc(m.probes.list, func(f flight) bool {
		switch {
		case f.drops:
			m.endProbe(&f, Dropped)
		case !m.available(int(f.client)):
			m.endProbe(&f, Cancelled)
		default:
			return false
		}
		return true
	})
	if len(m.probes.list) == 0 {
		m.endProbes()
		return m.close()
	}
	m.askLosses()
	m.phase = Asking
	return nil
}

func (m *Machine) askLosses() {
	for i := range m.probes.list {
		m.out.Ask = append(m.out.Ask, m.probe(&m.probes.list[i]))
	}
}

// answered gives the candidates with the highest losses their tasks, in the
// order in which the candidates were drawn. Of equal losses the first drawn
// goes before.
func (m *Machine) answered(losses []float64) error {
	if m.phase != Asking {
		return fmt.Errorf("round: candidates' losses while the machine was %v", m.phase)
	}
	if len(losses) != len(m.probes.list) {
		return fmt.Errorf("round: %d losses of %d candidates", len(losses), len(m.probes.list))
	}
	places := make([]int, len(losses))
	for i, loss := range losses {
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return fmt.Errorf("round: the loss of candidate %d in round %d is %v", m.probes.list[i].client, m.round, loss)
		}
		places[i] = i
	}
	slices.SortStableFunc(places, func(i, j int) int { return cmp.Compare(losses[j], losses[i]) })
	chosen := min(m.config.Cohort, len(places))
	for _, i := range places[chosen:] {
		m.endProbe(&m.probes.list[i], Cancelled)
	}
	places = places[:chosen]
	slices.Sort(places)
	m.probing = false
	for _, i := range places {
		m.endProbe(&m.probes.list[i], Accepted)
		m.issue(int(m.probes.list[i].client))
	}
	m.probes.reset()
	m.phase = Planning
	return nil
}

// endProbes forgets the candidates.
func (m *Machine) endProbes() {
	if m.answers != 0 {
		m.out.Cancel = append(m.out.Cancel, m.answers)
		m.answers = 0
	}
	for i := range m.probes.list {
		m.endProbe(&m.probes.list[i], Cancelled)
	}
	m.probing = false
	m.probes.reset()
}

// endProbe ends a candidate's part, which may have been over before now.
func (m *Machine) endProbe(f *flight, o Outcome) {
	m.leaveLink(f)
	m.out.Ended = appendEnded(m.out.Ended, f, o, min(m.now, f.start+f.takes), true)
}
