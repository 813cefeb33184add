package grid

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/actors/flower"
	"fedpace/coordinator/round"
)

// longWait is the virtual time that a server may wait for silent nodes, or for nodes to become
// available, before the user hears of it.
const longWait = 60 * round.Time(1e9)

// notices reports to the user what flwr itself does not: rounds without a reply, clients that all fail,
// and virtual time that is lost by waiting. Each kind of notice is reported once in a run, with what
// the user can do about it.
type notices struct {
	// notify takes a line for the user; nil means that notices are dropped.
	notify func(string)
	// reported has the kinds of notices that were reported already; nil before the first.
	reported map[string]bool

	// waitingFor is how many nodes were available when the server last asked for nodes, or
	// notWaiting if it has sent messages since. waitingSince is the virtual time at which it first got
	// that number.
	waitingFor   int
	waitingSince round.Time
	// emptyRounds is the number of rounds so far in which no message that trains got a reply without an
	// error.
	emptyRounds int
}

// reportOnce tells the user a line, formatted as by [fmt.Sprintf], unless a line of the same kind was
// told before in this run. kind is a short key that the user does not see.
func (n *notices) reportOnce(kind, format string, args ...any) {
	if n.reported == nil {
		n.reported = map[string]bool{}
	}
	if n.reported[kind] || n.notify == nil {
		return
	}
	n.reported[kind] = true
	n.notify(fmt.Sprintf(format, args...))
}

// nodesQueried is called each time the server asks for nodes. now is the virtual time, and available the
// number of nodes that it is told. A server that is told the same number for longWait waits for
// more nodes than there are, and the user is told.
func (n *notices) nodesQueried(now round.Time, available int) {
	// The number has changed, or the server asks for the first time: its wait begins anew.
	if available != n.waitingFor {
		n.waitingFor = available
		n.waitingSince = now
		return
	}
	if now-n.waitingSince >= longWait {
		n.reportOnce(
			"nodes",
			"The ServerApp has asked for nodes for %g s, and %d are available: its strategy waits for more "+
				"(lower min_available_nodes or the fraction, set more clients, or another availability).",
			(now - n.waitingSince).Seconds(),
			available,
		)
	}
}

// stepsGuessed tells the user, once in a run, that the number of local steps of message m is unknown, so
// that its computation counts as one step on the virtual clock.
func (n *notices) stepsGuessed(m *message) {
	n.reportOnce(
		"steps",
		"The local steps of message %d are not known, and one is counted: neither an optimizer of PyTorch nor the "+
			"usual keys tell them (set flower.steps to a formula, as local_epochs * ceil(num_examples / 32)).",
		m.number,
	)
}

// pushed is called when the server sends messages, which shows that it waits for nodes no longer.
// Its next wait begins with its next question.
func (n *notices) pushed() { n.waitingFor = notWaiting }

// notWaiting says that the server has not asked for nodes since it sent its last messages.
const notWaiting = -1

// timedOut is called when the server's wait for replies has ended by its timeout, at virtual time
// until. pending are the messages without a reply, and lastReply is when the last reply came, or when
// the wait began if none did. The user is told if the server waited longWait or more since then
// while at least one node of pending had dropped out.
func (n *notices) timedOut(p *player, pending []*message, lastReply, until round.Time) {
	// Only nodes that have left are silent for good; others are merely slow.
	silent := slices.DeleteFunc(slices.Clone(pending), func(m *message) bool { return !m.dropsOut() })
	waited := until - lastReply
	// A short wait, or one for slow nodes, is what the app has asked for.
	if len(silent) == 0 || waited < longWait {
		return
	}
	n.reportOnce(
		"silence",
		"Round %d waited %g s for nothing: %d of its clients dropped out (node %d first), and the server learns of "+
			"it by its timeout alone. Give strategy.start a shorter timeout, or set flower.dropout to reported.",
		p.rounds.number,
		waited.Seconds(),
		len(silent),
		silent[0].sent.Node,
	)
}

// waitedForExpiry is called with the replies that end a wait of the server. A reply that merely
// says that its message has expired cost the wait the whole time to live of the message; the user
// is told if that is longWait or more.
func (n *notices) waitedForExpiry(p *player, replies []*message) {
	for _, m := range replies {
		// Other replies came in time, or cost less than the user would notice.
		if m.fate != expired || m.expires-m.pushed < longWait {
			continue
		}
		n.reportOnce(
			"expiry",
			"Round %d waited %g s, a message's whole time to live, as node %d never answered: give strategy.start a "+
				"timeout, or set flower.dropout to reported.",
			p.rounds.number,
			(m.expires - m.pushed).Seconds(),
			m.sent.Node,
		)
	}
}

// round is called when round r is over. ended are its messages, of all kinds, that have ended. It
// tells the user of a round that all clients failed, one without any reply, one that SecAgg+ gave
// up, and one that lacks the replies of some clients. Each is told for the first round alone.
func (n *notices) round(r *Round, ended []*message) {
	for _, m := range ended {
		if m.reply.Known == "unknown" {
			n.stepsGuessed(m)
		}
	}
	// The cohort and the outcomes count messages that train, and no others.
	lost := r.Cohort - r.Outcomes[round.Accepted]
	reasons := reasons(&r.Report)
	switch {
	// A round that only evaluates has nothing to train with, and loses nothing.
	case r.Cohort == 0:
	case r.Outcomes[round.Refused] == r.Cohort:
		n.emptyRounds++
		n.reportOnce(
			"raising",
			"Round %d: all of %d clients raised an error, and the model stays as it was. The first: %s",
			r.Round,
			r.Cohort,
			firstError(ended),
		)
	case r.Outcomes[round.Accepted] == 0:
		n.emptyRounds++
		n.reportOnce(
			"empty",
			"Round %d has no reply of %d clients (%s): the model stays as it was. A longer timeout, or dropouts that "+
				"are rarer, would change that.",
			r.Round,
			r.Cohort,
			reasons,
		)
	// Without scores of the training, the strategy has aggregated nothing.
	case lost > 0 && r.Train == nil && usesSecAgg(ended):
		n.reportOnce(
			"secagg",
			"Round %d is lost: SecAgg+ gave up, as %d of its messages had no reply (%s). A client that leaves "+
				"before its keys are shared ends the round; raise num_shares or lower reconstruction_threshold for "+
				"later ones.",
			r.Round,
			lost,
			reasons,
		)
	case lost > 0:
		n.reportOnce(
			"fewer",
			"Round %d trained with %d of %d clients (%s): the strategy averages what came.",
			r.Round,
			r.Outcomes[round.Accepted],
			r.Cohort,
			reasons,
		)
	}
}

// firstError returns the text of the first error among the replies of the messages in list that a
// client's app has raised; empty if none has raised one.
func firstError(list []*message) string {
	for _, m := range list {
		if m.isError() {
			return m.reply.Raised
		}
	}
	return ""
}

// reasons returns how the messages of round r without a good reply ended, as a text for the user,
// such as "2 dropped, 1 late": the number and the name of each outcome but accepted.
func reasons(r *round.Report) string {
	var list []string
	for outcome, n := range r.Outcomes {
		if n > 0 && round.Outcome(outcome) != round.Accepted {
			list = append(list, fmt.Sprintf("%d %s", n, round.Outcome(outcome)))
		}
	}
	return strings.Join(list, ", ")
}

// usesSecAgg reports whether any message of the list belongs to the protocol SecAgg+, which aggregates
// updates without showing the server a single one.
func usesSecAgg(list []*message) bool {
	for _, m := range list {
		if m.secure {
			return true
		}
	}
	return false
}

// finished is called when the app has ended. f is how it ended, and r what was counted in the run.
// It tells the user if there is no model to show, and how many rounds had no reply if more than one
// had none.
func (n *notices) finished(f *flower.Finished, r *Result) {
	if f.Empty {
		n.reportOnce("result", "The app has ended without a model: no round aggregated anything, and "+
			"Result.arrays is empty.")
	}
	if n.emptyRounds > 1 {
		n.reportOnce("empties", "%d of %d rounds had no reply.", n.emptyRounds, r.Rounds)
	}
}
