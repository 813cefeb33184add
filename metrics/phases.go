package metrics

import "fedpace/coordinator/round"

// Phase is a part of a task (Eq. 3).
type Phase uint8

// The phases, in the order in which a task goes through them.
const (
	Download Phase = iota
	Compute
	Upload
	Waiting // no phase is known: a device that fell silent
)

// Phases is the number of phases.
const Phases = int(Waiting) + 1

var phaseNames = [Phases]string{"download", "compute", "upload", "waiting"}

// String is the phase's name in results.
func (p Phase) String() string { return phaseNames[p] }

// Parts are the lengths of a task's phases, by [Phase].
type Parts [Phases]round.Time

// PartsOf is how the time that a task took divides into phases. They sum to e.End - e.Start: what the
// plan has beyond the end is cut, what it lacks is waiting.
func PartsOf(e *round.Ended) (p Parts) {
	left := e.End - e.Start
	p[Download] = min(left, e.Plan.Download)
	left -= p[Download]
	p[Compute] = min(left, e.Plan.Compute)
	left -= p[Compute]
	p[Upload] = min(left, e.Plan.Upload)
	p[Waiting] = left - p[Upload]
	return p
}

// Steps is how many local steps a task took of those it was given: all unless it was broken off
// while it computed, none of a candidate, which only finds a loss, and none that is known of a
// device that fell silent. p are the task's parts.
func (p *Parts) Steps(e *round.Ended) int64 {
	switch {
	case e.Probe || e.Outcome == round.Lost || p[Download] < e.Plan.Download:
		return 0
	case e.Plan.Compute == 0: // done as soon as it is reached
		return int64(e.LocalSteps)
	}
	return int64(float64(e.LocalSteps) * (float64(p[Compute]) / float64(e.Plan.Compute)))
}
