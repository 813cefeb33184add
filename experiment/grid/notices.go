package grid

import (
	"fmt"
	"strings"

	"fedpace/actors/flower"
	"fedpace/coordinator/round"
)

// longWait is the virtual time that a server may wait for silent nodes, or for nodes to become
// available, before the user hears of it.
const longWait = 60 * round.Time(1e9)

// notices tells the user what flwr does not: rounds without a reply, clients that all fail, and
// time that is lost by waiting. Each is told once, with the remedy, and counted.
type notices struct {
	tell func(string)
	// told are the kinds that were told already.
	told map[string]bool

	// waitingFor and waitingSince are of a server that asks for nodes again and again.
	waitingFor   int
	waitingSince round.Time
	// empty is the number of rounds without any reply.
	empty int
}

// once tells a line of a kind, unless the kind was told before.
func (n *notices) once(kind, format string, args ...any) {
	if n.told == nil {
		n.told = map[string]bool{}
	}
	if n.told[kind] || n.tell == nil {
		return
	}
	n.told[kind] = true
	n.tell(fmt.Sprintf(format, args...))
}

// asked is called when the server asks for nodes, of which some are available.
func (n *notices) asked(now round.Time, available int) {
	if available != n.waitingFor {
		n.waitingFor = available
		n.waitingSince = now
		return
	}
	if now-n.waitingSince >= longWait {
		n.once(
			"nodes",
			"The ServerApp has asked for nodes for %g s, and %d are available: its strategy waits for more "+
				"(lower min_available_nodes or the fraction, set more clients, or another availability).",
			(now - n.waitingSince).Seconds(),
			available,
		)
	}
}

// guessed tells of a message whose local steps are not known.
func (n *notices) guessed(m *message) {
	n.once(
		"steps",
		"The local steps of message %d are not known, and one is counted: neither an optimizer of PyTorch nor the "+
			"usual keys tell them (set flower.steps to a formula, as local_epochs * ceil(num_examples / 32)).",
		m.number,
	)
}

// pushed is called when the server sends messages: it waits for nodes no longer.
func (n *notices) pushed() { n.waitingFor = nobodyAsked }

// nobodyAsked says that the server has not asked for nodes since it sent its last messages.
const nobodyAsked = -1

// timedOut is called when a wait has ended by its timeout. The last reply came at time last.
func (n *notices) timedOut(p *player, pending []*message, last, until round.Time) {
	silent := 0
	for _, m := range pending {
		if m.dropsOut() {
			silent++
		}
	}
	waited := until - last
	if silent == 0 || waited < longWait {
		return
	}
	n.once(
		"silence",
		"Round %d waited %g s for nothing: %d of its clients dropped out (node %d first), and the server learns of "+
			"it by its timeout alone. Give strategy.start a shorter timeout, or set flower.dropout to reported.",
		p.rounds.number,
		waited.Seconds(),
		silent,
		pending[0].sent.Node,
	)
}

// waitedForExpiry is called with the replies of a wait: those that say that a message has expired
// cost its whole time to live.
func (n *notices) waitedForExpiry(p *player, replies []*message) {
	for _, m := range replies {
		if m.fate != expired || m.expires-m.pushed < longWait {
			continue
		}
		n.once(
			"expiry",
			"Round %d waited %g s, a message's whole time to live, as node %d never answered: give strategy.start a "+
				"timeout, or set flower.dropout to reported.",
			p.rounds.number,
			(m.expires - m.pushed).Seconds(),
			m.sent.Node,
		)
	}
}

// round is called when a round is over, with the messages that ended in it.
func (n *notices) round(r *Round, ended []*message) {
	for _, m := range ended {
		if m.reply.Known == "unknown" {
			n.guessed(m)
		}
	}
	lost := r.Cohort - r.Outcomes[round.Accepted]
	reasons := reasons(&r.Report)
	switch {
	case r.Cohort == 0:
	case r.Outcomes[round.Refused] == r.Cohort:
		n.empty++
		n.once(
			"raising",
			"Round %d: all of %d clients raised an error, and the model stays as it was. The first: %s",
			r.Round,
			r.Cohort,
			firstError(ended),
		)
	case r.Outcomes[round.Accepted] == 0:
		n.empty++
		n.once(
			"empty",
			"Round %d has no reply of %d clients (%s): the model stays as it was. A longer timeout, or dropouts that "+
				"are rarer, would change that.",
			r.Round,
			r.Cohort,
			reasons,
		)
	case lost > 0 && r.Train == nil && secure(ended):
		n.once(
			"secagg",
			"Round %d is lost: SecAgg+ gave up, as %d of its messages had no reply (%s). A client that leaves before "+
				"its keys are shared ends the round; raise num_shares or lower reconstruction_threshold for later ones.",
			r.Round,
			lost,
			reasons,
		)
	case lost > 0:
		n.once(
			"fewer",
			"Round %d trained with %d of %d clients (%s): the strategy averages what came.",
			r.Round,
			r.Outcomes[round.Accepted],
			r.Cohort,
			reasons,
		)
	}
}

// firstError is the text of the first error that a client has raised; empty if none has.
func firstError(list []*message) string {
	for _, m := range list {
		if m.isError() {
			return m.reply.Raised
		}
	}
	return ""
}

// reasons lists how the messages of a round without a reply ended.
func reasons(r *round.Report) string {
	var list []string
	for outcome, n := range r.Outcomes {
		if n > 0 && round.Outcome(outcome) != round.Accepted {
			list = append(list, fmt.Sprintf("%d %s", n, round.Outcome(outcome)))
		}
	}
	return strings.Join(list, ", ")
}

// secure reports whether messages belong to SecAgg+.
func secure(list []*message) bool {
	for _, m := range list {
		if m.secure {
			return true
		}
	}
	return false
}

// finished is called when the app has ended.
func (n *notices) finished(f *flower.Finished, r *Result) {
	if f.Empty {
		n.once("result", "The app has ended without a model: no round aggregated anything, and Result.arrays is empty.")
	}
	if n.empty > 1 {
		n.once("empties", "%d of %d rounds had no reply.", n.empty, r.Rounds)
	}
}
