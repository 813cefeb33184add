package live

import (
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"fedpace/coordinator/round"
	"fedpace/metrics/timeline"
)

// About says what run it is. Its texts are shown as they are.
type About struct {
	Name, Task, Schedule string // as the metrics' labels
	Data                 string // what is learned from; empty: nothing, the run is timed alone
	Closing              string // the closing rule in words
	Version              string
	Seed                 uint64
	Clients, Cohort      int        // simulated clients in all, and clients a round
	Devices              []string   // names of the real ones, whose numbers follow the others'
	Classes              []string   // of the simulated clients' devices, by number; fewer than two are not shown
	Window               int        // rounds in the mean of the training loss (Eq. 15)
	Rounds               int        // the run ends after so many; 0: not known
	VirtualTotal         float64    // it ends at that virtual time in seconds; 0: not known
	Deadline             round.Time // of a round after its start; 0: none
	TargetAccuracy       float64    // the accuracy at which it ends; 0: none
	Started              time.Time  // wall clock
}

// Split is what clients spent: useful on updates that count, and on all else.
type Split struct {
	Useful float64 `json:"useful"`
	Wasted float64 `json:"wasted"`
}

// Spending is what all clients of a run have come to.
type Spending struct {
	ClientSeconds Split `json:"client_seconds"` // virtual
	Steps         Split `json:"sgd_steps"`
	Bytes         Split `json:"bytes"`
}

// Round is a round that is complete.
type Round struct {
	*round.Report
	Tasks    []timeline.Task // some that ended in it
	Fraction float64         // of the run that is done, 0 to 1; 0: not known
	Spent    Spending        // until now
}

// End is how a run ended.
type End struct {
	Completed bool
	Why       string        // it did not complete; empty otherwise
	Elapsed   time.Duration // wall time
	Summary   []byte        // summary.json
	Final     *Validation   // of the final model; nil: it was not measured
}

// Validation is a model measured on the held-out samples.
type Validation struct {
	Loss, Accuracy float64 // NaN: there is none
}

// Limits of what a hub holds.
const (
	maxTasks   = 256 // of the last round
	maxNotices = 50
	maxText    = 600 // bytes of a text that is shown
)

// notice is what the user was told.
type notice struct {
	Round int    `json:"round"` // the last that was complete
	Text  string `json:"text"`
	Times int    `json:"times"` // in a row
}

// Hub holds what the page shows of one run. Round, Notice, Actors and End belong
// to the run; its handler may be asked by anybody at any time.
type Hub struct {
	about About
	id    string // tells this hub's frames from those of an earlier process
	pace  pace

	mu    sync.Mutex
	state state

	frames frames
}

// state is everything that a frame shows.
type state struct {
	version     uint64 // grows with every change
	history     history
	evaluations evaluations
	spread      spread
	last        round.Report // its losses are those last measured
	bestWindow  float64      // NaN: none
	outcomes    [round.Outcomes]int64
	empty       int // rounds in which nothing was accepted
	spent       Spending
	fraction    float64
	at          time.Time // wall clock of the last round
	tasks       []timeline.Task
	simulated   int
	real        int
	notices     []notice
	unseen      int           // notices that are no longer held
	elapsed     time.Duration // wall time of earlier lives
	end         *End          // nil: the run goes on
}

// New makes the hub of a run that begins.
func New(about About) *Hub {
	nan := math.NaN()
	for _, text := range []*string{&about.Name, &about.Task, &about.Schedule, &about.Data, &about.Closing, &about.Version} {
		*text = cut(*text)
	}
	if about.Started.IsZero() {
		about.Started = time.Now()
	}
	about.Devices, about.Classes = slices.Clone(about.Devices), slices.Clone(about.Classes)
	for _, names := range [][]string{about.Devices, about.Classes} {
		for i, name := range names {
			names[i] = cut(name)
		}
	}
	h := &Hub{about: about, pace: usualPace, id: about.Started.UTC().Format("20060102T150405.000000000")}
	h.state = state{
		history: newHistory(), evaluations: newEvaluations(), spread: newSpread(), bestWindow: nan,
		last:  round.Report{TrainingLoss: nan, WindowLoss: nan, ValidationLoss: nan, ValidationAccuracy: nan},
		tasks: make([]timeline.Task, 0, maxTasks), simulated: about.Clients, real: len(about.Devices), notices: []notice{},
	}
	h.frames.changed = make(chan struct{})
	return h
}

// Round takes in a round. It copies what it keeps.
func (h *Hub) Round(r Round) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.state
	s.version++
	s.at = now
	before := s.last
	s.last = *r.Report
	if math.IsNaN(r.TrainingLoss) {
		s.last.TrainingLoss = before.TrainingLoss
	}
	if math.IsNaN(r.WindowLoss) {
		s.last.WindowLoss = before.WindowLoss
	}
	if !(s.bestWindow <= r.WindowLoss) { // also when there is none yet
		s.bestWindow = r.WindowLoss
	}
	if r.Evaluated {
		s.evaluations.add(evaluation{r.Report.Round, r.End, r.ValidationLoss, r.ValidationAccuracy})
	} else {
		s.last.ValidationLoss, s.last.ValidationAccuracy = before.ValidationLoss, before.ValidationAccuracy
	}
	s.history.add(r.Report)
	s.spread.add(r.End - r.Start)
	for o, n := range r.Outcomes {
		s.outcomes[o] += int64(n)
	}
	if r.Outcomes[round.Accepted] == 0 {
		s.empty++
	}
	s.spent, s.fraction = r.Spent, r.Fraction
	s.tasks = append(s.tasks[:0], r.Tasks[:min(len(r.Tasks), maxTasks)]...)
}

// Actors says how many clients of each kind take part.
func (h *Hub) Actors(simulated, real int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.version++
	h.state.simulated, h.state.real = simulated, real
}

// GoOn says that the run goes on from where it had come to in so much wall time.
// Its rounds until then follow.
func (h *Hub) GoOn(elapsed time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.version++
	h.state.elapsed = elapsed
}

// Notice shows a line to whoever watches. Of many the first and the newest are
// held.
func (h *Hub) Notice(text string) {
	text = cut(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.state
	s.version++
	if n := len(s.notices); n > 0 && s.notices[n-1].Text == text {
		s.notices[n-1].Times++
		s.notices[n-1].Round = s.last.Round
		return
	}
	if len(s.notices) == maxNotices {
		s.notices = slices.Delete(s.notices, maxNotices/2, maxNotices/2+1)
		s.unseen++
	}
	s.notices = append(s.notices, notice{s.last.Round, text, 1})
}

// End shows how the run ended. Nothing is shown after it, no second end either,
// and all viewers are told and let go.
func (h *Hub) End(e End) {
	e.Why = cut(e.Why)
	if !json.Valid(e.Summary) {
		e.Summary = nil
	}
	h.mu.Lock()
	first := h.state.end == nil
	if first {
		h.state.version++
		h.state.end = &e
		h.state.final(e.Final)
	}
	h.mu.Unlock()
	if first {
		h.publish(true)
	}
}

// final takes the measures of the final model, which the last round has only
// where it was one to evaluate.
func (s *state) final(v *Validation) {
	if v == nil || s.evaluations.newest.round == s.last.Round {
		return
	}
	s.evaluations.add(evaluation{s.last.Round, s.last.End, v.Loss, v.Accuracy})
	s.last.ValidationLoss, s.last.ValidationAccuracy = v.Loss, v.Accuracy
}

// cut shortens a text that is too long to be read on a page.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && text[end]&0xc0 == 0x80 { // not within a rune
		end--
	}
	return text[:end] + "…"
}
