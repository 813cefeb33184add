package live

import (
	"encoding/json"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// waits sums the phases of each round's slowest task, by the class of its client. All other clients
// of the round waited for this one, the straggler. It is the last accepted task or, where tasks were
// late at the deadline, the one of those that would have taken longest. The tasks that a round
// reports always include the slowest, so the straggler is among them.
type waits struct {
	// Rounds counts the rounds in which a task was accepted or late, and so have a last one.
	Rounds int `json:"rounds"`
	// Share is the mean over rounds of the part of a round between its median and its slowest
	// client, from 0 to 1; null: not known.
	Share number `json:"straggler_share"`
	// Classes are in the order in which they were first met.
	Classes []waitedOn `json:"classes"`
	// Alike says that the run's clients are of one class, so that there is one in Classes at most.
	Alike bool `json:"alike"`
}

// waitedOn sums the durations of the slowest tasks of those rounds in which a client of the class was
// the slowest.
type waitedOn struct {
	// Class is the name of the class of clients, or stands for all real devices.
	Class string `json:"class"`
	// Rounds is in how many rounds a client of this class was the last.
	Rounds int `json:"rounds"`
	// Late is in how many of these rounds it was late, so that the round lasted until its deadline.
	Late int `json:"late"`
	// Download is in virtual seconds, as are the other fields.
	Download float64 `json:"download"`
	Compute  float64 `json:"compute"`
	Upload   float64 `json:"upload"`
	Waiting  float64 `json:"waiting"`
	// Alone sums how long only this class was waited for: from the end of the last accepted task of
	// another class, among the tasks that the round reports, to the end of the round's last task. A
	// round without a task of another class adds nothing.
	Alone float64 `json:"alone"`
	// Faster sums by how much these rounds would at most be shorter if the class were a tenth faster.
	Faster float64 `json:"faster"`
}

// add takes the tasks of a round of run: it finds the one that the round waited for longest, and adds
// its phases to the sums of its class. Rounds that overlap do not wait for single clients, so they are
// left out, as are rounds without an accepted or late task.
func (w *waits) add(run *metrics.Run, tasks []metrics.Task) {
	// The slowest task of all classes.
	last := lastExcept(run, tasks, noClass)
	if last == nil || run.Power.Overlap {
		return
	}
	w.Rounds++
	parts := metrics.PartsOf(&last.TaskReport)
	c := w.entryOf(className(run, last))
	c.Rounds++
	// Without the class, the round would have waited only until runnerUp had ended.
	if runnerUp := lastExcept(run, tasks, c.Class); runnerUp != nil {
		c.Alone += (last.End - runnerUp.End).Seconds()
	}
	// The sums are in the order of metrics.Phase, by which parts are indexed.
	for p, counter := range [...]*float64{&c.Download, &c.Compute, &c.Upload, &c.Waiting} {
		*counter += parts[p].Seconds()
	}
	c.Faster += fasterSaves(last).Seconds()
	if last.Outcome == round.Late {
		c.Late++
	}
}

// noClass is the name of no class of clients.
const noClass = ""

// lastExcept returns the task that a round waited for longest among its tasks of other classes than the one given,
// nil if there is none.
func lastExcept(run *metrics.Run, tasks []metrics.Task, class string) (last *metrics.Task) {
	var until round.Time
	for i := range tasks {
		t := &tasks[i]
		end, isAwaited := metrics.WaitedUntil(&t.TaskReport, run.Power.Overlap)
		if !isAwaited || t.Probe || className(run, t) == class {
			continue
		}
		if last == nil || end > until {
			last = t
			until = end
		}
	}
	return last
}

// fasterSaves returns by how much a round would be shorter if the client of its slowest task t were faster by
// a tenth, so that the task took 1/1.1 of its time. Waiting gets no shorter, and a task that would still be
// late saves nothing.
func fasterSaves(t *metrics.Task) round.Time {
	waiting := metrics.PartsOf(&t.TaskReport)[metrics.Waiting]
	worked := t.End - t.Start - waiting
	// A late task was broken off at the deadline: its plan says how long it would have taken.
	whole := worked
	if t.Outcome == round.Late {
		whole = max(worked, t.Plan.Total())
	}
	faster := round.Time(float64(whole) / 1.1)
	return max(0, worked-faster)
}

// shown returns a copy of the sums of a run as the page has them. share is the mean part of a round that lies between
// its median and its slowest client. Alike tells the page that a comparison of classes has nothing to show.
func (w *waits) shown(run *metrics.Run, share number) waits {
	mixed := run.Clients > 0 && len(run.Devices) > 0
	return waits{
		Rounds:  w.Rounds,
		Share:   share,
		Classes: slices.Clone(w.Classes),
		Alike:   len(run.Classes) < 2 && !mixed,
	}
}

// entryOf returns the sums of the class with this name, and adds an entry for a new one. The
// pointer holds until the next entry is added.
func (w *waits) entryOf(class string) *waitedOn {
	i := slices.IndexFunc(w.Classes, func(c waitedOn) bool { return c.Class == class })
	if i < 0 {
		i = len(w.Classes)
		w.Classes = append(w.Classes, waitedOn{Class: class})
	}
	return &w.Classes[i]
}

// className names the group of clients that a task belongs to: real devices, the class of a
// simulated client if the run has several classes, or else all clients.
func className(run *metrics.Run, t *metrics.Task) string {
	switch {
	case t.Real:
		return "real devices"
	case len(run.Classes) > 1 && t.Class < len(run.Classes):
		return run.Classes[t.Class]
	}
	return "clients"
}

// Mark is an event after a round, which charts show: a checkpoint, for example.
type Mark struct {
	// Kind is Checkpoint, Decay or Lost.
	Kind string `json:"kind"`
	// Round is the number of the round to which the event belongs.
	Round int `json:"round"`
	// Seconds is the virtual time of the event since the start of the run.
	Seconds float64 `json:"virtual_seconds"`
	// Count is the number of devices that were lost; 0 for other kinds.
	Count int `json:"count,omitempty"`
}

// The kinds of marks, and how many of each are shown. A schedule that lowers K_r in more
// rounds than that has no marks: its curve shows it.
const (
	Checkpoint = "checkpoint"
	// Decay marks a change of K_r, the local steps of a round.
	Decay = "decay"
	// Lost marks that devices were lost; Count says how many.
	Lost = "device"

	maxMarks  = 200
	maxDecays = 10
)

// Marks are the events of a run so far.
type Marks struct {
	// list holds the marks in their order, at most maxMarks of each kind.
	list []Mark
	// counts is the number of events of each kind, including those that list lacks.
	counts map[string]int
	// steps is K_r of the last round; 0: there was none yet.
	steps int
}

// Add takes a complete round and notes up to two events: a change of K_r, the number of local
// steps, against the round before, and devices that were lost in the round.
func (m *Marks) Add(r *round.Report) {
	// There is no change in the first round.
	if m.steps != 0 && r.LocalSteps != m.steps {
		m.put(Mark{Kind: Decay, Round: r.Round, Seconds: r.Start.Seconds()})
	}
	m.steps = r.LocalSteps
	if n := r.Outcomes[round.Lost]; n > 0 {
		m.put(Mark{
			Kind:    Lost,
			Round:   r.Round,
			Seconds: r.End.Seconds(),
			Count:   n,
		})
	}
}

// Checkpoint notes a checkpoint after a round, at a virtual time.
func (m *Marks) Checkpoint(number int, time round.Time) {
	m.put(Mark{Kind: Checkpoint, Round: number, Seconds: time.Seconds()})
}

// Complete notes that the run is complete after the round with this number. It removes the mark of a
// checkpoint after that round, because what was written to the disk at the run's end is none.
func (m *Marks) Complete(number int) {
	m.list = slices.DeleteFunc(m.list, func(x Mark) bool { return x.Kind == Checkpoint && x.Round == number })
}

// put counts a mark and appends it to the list, unless maxMarks of its kind are there already: then
// it is only counted.
func (m *Marks) put(mark Mark) {
	if m.counts == nil {
		m.counts = map[string]int{}
	}
	m.counts[mark.Kind]++
	if m.counts[mark.Kind] <= maxMarks {
		m.list = append(m.list, mark)
	}
}

// MarshalJSON writes the marks as a list in their order. A schedule that changes K_r more than
// maxDecays times shows none of these changes, because its curve of K_r shows them well.
func (m Marks) MarshalJSON() ([]byte, error) {
	shown := []Mark{}
	for _, mark := range m.list {
		if mark.Kind != Decay || m.counts[Decay] <= maxDecays {
			shown = append(shown, mark)
		}
	}
	return json.Marshal(shown)
}

// RoundJSON returns the timeline of round r of run, as JSON in the format of last_round in a
// snapshot. It needs no hub, so it also serves rounds that were read from a folder.
func RoundJSON(run *metrics.Run, r *metrics.Round) ([]byte, error) {
	s := state{last: r.Report}
	s.keep(r.Tasks)
	return json.Marshal(s.lastRound(run))
}
