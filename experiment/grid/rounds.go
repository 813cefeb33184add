package grid

import (
	"context"
	"math"
	"strconv"

	"fedpace/actors/flower"
	"fedpace/coordinator/round"
)

// Task is a message that has ended, as outputs see it. Messages that do not train are probes.
type Task struct {
	round.TaskReport
	// DownBytes and UpBytes are the sizes of the message and of its reply.
	DownBytes, UpBytes int64
	// Metrics are the numbers of the reply's metric records, of a reply that the server got.
	Metrics map[string]float64
	// Category is the message's kind: train, evaluate or query.
	Category string
}

// Round is a round of the app that is over.
type Round struct {
	round.Report
	// Train, Evaluate and Central are the scores that the app's strategy has computed in the round:
	// from the replies of clients that trained, of those that evaluated, and on the server itself.
	// They are nil where it has computed none.
	Train, Evaluate, Central map[string]float64
}

// rounds follows the app's rounds.
type rounds struct {
	// number is the open round's, 0 before the first. start is when it began.
	number int
	start  round.Time
	// named says that the app's strategy tells its rounds; otherwise they follow from messages.
	named bool
	// group is the group of the open round's messages, and answered says that one of them which
	// trains has been answered; both matter only where rounds follow from messages.
	group    string
	answered bool
	// open are messages that no round has reported yet, in the order of their numbers.
	open []*message
	// train, evaluate and central are the open round's scores.
	train, evaluate, central map[string]float64
	// steps is the sum of K_r over the rounds so far.
	steps int64
	// config is the app's run config.
	config map[string]string
}

// sent takes a message that was pushed.
func (r *rounds) sent(m *message) { r.open = append(r.open, m) }

// delivered takes a message whose reply the server got.
func (r *rounds) delivered(m *message) {
	if m.trains() {
		r.answered = true
	}
}

// note takes what the app's strategy said, each at its own time.
func (p *player) note(ctx context.Context, notes []flower.Note) error {
	for _, n := range notes {
		if err := p.advance(ctx, round.Time(n.Now)); err != nil {
			return err
		}
		switch {
		case n.Note == "round" && n.Round != p.rounds.number:
			if err := p.begin(n.Round); err != nil {
				return err
			}
			p.rounds.named = true
		case n.Note == "scores":
			p.rounds.score(&n)
		}
	}
	return nil
}

// score takes scores of the open round. Those of the start model, before the first round, belong to
// no round.
func (r *rounds) score(n *flower.Note) {
	if r.number == 0 {
		return
	}
	values := n.Values
	if values == nil {
		values = map[string]float64{}
	}
	switch n.Kind {
	case "train":
		r.train = values
	case "evaluate":
		r.evaluate = values
	case "central":
		r.central = values
	}
}

// trainsFirst begins a round where the app tells none and a message that trains does not belong to
// the open one: it has another group, or, without groups, a reply has come since the round began.
func (p *player) trainsFirst(group string) error {
	r := &p.rounds
	if r.named {
		return nil
	}
	other := group != r.group || group == "" && r.answered
	if r.number > 0 && !other {
		return nil
	}
	r.group = group
	return p.begin(r.number + 1)
}

// begin closes the open round and begins another.
func (p *player) begin(number int) error {
	if err := p.closeRound(false); err != nil {
		return err
	}
	p.rounds.number = number
	p.rounds.start = p.now
	p.rounds.answered = false
	return nil
}

// closeRound reports the messages that have ended and the open round. Where last is set, the app
// has ended, and so have all messages.
func (p *player) closeRound(last bool) error {
	r := &p.rounds
	report := Round{
		Report: round.Report{
			Round:          r.number,
			Start:          r.start,
			End:            p.now,
			LearningRate:   math.NaN(),
			TrainingLoss:   math.NaN(),
			WindowLoss:     math.NaN(),
			ValidationLoss: math.NaN(),
		},
		Train:    r.train,
		Evaluate: r.evaluate,
		Central:  r.central,
	}
	open := r.open[:0]
	var ended []*message
	for _, m := range r.open {
		if !last && !m.delivered && !m.abandoned {
			open = append(open, m)
			continue
		}
		ended = append(ended, m)
	}
	for _, m := range ended {
		t := p.report(m, last)
		if m.trains() {
			p.count(&report.Report, m, t.Outcome)
		} else {
			report.Candidates++
		}
		if p.Observer.Task != nil {
			if err := p.Observer.Task(t); err != nil {
				return err
			}
		}
		if m.abandoned && !m.delivered {
			p.forget(m)
		}
	}
	clear(r.open[len(open):])
	r.open = open
	r.train = nil
	r.evaluate = nil
	r.central = nil
	if r.number == 0 {
		return nil
	}
	p.notices.round(&report, ended)
	if report.Cohort > 0 {
		report.LocalSteps = int(math.Round(report.Steps.Mean()))
	}
	r.steps += int64(report.LocalSteps)
	report.SGDSteps = r.steps
	p.result.Rounds++
	for outcome, n := range report.Outcomes {
		p.result.Outcomes[outcome] += n
	}
	if p.Observer.Round == nil {
		return nil
	}
	return p.Observer.Round(&report)
}

// forget drops what a message holds whose reply nobody waits for.
func (p *player) forget(m *message) {
	m.reported = true
	m.reply = &flower.Reply{Raised: "its round is over", Code: codeExpired}
	if m.arrived {
		delete(p.messages, m.number)
	}
}

// count adds a message that trains to the report of its round.
func (p *player) count(report *round.Report, m *message, outcome round.Outcome) {
	report.Cohort++
	report.Outcomes[outcome]++
	report.Steps.Add(m.reply.Steps)
	if math.IsNaN(report.LearningRate) {
		report.LearningRate = p.rounds.learningRate(m)
	}
}

// rateKeys are the names under which apps have a learning rate.
var rateKeys = []string{"lr", "learning-rate", "learning_rate", "eta", "client-lr"}

// learningRate is the learning rate in a message's configuration or in the run config; 0 if neither
// names one.
func (r *rounds) learningRate(m *message) float64 {
	for _, key := range rateKeys {
		if v, ok := m.config[key]; ok {
			return v
		}
	}
	for _, key := range rateKeys {
		if v, err := strconv.ParseFloat(r.config[key], 64); err == nil {
			return v
		}
	}
	return 0
}

// report is a message that has ended, or that is cut off by the end of the app or of its round.
func (p *player) report(m *message, last bool) *Task {
	t := &Task{
		TaskReport: round.TaskReport{
			Task:       m.number,
			Client:     m.client,
			Model:      uint64(max(0, p.rounds.number-1)),
			LocalSteps: m.reply.Steps,
			Probe:      !m.trains(),
			Outcome:    m.outcome(last),
			Start:      min(m.begins, p.now),
			Plan: round.Plan{
				Download: round.Time(m.plan.Download),
				Compute:  round.Time(m.plan.Compute),
				Upload:   round.Time(m.plan.Upload),
				Drops:    m.dropsOut(),
				Dropout:  round.Time(m.plan.After),
			},
		},
		DownBytes: m.downBytes,
		UpBytes:   m.reply.Size,
		Category:  category(m.sent.Type),
	}
	if m.delivered {
		t.Metrics = m.reply.Metrics
	}
	t.End = max(t.Start, min(m.over(), p.now))
	return t
}

// over is when the node has done with the message, or has left.
func (m *message) over() round.Time {
	if m.dropsOut() {
		return m.begins + round.Time(m.plan.After)
	}
	return m.begins + round.Time(m.plan.Total())
}

// outcome is how a message ended, in the words of all runs. last says that the app has ended.
func (m *message) outcome(last bool) round.Outcome {
	switch {
	case m.dropsOut():
		return round.Dropped
	case m.delivered && m.fate == replied && m.isError():
		return round.Refused
	case m.delivered && m.fate == replied:
		return round.Accepted
	case m.abandoned || m.fate == expired && m.arrived:
		return round.Late
	}
	return round.Cancelled
}
