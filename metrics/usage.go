package metrics

import (
	"encoding/json"
	"fmt"
	"math"

	"fedpace/coordinator/round"
)

// Split is an amount of a resource that clients used, in two parts: for updates that are in a model
// (Useful), and for tasks that were late, broken off or needless, and for candidates that were not
// selected (Wasted).
type Split[T int64 | float64] struct {
	Useful T `json:"useful"`
	Wasted T `json:"wasted"`
}

// Add adds another split, part by part.
func (s *Split[T]) Add(more Split[T]) {
	s.Useful += more.Useful
	s.Wasted += more.Wasted
}

// waste moves everything to the wasted part.
func (s *Split[T]) waste() { *s = Split[T]{Wasted: s.Useful + s.Wasted} }

// addTo adds the amount v to the useful part if useful is true, and to the wasted part otherwise. A
// negative v takes an earlier amount away again.
func (s *Split[T]) addTo(v T, useful bool) {
	if useful {
		s.Useful += v
	} else {
		s.Wasted += v
	}
}

// All is the sum of both parts; NaN of a nil Split, whose resource is not known.
func (s *Split[T]) All() float64 {
	if s == nil {
		return math.NaN()
	}
	return float64(s.Useful + s.Wasted)
}

// WastedShare is the wasted part of the whole amount, from 0 to 1; 0 where nothing was used.
func (s Split[T]) WastedShare() float64 {
	if all := float64(s.Useful) + float64(s.Wasted); all > 0 {
		return float64(s.Wasted) / all
	}
	return 0
}

// Seconds converts nanoseconds of virtual time to seconds.
func Seconds(s Split[int64]) Split[float64] {
	return Split[float64]{round.Time(s.Useful).Seconds(), round.Time(s.Wasted).Seconds()}
}

// Usage is the resources that a run's clients used.
type Usage struct {
	// Time is the time that clients spent on tasks, in nanoseconds of virtual time.
	Time Split[int64]
	// Steps counts the local steps of SGD.
	Steps Split[int64]
	// Bytes counts the bytes of models and updates, downloads and uploads together.
	Bytes Split[int64]
	// Downloaded is the part of Bytes that clients downloaded.
	Downloaded int64
	// Joules is the energy of those clients whose class of devices states its watts.
	Joules Split[float64]

	// Straggling is how long all rounds together waited between their median client and their slowest, in
	// virtual seconds.
	Straggling float64
	// Shares is the sum over rounds of that waiting time's share of the round's duration.
	Shares float64
	// Rounds is how many rounds are in Shares.
	Rounds int

	// LeftOut counts how often the selection excluded a client that it had chosen first.
	LeftOut int64
}

// Uploaded is the part of Bytes that clients uploaded.
func (u *Usage) Uploaded() int64 { return u.Bytes.Useful + u.Bytes.Wasted - u.Downloaded }

// StragglerShare is the mean over rounds of the part of a round that lies between its median
// client and its slowest, from 0 to 1; NaN where no round has one.
func (u *Usage) StragglerShare() float64 {
	if u.Rounds == 0 {
		return math.NaN()
	}
	// Shares is the sum of that part over the rounds that have one, whose number is Rounds.
	return u.Shares / float64(u.Rounds)
}

// add adds what clients used in another part of the run. The other fields, of stragglers and of the selection, are not
// the clients' usage: [meter.round] counts them.
func (u *Usage) add(more *Usage) {
	u.Time.Add(more.Time)
	u.Steps.Add(more.Steps)
	u.Bytes.Add(more.Bytes)
	u.Downloaded += more.Downloaded
	u.Joules.Add(more.Joules)
}

// Watts is the power that a device draws in each phase of a task.
type Watts struct{ Download, Compute, Upload float64 }

// Power is what a meter must know of the clients to compute bytes and energy.
type Power struct {
	// ModelBytes is the size of a download, and UpdateBytes that of an upload.
	ModelBytes, UpdateBytes int64
	// Watts holds the power by class of simulated devices; nil: no power is known.
	Watts []Watts
	// HoldsModel says that a client with a task has the model already, because it was
	// a candidate first.
	HoldsModel bool
	// Overlap says that tasks may outlive their rounds, so no round waits for its slowest client.
	Overlap bool
}

// meter adds up what a run's clients use. The usage of a round counts when the round closes.
type meter struct {
	run *Run
	// total is the usage of all closed rounds.
	total Usage
	// open is the usage of the open round, which total does not include yet.
	open Usage
	// times holds the durations of the open round's accepted tasks, in virtual time.
	times []round.Time
}

// task adds what a task that has ended used to the open round. A report that revises an earlier one of the task,
// whose outcome was accepted, first takes away what that one added.
func (m *meter) task(e *round.TaskReport) {
	const addition = 1
	const removal = -1
	if e.Revises {
		const wasUseful = true
		m.add(e, wasUseful, removal)
	}
	useful := e.Outcome == round.Accepted
	m.add(e, useful, addition)
	// The durations show how long the round waits for its slowest client. Candidates (Probe) are asked before the
	// round's tasks, and a round whose tasks may outlive it (Overlap) waits for no client.
	if useful && !e.Probe && !m.run.Power.Overlap {
		m.times = append(m.times, e.End-e.Start)
	}
}

// add adds what task e used, its time, steps, bytes and energy, to the open round, as useful or
// wasted. sign is 1, or -1 to take an earlier report of the task away again.
func (m *meter) add(e *round.TaskReport, useful bool, sign int64) {
	parts := PartsOf(e)
	m.open.Time.addTo(sign*int64(e.End-e.Start), useful)
	m.open.Steps.addTo(sign*parts.Steps(e), useful)
	m.addBytes(e, &parts, useful, sign)
	// Energy is known only of classes whose power is configured.
	w, ok := m.watts(e.Client)
	if !ok {
		return
	}
	m.open.Joules.addTo(float64(float64(sign)*w.Joules(&parts)), useful)
}

// Joules is the energy of a task: power times duration, summed over the phases. The conversions to
// float64 prevent fused operations, so the result is the same on every machine.
func (w Watts) Joules(parts *Parts) float64 {
	return float64(w.Download*parts[Download].Seconds()) +
		float64(w.Compute*parts[Compute].Seconds()) +
		float64(w.Upload*parts[Upload].Seconds())
}

// addBytes adds the bytes that a task has moved, or subtracts them again (sign -1).
func (m *meter) addBytes(e *round.TaskReport, parts *Parts, useful bool, sign int64) {
	downloaded, uploaded := m.run.Power.Bytes(e, parts, useful)
	m.open.Downloaded += sign * downloaded
	m.open.Bytes.addTo(sign*(downloaded+uploaded), useful)
}

// Bytes are the numbers of bytes that task e has transferred each way. parts are the durations of its
// phases. Of a transfer that was broken off, bytes count in proportion to the time that had passed. A
// candidate (probe) only reports a loss, so it uploads nothing. If tasks follow from candidates (HoldsModel), only the
// candidates download the model. useful says that the update was accepted.
func (p *Power) Bytes(e *round.TaskReport, parts *Parts, useful bool) (downloaded, uploaded int64) {
	if e.Probe || !p.HoldsModel {
		// Every task begins with its download.
		const isReached = true
		downloaded = int64(float64(p.ModelBytes) * completed(parts[Download], e.Plan.Download, isReached))
	}
	if !e.Probe {
		// Where an upload takes no time, no duration shows it: it counts if the task came so far and was accepted.
		reachedUpload := parts[Download] == e.Plan.Download && parts[Compute] == e.Plan.Compute
		uploaded = int64(float64(p.UpdateBytes) * completed(parts[Upload], e.Plan.Upload, reachedUpload && useful))
	}
	return downloaded, uploaded
}

// watts is the power of the class of a client's device; false where it is not known, as for a real device
// without a class.
func (m *meter) watts(client int) (w Watts, ok bool) {
	if m.run.Power.Watts == nil {
		return w, false
	}
	class := m.run.class(client)
	if class < 0 {
		return w, false
	}
	return m.run.Power.Watts[class], true
}

// completed is the part of a phase that was completed, from 0 to 1. A phase that takes no time is
// completed as soon as it is reached.
func completed(part, planned round.Time, reached bool) float64 {
	switch {
	case planned > 0:
		return float64(part) / float64(planned)
	case reached:
		return 1
	}
	return 0
}

// round closes round r: the usage of the open round counts from now on. It also adds the time for which the round
// waited for stragglers, and that time's share of the round's duration.
func (m *meter) round(r *round.Report) {
	m.total.add(&m.open)
	m.total.LeftOut += int64(r.Excluded)
	m.open = Usage{}
	// A round without accepted tasks or without a duration has no straggler share.
	if len(m.times) > 0 && r.End > r.Start {
		// behind is in nanoseconds of virtual time.
		behind := round.Straggling(m.times)
		m.total.Shares += behind / float64(r.End-r.Start)
		m.total.Rounds++
		m.total.Straggling += behind / 1e9
	}
	m.times = m.times[:0]
}

// final is the usage of a run that has ended. What the open round used was in vain. A run that was
// stopped before its end continues with its open round when it is resumed, so that does not count yet.
func (m *meter) final(completed bool) Usage {
	if !completed {
		return m.total
	}
	open := m.open
	open.Time.waste()
	open.Steps.waste()
	open.Bytes.waste()
	open.Joules.waste()
	all := m.total
	all.add(&open)
	return all
}

// Measured is a pointer to a value, or nil for NaN, which stands for a value that was not measured.
func Measured(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// Value is what a pointer made by [Measured] points to: NaN for nil.
func Value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// Outcomes counts the tasks of a run by their [round.Outcome].
type Outcomes [round.Outcomes]int64

// Add adds the tasks of one round.
func (o *Outcomes) Add(r *round.Report) {
	for i, n := range r.Outcomes {
		o[i] += int64(n)
	}
}

// WaitedUntil returns until when a round waits for a task that has ended. A task that the deadline cut off
// counts until it would have been done, so that the slowest of those is known. ok is false for a task that no
// round waits for: one that is neither accepted nor late or, if tasks may outlive their rounds (overlap), one
// that is not accepted.
func WaitedUntil(e *round.TaskReport, overlap bool) (end round.Time, ok bool) {
	switch {
	case e.Outcome == round.Accepted:
		return e.End, true
	case e.Outcome == round.Late && !overlap:
		return max(e.End, e.Start+e.Plan.Total()), true
	}
	return 0, false
}

// ClassOutcomes counts the tasks of the clients of one class of devices by their outcome.
type ClassOutcomes struct {
	// Class is the name of the class.
	Class string `json:"class"`
	// Tasks holds the number of tasks of each outcome.
	Tasks Outcomes `json:"tasks"`
}

// Uncounted returns those of a run's classes whose clients had tasks of which none was accepted, in their
// order. It is nil if no task of any class was accepted: then the run as a whole has no update.
func Uncounted(classes []ClassOutcomes) (list []ClassOutcomes) {
	counts := false
	for _, c := range classes {
		accepted := c.Tasks[round.Accepted] > 0
		counts = counts || accepted
		if !accepted && c.Tasks != (Outcomes{}) {
			list = append(list, c)
		}
	}
	if !counts {
		return nil
	}
	return list
}

// Latest is the report r with the training loss and the validation of the previous report where r has
// none. It is evaluated if any report so far was.
func Latest(previous, r *round.Report) round.Report {
	last := *r
	if math.IsNaN(r.TrainingLoss) {
		last.TrainingLoss = previous.TrainingLoss
	}
	if !r.Evaluated {
		last.Evaluated = previous.Evaluated
		last.ValidationLoss = previous.ValidationLoss
		last.Metrics = previous.Metrics
	}
	return last
}

// MarshalJSON writes a JSON object that maps the name of each outcome to its number of tasks, in
// the order of the outcomes.
func (o Outcomes) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, n := range o {
		// A comma stands before every pair but the first.
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%q:%d", round.Outcome(i), n)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes: an object with the number of tasks for the name of
// each outcome. Every outcome must be present, and nothing else.
func (o *Outcomes) UnmarshalJSON(text []byte) error {
	var byName map[string]int64
	if err := json.Unmarshal(text, &byName); err != nil {
		return err
	}
	for i := range o {
		n, ok := byName[round.Outcome(i).String()]
		if !ok {
			return fmt.Errorf("outcomes lack %q", round.Outcome(i))
		}
		o[i] = n
	}
	// All outcomes are present, so a further name is of none.
	if len(byName) != len(o) {
		return fmt.Errorf("outcomes hold %d names, want %d", len(byName), len(o))
	}
	return nil
}

// Phase is a part of a task (Eq. 3).
type Phase uint8

// The phases, in the order in which a task goes through them.
const (
	Download Phase = iota
	Compute
	Upload
	// Waiting is the time beyond the plan, spent on a device that fell silent.
	Waiting
)

// Phases is the number of phases.
const Phases = int(Waiting) + 1

var phaseNames = [Phases]string{"download", "compute", "upload", "waiting"}

// String is the phase in a word.
func (p Phase) String() string { return phaseNames[p] }

// Parts are the durations of a task's phases, by [Phase].
type Parts [Phases]round.Time

// PartsOf divides the time that a task took into phases, which sum to e.End - e.Start. What the plan has
// beyond the task's end is cut off; what it has too little is Waiting.
func PartsOf(e *round.TaskReport) (p Parts) {
	remaining := e.End - e.Start
	p[Download] = min(remaining, e.Plan.Download)
	remaining -= p[Download]
	p[Compute] = min(remaining, e.Plan.Compute)
	remaining -= p[Compute]
	p[Upload] = min(remaining, e.Plan.Upload)
	p[Waiting] = remaining - p[Upload]
	return p
}

// Steps is how many local steps a task did of those that it was given, by the durations of its phases: all
// unless it was broken off while it computed. A candidate, which only reports a loss, does none, and of a
// device that fell silent none is known.
func (p *Parts) Steps(e *round.TaskReport) int64 {
	switch {
	case e.Probe || e.Outcome == round.Lost || p[Download] < e.Plan.Download:
		return 0
	// Computing takes no time, so the steps are done as soon as the phase is reached.
	case e.Plan.Compute == 0:
		return int64(e.LocalSteps)
	}
	return int64(float64(e.LocalSteps) * (float64(p[Compute]) / float64(e.Plan.Compute)))
}
