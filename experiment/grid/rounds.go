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
	// Taken says that the node has taken the message up. Otherwise the message has expired, or the app has ended,
	// before: nothing was transferred, and no step taken.
	Taken bool
	// DownBytes and UpBytes are the sizes of the message and of its reply.
	DownBytes, UpBytes int64
	// Metrics are the numbers of the reply's metric records, of a reply that the server got.
	Metrics map[string]float64
	// Category is the message's kind: train, evaluate or query.
	Category string
}

// Round is a round of the app that is over, with what was counted in it and what the app's strategy
// told of it.
type Round struct {
	round.Report
	// Train, Evaluate and Central are the scores that the app's strategy has computed in the round:
	// from the replies of clients that trained, of those that evaluated, and on the server itself.
	// They are nil where it has computed none.
	Train, Evaluate, Central map[string]float64
}

// rounds follows the rounds of a Flower app: it knows the open one, gathers its messages and
// scores, and reports it when the next one begins. flwr itself has no rounds: the app's strategy
// tells them, or they follow from the groups and the order of messages that train.
type rounds struct {
	// number is that of the open round, 0 before the first. start is the virtual time at which it
	// began.
	number int
	start  round.Time
	// announced says that the app's strategy tells its rounds; otherwise they follow from messages.
	announced bool
	// group is the group of the open round's messages, and answered says that a message which trains, of
	// this round or an earlier one, has been answered since the round began. Both matter only where rounds
	// follow from messages.
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

// sent takes message m, which the server has just pushed. It stays in r.open until a round reports
// it.
func (r *rounds) sent(m *message) { r.open = append(r.open, m) }

// delivered takes message m, whose reply the server has just got. Where the app tells no rounds,
// the next message without a group that trains begins a round after such a reply.
func (r *rounds) delivered(m *message) {
	if m.trains() {
		r.answered = true
	}
}

// takeNotes takes what the app's strategy said since the last request, in order. The clock is moved to
// the time of each note first, so that a round begins and ends when the strategy said so.
func (p *player) takeNotes(ctx context.Context, notes []flower.Note) error {
	for _, n := range notes {
		if err := p.advance(ctx, round.Time(n.Now)); err != nil {
			return err
		}
		switch {
		// A strategy may announce the open round again, for its evaluation; that begins none.
		case n.Note == "round" && n.Round != p.rounds.number:
			if err := p.begin(n.Round); err != nil {
				return err
			}
			p.rounds.announced = true
		case n.Note == "scores":
			p.rounds.score(&n)
		}
	}
	return nil
}

// score takes the scores in note n as those of the open round; later ones of the same kind replace
// them. Scores before the first round are of the start model and belong to no round, so they are
// dropped.
func (r *rounds) score(n *flower.Note) {
	if r.number == 0 {
		return
	}
	values := n.Values
	// An empty map says that the strategy has aggregated, though it has computed no score.
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

// beforeTraining begins a new round before the server pushes a message of this group that trains, if the
// message does not belong to the open round: the message has another group, or it has none and a reply to a
// message that trains has come since the round began. It does nothing if the app's strategy tells its rounds.
func (p *player) beforeTraining(group string) error {
	r := &p.rounds
	if r.announced {
		return nil
	}
	hasOtherGroup := group != r.group
	followsReply := group == "" && r.answered
	belongsToOpen := r.number > 0 && !hasOtherGroup && !followsReply
	if belongsToOpen {
		return nil
	}
	r.group = group
	return p.begin(r.number + 1)
}

// begin reports the open round, if there is one, and opens the round with this number at the
// present virtual time. Messages that are still on their way count in a later round.
func (p *player) begin(number int) error {
	const last = false
	if err := p.closeRound(last); err != nil {
		return err
	}
	// From here on, messages and scores belong to the new round.
	p.rounds.number = number
	p.rounds.start = p.now
	p.rounds.answered = false
	return nil
}

// closeRound hands the observer the messages that have ended, then the open round, if there is one
// (before the first round, messages alone). last says that the app has finished: then all messages
// count as ended. Otherwise those on their way stay open for a later round.
func (p *player) closeRound(last bool) error {
	r := &p.rounds
	// NaN is what is not known yet. The first message that trains and names a learning rate sets it (count), and
	// the observer may find losses among the app's scores.
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
	ended := r.takeEnded(last)
	if err := p.reportMessages(ended, &report.Report); err != nil {
		return err
	}
	r.train = nil
	r.evaluate = nil
	r.central = nil
	if r.number == 0 {
		return nil
	}
	p.notices.round(&report, ended)
	// K_r, the local steps of the round, is the mean over its clients.
	if report.Cohort > 0 {
		report.LocalSteps = int(math.Round(report.Steps.Mean()))
	}
	r.steps += int64(report.LocalSteps)
	report.SGDSteps = r.steps
	p.result.Rounds++
	// The run's own counts are the sums of those of its rounds.
	for outcome, n := range report.Outcomes {
		p.result.Outcomes[outcome] += n
	}
	if p.Observer.Round == nil {
		return nil
	}
	return p.Observer.Round(&report)
}

// reportMessages counts messages that have ended in the report of their round, and hands each to the observer.
func (p *player) reportMessages(ended []*message, report *round.Report) error {
	for _, m := range ended {
		t := p.taskOf(m)
		// Messages that evaluate or query are probes and do not count in the cohort.
		if m.trains() {
			p.count(report, m, t.Outcome)
		} else {
			report.Candidates++
		}
		if p.Observer.Task != nil {
			if err := p.Observer.Task(t); err != nil {
				return err
			}
		}
		// The server has stopped waiting for the reply, which need not be kept. It may still ask for it in vain.
		if m.abandoned && !m.delivered {
			p.forget(m)
		}
	}
	return nil
}

// takeEnded takes the messages that have ended out of the open ones, and returns them. last says that the app has
// finished, so that all have. Otherwise those that the server still waits for, or may ask for, stay open.
func (r *rounds) takeEnded(last bool) (ended []*message) {
	open := r.open[:0]
	for _, m := range r.open {
		if last || m.delivered || m.abandoned {
			ended = append(ended, m)
		} else {
			open = append(open, m)
		}
	}
	// The cleared places no longer keep messages in memory.
	clear(r.open[len(open):])
	r.open = open
	return ended
}

// forget drops the reply of message m, whose round has been reported and whose reply nobody waits
// for. A server that asks for it anyway gets an error. If the clock has passed the message's end,
// the message itself is dropped, too; otherwise pop drops it then.
func (p *player) forget(m *message) {
	m.forgotten = true
	m.reply.Drop()
	m.reply = &flower.Reply{Raised: "its round is over", Code: codeExpired}
	if m.arrived {
		delete(p.messages, m.number)
	}
}

// count adds message m, which trains and ended with this outcome, to the report of its round: to
// the cohort, to the outcomes and to the local steps. The first message with a learning rate sets
// that of the round.
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

// learningRate returns the learning rate that message m's own configuration names or, failing that,
// the app's run config. It tries the names of rateKeys in order, and returns 0 if neither has any
// of them.
func (r *rounds) learningRate(m *message) float64 {
	// The message's own configuration comes first, as a strategy may change the rate each round.
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

// taskOf returns message m as outputs see it, as a task with the message's number, once it has ended or is cut off by
// the end of the app or of its round. No time in it lies after the present: a task that is still running ends now.
func (p *player) taskOf(m *message) *Task {
	t := &Task{
		TaskReport: round.TaskReport{
			Task:   m.number,
			Client: m.client,
			// The model of a round is the result of the round before it; round 1 has model 0.
			Model:      uint64(max(0, p.rounds.number-1)),
			LocalSteps: m.reply.Steps,
			Probe:      !m.trains(),
			Outcome:    m.outcome(),
			Start:      min(m.begins, p.now),
			Plan: round.Plan{
				Download: round.Time(m.plan.Download),
				Compute:  round.Time(m.plan.Compute),
				Upload:   round.Time(m.plan.Upload),
				Drops:    m.dropsOut(),
				Dropout:  round.Time(m.plan.After),
			},
		},
		Taken:     m.begins <= p.now && m.isTakenInTime(),
		DownBytes: m.downBytes,
		UpBytes:   m.reply.Size,
		Category:  category(m.sent.Type),
	}
	// The process has served the message all the same, to know how it would have ended.
	if !t.Taken {
		t.LocalSteps = 0
	}
	// Metrics that the server has not seen do not belong to what the app knows.
	if m.delivered {
		t.Metrics = m.reply.Metrics
	}
	// A task that was cut off by the end of its round ends with it, in outputs.
	t.End = max(t.Start, min(m.nodeDone(), p.now))
	return t
}

// nodeDone returns the virtual time at which the node has finished with the message, with the upload of
// its reply, or at which it has left during it.
func (m *message) nodeDone() round.Time {
	if m.dropsOut() {
		return m.begins + round.Time(m.plan.After)
	}
	return m.begins + round.Time(m.plan.Total())
}

// outcome returns how the message ended, in the terms that all kinds of runs share. A message that is still on
// its way when the app has finished is cancelled.
func (m *message) outcome() round.Outcome {
	// The server has the reply.
	hasReply := m.delivered && m.fate == replied
	// The time to live was over before a reply, and the clock has reached that moment.
	hasExpired := m.fate == expired && m.arrived
	switch {
	case m.dropsOut():
		return round.Dropped
	case hasReply && m.isError():
		return round.Refused
	case hasReply:
		return round.Accepted
	// The reply came, or would have come, too late: the server gave up waiting, or the message expired.
	case m.abandoned || hasExpired:
		return round.Late
	}
	return round.Cancelled
}
