package live

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// File is the page of a run that has ended, in its folder: one file for a browser.
const File = "page.html"

func init() {
	metrics.Sinks.Register("page", "the run on one page: page.html, and live at http", Sink{})
}

// Sink is the output that shows a run on a page. It leaves the page in the run's folder.
type Sink struct{}

// Files names the page.
func (Sink) Files() []string { return []string{File} }

// Open returns the hub of a run.
func (Sink) Open(run *metrics.Run) (metrics.Output, error) { return New(run), nil }

// Limits of what a hub holds.
const (
	// maxTasks bounds the tasks of the last round that are shown.
	maxTasks   = 256
	maxNotices = 50
	// maxText bounds a text that is shown, in bytes.
	maxText = 600
)

// notice is a line about the run, with the time at which it was given.
type notice struct {
	// Round is the last round that was complete.
	Round int `json:"round"`
	// Text is the line itself, at most maxText bytes long.
	Text string `json:"text"`
	// Times counts how often the notice came in a row.
	Times int `json:"times"`
}

// Hub is the output: it holds all that the page shows of one run. Its handler is safe
// for concurrent use.
type Hub struct {
	// run describes the run, with its texts cut to a length that can be shown.
	run metrics.Run
	// columns are the values that the run reports for each round.
	columns []metrics.Column
	// id distinguishes the frames of this hub from those of an earlier process.
	id string
	// pace limits how often viewers are sent something.
	pace pace

	// mu guards state.
	mu    sync.Mutex
	state state

	// frames holds what viewers are sent. It has a lock of its own.
	frames frames

	// accepted has the client of each accepted update of the open round. It belongs to the run's goroutine.
	accepted []int
}

// state is everything that a frame shows. It is guarded by the hub's mutex.
type state struct {
	// version grows with every change of the state.
	version     uint64
	history     history
	evaluations evaluations
	fairness    fairness
	// participation counts the accepted updates of each client.
	participation participation
	spread        spread
	// last is the last round, with the losses that were measured last.
	last round.Report
	// bestWindow is the smallest windowed training loss so far; NaN: none.
	bestWindow float64
	outcomes   metrics.Outcomes
	// empty counts the rounds in which no update was accepted.
	empty int
	used  metrics.Usage
	waits waits
	// changed is the wall-clock time of the last round.
	changed time.Time
	tasks   []metrics.Task
	notices []notice
	// unseen counts the notices that are no longer held.
	unseen int
	// elapsed is the wall time of the earlier attempts.
	elapsed time.Duration
	// end is how the run ended; nil: it goes on.
	end *metrics.End
	// reason is why the run did not complete; empty: it did, or has not ended.
	reason string
}

// New returns the hub of a run that has not started. about describes the run and stays the
// caller's: the hub works on a copy, in which texts that are too long for the page are cut.
func New(about *metrics.Run) *Hub {
	nan := math.NaN()
	run := *about
	// The texts may be too long to be shown.
	for _, text := range []*string{&run.Name, &run.Task, &run.Schedule, &run.Data, &run.Closing, &run.Version} {
		*text = cut(*text)
	}
	// A description without a start is one of a run that starts now.
	if run.Started.IsZero() {
		run.Started = time.Now()
	}
	for _, texts := range []*[]string{&run.Devices, &run.Classes, &run.NonDefault, &run.Settings} {
		// The lists belong to the caller, so the cut texts need a copy.
		*texts = slices.Clone(*texts)
		for i, text := range *texts {
			(*texts)[i] = cut(text)
		}
	}
	h := &Hub{
		run:     run,
		columns: run.Columns(),
		pace:    usualPace,
		id:      run.Started.UTC().Format("20060102T150405.000000000"),
	}
	// Losses are NaN until they are measured, which the page shows as missing.
	h.state = state{
		history:     newHistory(h.columns),
		evaluations: newEvaluations(run.Metrics),
		spread:      newSpread(),
		bestWindow:  nan,
		last:        round.Report{TrainingLoss: nan, WindowLoss: nan, ValidationLoss: nan},
		tasks:       make([]metrics.Task, 0, maxTasks),
		notices:     []notice{},
		fairness:    fairnessOf(&run, nil),
	}
	h.frames.changed = make(chan struct{})
	return h
}

// Start implements [metrics.Starter]. For a resumed run it takes over the wall time, the last
// evaluation by client and all rounds of the earlier attempts, so that the curves begin at round 1.
// A new run, whose s.Last is nil, needs nothing.
func (h *Hub) Start(s *metrics.Start) error {
	if s.Last == nil {
		return nil
	}
	h.mu.Lock()
	h.state.version++
	h.state.elapsed = s.Elapsed
	h.state.fairness = fairnessOf(&h.run, s.Clients)
	h.mu.Unlock()
	// The folder holds the reports of the earlier rounds without their tasks and without the usage
	// at their ends, so each is shown with the last known usage.
	for report, err := range s.Rounds {
		if err == nil {
			err = h.Round(&metrics.Round{Report: report, Usage: s.Last.Usage})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Round implements [metrics.Output]: it adds a round that has closed to all that the page shows,
// the curves, counters and timeline. It copies everything that it needs later, since r belongs to
// the caller.
func (h *Hub) Round(r *metrics.Round) error {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.state
	s.version++
	s.changed = now
	// A loss that this round did not measure keeps its former value.
	s.last = metrics.Latest(&s.last, &r.Report)
	// A window in which no round has a loss is NaN, which is below nothing: the best loss so far stays.
	if math.IsNaN(s.bestWindow) || r.WindowLoss < s.bestWindow {
		s.bestWindow = r.WindowLoss
	}
	if r.Evaluated {
		s.evaluations.add(evaluation{r.Round, r.End, r.ValidationLoss, r.Metrics})
	}
	s.history.add(&r.Report)
	s.spread.add(r.End - r.Start)
	s.outcomes.Add(&r.Report)
	if r.Outcomes[round.Accepted] == 0 {
		s.empty++
	}
	s.used = *r.Usage
	// The tasks say for whom the round waited, and some of them are shown in its timeline.
	s.waits.add(&h.run, r.Tasks)
	s.keep(r.Tasks)
	// h.accepted has the clients of the updates that were accepted since the round before. Participation is counted
	// from the first round whose tasks were reported.
	if len(h.accepted) > 0 && s.participation.since == 0 {
		s.participation.since = r.Round
	}
	for _, client := range h.accepted {
		s.participation.add(client)
	}
	h.accepted = h.accepted[:0]
	return nil
}

// Clients implements [metrics.ClientsObserver]: it keeps the last evaluation e of the model on the
// samples of each client, of which the page shows the fairness. It replaces the evaluation before.
func (h *Hub) Clients(e *metrics.ClientEvaluation) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.version++
	h.state.fairness = fairnessOf(&h.run, e)
	return nil
}

// keep copies those tasks of the last round that may be shown: the slowest, the sampled ones and
// those of real devices.
func (s *state) keep(tasks []metrics.Task) {
	s.tasks = s.tasks[:0]
	sampled := 0
	for i := range tasks {
		// Of the sample only the first tasks are shown. The slowest and those of real devices are
		// limited by maxTasks alone.
		if t := &tasks[i]; !t.Slow && !t.Real {
			sampled++
			if sampled > shownTasks {
				continue
			}
		}
		if len(s.tasks) < maxTasks {
			s.tasks = append(s.tasks, tasks[i])
		}
	}
}

// Notice implements [metrics.NoticeObserver]: it shows a line. Of many lines the first
// and the newest are kept.
func (h *Hub) Notice(text string) {
	text = cut(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.state
	s.version++
	// The same line again is counted, not repeated.
	if n := len(s.notices); n > 0 && s.notices[n-1].Text == text {
		s.notices[n-1].Times++
		s.notices[n-1].Round = s.last.Round
		return
	}
	// The list is full, so a line in its middle is dropped: the oldest half and the newest stay.
	if len(s.notices) == maxNotices {
		s.notices = slices.Delete(s.notices, maxNotices/2, maxNotices/2+1)
		s.unseen++
	}
	s.notices = append(s.notices, notice{s.last.Round, text, 1})
}

// Finish implements [metrics.Finisher]: it shows how the run ended, by e, disconnects all viewers
// and leaves the page in the run's folder. Nothing is shown after the first call. If e.Start is
// nil, the run has no folder and no file is written.
func (h *Hub) Finish(e *metrics.End) error {
	h.mu.Lock()
	first := h.state.end == nil
	// Only the first call changes the state; a later one writes the file again.
	if first {
		end := *e
		// A summary that is no JSON would make the whole snapshot invalid.
		if !json.Valid(end.Summary) {
			end.Summary = nil
		}
		h.state.version++
		h.state.end = &end
		h.state.reason = cut(reasonText(e.Err))
		h.state.addFinalEvaluation(&end)
	}
	h.mu.Unlock()
	if first {
		const hasEnded = true
		h.publish(hasEnded)
	}
	if e.Start == nil {
		return nil
	}
	return e.Start.Replace(File, h.WritePage)
}

// Close implements [metrics.Closer]: it ends the page of a run that did not finish.
func (h *Hub) Close(cause error) error { return h.Finish(&metrics.End{Err: cause}) }

// reasonText returns why a run stopped, for people: the text of its error, or how to go on after an
// interruption (a canceled context). It is empty for nil, a run that did not fail.
func reasonText(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "it was interrupted, and fedpace resume goes on with it."
	}
	return err.Error()
}

// addFinalEvaluation takes the validation loss and the metrics of the final model from e as one more
// evaluation after the last round. It does nothing if the final model was not evaluated or the last round
// was evaluated anyway.
func (s *state) addFinalEvaluation(e *metrics.End) {
	if !e.Evaluated || math.IsNaN(e.ValidationLoss) || s.evaluations.newest.round == s.last.Round {
		return
	}
	s.evaluations.add(evaluation{s.last.Round, s.last.End, e.ValidationLoss, e.Metrics})
	s.last.Evaluated = true
	s.last.ValidationLoss = e.ValidationLoss
	s.last.Metrics = e.Metrics
}

// cut shortens a text that is longer than maxText bytes and marks the place with an ellipsis. Texts
// come from configurations and devices, which may send very long ones.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	// The cut may lie within a character, whose bytes are removed.
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
