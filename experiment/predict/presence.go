package predict

import (
	"fedpace/coordinator/round"
)

// presence is which devices of a run were there, by round, and over which tasks they
// fell silent.
type presence struct {
	there [][]bool // by round, then device; nil: all are there
	lost  [][]bool
}

// presenceOf finds out who was there. If every device that is there has a task in each
// round, each is, by round, where it has its task. Otherwise a device is there but
// from the round in which it fell silent until its next task.
func presenceOf(r *record, devices int, everyRound bool) presence {
	if !r.known {
		return presence{}
	}
	p := presence{there: make([][]bool, len(r.rounds)), lost: make([][]bool, len(r.rounds))}
	for i := range r.rounds {
		p.there[i], p.lost[i] = make([]bool, devices), make([]bool, devices)
		for _, t := range r.rounds[i].tasks {
			if t.device < devices {
				p.there[i][t.device] = true
				p.lost[i][t.device] = t.lost
			}
		}
	}
	if everyRound {
		return p
	}
	gone := make([]bool, devices)
	for i := range p.there {
		for d := range devices {
			asked := p.there[i][d]
			gone[d] = gone[d] && !asked
			p.there[i][d] = !gone[d]
			gone[d] = gone[d] || p.lost[i][d]
		}
	}
	return p
}

// events tell the round machine, before a round opens, who has come and left since. now
// is who is there, and is changed.
func (p *presence) events(number, first int, now []bool) (list []round.Event) {
	for d := range now {
		there := p.there == nil || number > len(p.there) || p.there[number-1][d]
		switch {
		case there && !now[d]:
			list = append(list, round.Event{Kind: round.Joined, Client: first + d})
		case !there && now[d]:
			list = append(list, round.Event{Kind: round.Left, Client: first + d})
		}
		now[d] = there
	}
	return list
}

// silent reports whether a device fell silent over its task of a round.
func (p *presence) silent(number, device int) bool {
	return p.lost != nil && number <= len(p.lost) && p.lost[number-1][device]
}
