package metrics

import (
	"encoding/json"
	"fmt"
	"math"

	"fedpace/coordinator/round"
)

// Split is a resource that clients used: for updates that are in a model, or for work that was
// late, broken off or not needed, and candidates that were not chosen.
type Split[T int64 | float64] struct {
	Useful T `json:"useful"`
	Wasted T `json:"wasted"`
}

// Add adds another amount.
func (s *Split[T]) Add(more Split[T]) {
	s.Useful += more.Useful
	s.Wasted += more.Wasted
}

// waste moves all to the wasted part.
func (s *Split[T]) waste() { *s = Split[T]{Wasted: s.Useful + s.Wasted} }

// addTo adds an amount to one of the parts.
func (s *Split[T]) addTo(v T, useful bool) {
	if useful {
		s.Useful += v
	} else {
		s.Wasted += v
	}
}

// All is both parts; NaN of nil, which is not known.
func (s *Split[T]) All() float64 {
	if s == nil {
		return math.NaN()
	}
	return float64(s.Useful + s.Wasted)
}

// WastedShare is the wasted part of all, from 0 to 1; 0 of nothing.
func (s Split[T]) WastedShare() float64 {
	if all := float64(s.Useful) + float64(s.Wasted); all > 0 {
		return float64(s.Wasted) / all
	}
	return 0
}

// Seconds are nanoseconds of virtual time in seconds.
func Seconds(s Split[int64]) Split[float64] {
	return Split[float64]{round.Time(s.Useful).Seconds(), round.Time(s.Wasted).Seconds()}
}

// Usage is the resources that a run's clients used.
type Usage struct {
	Time       Split[int64]   // of clients, in nanoseconds of virtual time
	Steps      Split[int64]   // local steps of SGD
	Bytes      Split[int64]   // of models, both ways
	Downloaded int64          // of Bytes
	Joules     Split[float64] // of the classes that give their watts

	// What rounds waited for between their median client and their slowest.
	Straggling float64 // virtual seconds
	Shares     float64 // sum over rounds of that time's share of the round
	Rounds     int     // that are in Shares

	LeftOut int64 // clients that the selection left out when it was their turn
}

func (u *Usage) Uploaded() int64 { return u.Bytes.Useful + u.Bytes.Wasted - u.Downloaded }

// StragglerShare is the mean over rounds of the part of a round between its median
// client and its slowest, from 0 to 1; NaN where no round has one.
func (u *Usage) StragglerShare() float64 {
	if u.Rounds == 0 {
		return math.NaN()
	}
	return u.Shares / float64(u.Rounds)
}

func (u *Usage) add(more *Usage) {
	u.Time.Add(more.Time)
	u.Steps.Add(more.Steps)
	u.Bytes.Add(more.Bytes)
	u.Downloaded += more.Downloaded
	u.Joules.Add(more.Joules)
}

// Watts is the power that a device draws in each phase of a task.
type Watts struct{ Download, Compute, Upload float64 }

// Power is what a meter must know of the clients.
type Power struct {
	ModelBytes, UpdateBytes int64
	Watts                   []Watts // by class of simulated devices; nil: no power is known
	// HoldsModel says that clients with a task hold the model already, because they
	// were candidates first.
	HoldsModel bool
	// Overlap says that tasks outlive their rounds, so none waits for its slowest client.
	Overlap bool
}

// meter adds up what a run's clients use. A round's usage counts when the round does.
type meter struct {
	run   *Run
	total Usage
	open  Usage        // of the open round
	times []round.Time // of the open round's accepted tasks
}

// task takes a task that is complete.
func (m *meter) task(e *round.TaskReport) {
	if e.Revises {
		m.add(e, true, -1)
	}
	useful := e.Outcome == round.Accepted
	m.add(e, useful, 1)
	if useful && !e.Probe && !m.run.Power.Overlap {
		m.times = append(m.times, e.End-e.Start)
	}
}

// add adds what a task used, or takes it back (times -1). parts are its phases.
func (m *meter) add(e *round.TaskReport, useful bool, times int64) {
	p := &m.run.Power
	parts := PartsOf(e)
	download := parts[Download]
	compute := parts[Compute]
	upload := parts[Upload]
	bytes := int64(0)
	if e.Probe || !p.HoldsModel {
		bytes = int64(float64(p.ModelBytes) * completed(download, e.Plan.Download, true))
		m.open.Downloaded += times * bytes
	}
	if !e.Probe { // which only finds a loss
		uploads := download == e.Plan.Download && compute == e.Plan.Compute
		bytes += int64(float64(p.UpdateBytes) * completed(upload, e.Plan.Upload, uploads && useful))
	}
	m.open.Time.addTo(times*int64(e.End-e.Start), useful)
	m.open.Steps.addTo(times*parts.Steps(e), useful)
	m.open.Bytes.addTo(times*bytes, useful)
	if w, ok := m.watts(e.Client); ok {
		m.open.Joules.addTo(float64(float64(times)*(float64(w.Download*download.Seconds())+float64(w.Compute*compute.Seconds())+float64(w.Upload*upload.Seconds()))), useful)
	}
}

// watts is the power of a client's class; false: none is known, as of a real device
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

// completed is the part of a phase that was gone through, from 0 to 1. A phase without
// a length is done as soon as it is reached.
func completed(part, planned round.Time, reached bool) float64 {
	switch {
	case planned > 0:
		return float64(part) / float64(planned)
	case reached:
		return 1
	}
	return 0
}

// round closes a round: what its clients used counts.
func (m *meter) round(r *round.Report) {
	m.total.add(&m.open)
	m.total.LeftOut += int64(r.Excluded)
	m.open = Usage{}
	if len(m.times) > 0 && r.End > r.Start {
		behind := round.Straggling(m.times)
		m.total.Shares += behind / float64(r.End-r.Start)
		m.total.Rounds++
		m.total.Straggling += behind / 1e9
	}
	m.times = m.times[:0]
}

// final is the usage of a run that has ended: what is open was for nothing, unless the run
// was stopped short of its end. Then it is resumed with it.
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

// Measured is the pointer to a value that may not exist: nil for NaN.
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

// Outcomes counts how the tasks of a run ended, by [round.Outcome].
type Outcomes [round.Outcomes]int64

// Add counts one round's tasks.
func (o *Outcomes) Add(r *round.Report) {
	for i, n := range r.Outcomes {
		o[i] += int64(n)
	}
}

// Latest returns a round's report, with the training loss and the validation of the ones before
// where they were not measured; it is evaluated once one of them was.
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

// MarshalJSON writes an object with the outcomes' names, in their order.
func (o Outcomes) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, n := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%q:%d", round.Outcome(i), n)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes; every outcome must be there.
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
	Waiting // no phase is known: a device that fell silent
)

const Phases = int(Waiting) + 1

var phaseNames = [Phases]string{"download", "compute", "upload", "waiting"}

func (p Phase) String() string { return phaseNames[p] }

// Parts are the lengths of a task's phases, by [Phase].
type Parts [Phases]round.Time

// PartsOf is how the time that a task took divides into phases. They sum to e.End - e.Start: what the
// plan has beyond the end is cut, what it lacks is waiting.
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

// Steps is how many local steps a task took of those it was given: all unless it was broken off
// while it computed, none of a candidate, which only finds a loss, and none that is known of a
// device that fell silent. p are the task's parts.
func (p *Parts) Steps(e *round.TaskReport) int64 {
	switch {
	case e.Probe || e.Outcome == round.Lost || p[Download] < e.Plan.Download:
		return 0
	case e.Plan.Compute == 0: // done as soon as it is reached
		return int64(e.LocalSteps)
	}
	return int64(float64(e.LocalSteps) * (float64(p[Compute]) / float64(e.Plan.Compute)))
}
