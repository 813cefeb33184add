package aggregate

import "fedpace/bus"

// Attackers says which simulated clients attack, and how many of a class collude.
type Attackers struct {
	// Class returns the number of a client's class, whose attack the client does, and whether it
	// attacks at all.
	Class func(client int) (number int, attacks bool)
	// Circle returns of how many of a round's attackers of a class the others know what they
	// would have sent; 0 where the attackers of the class do not collude.
	Circle func(class int) int
}

// honest is the number of a client that does not attack, as jobs have it.
const honest = 0

// number returns a client's attacker as jobs name it: the number of its class plus 1, or honest.
func (a *Attackers) number(client int) uint32 {
	if a == nil {
		return honest
	}
	class, attacks := a.Class(client)
	if !attacks {
		return honest
	}
	return uint32(class + 1)
}

// collude adds to each job with colluding clients the tasks of the other members of their circle,
// because such an attacker computes its update from the updates of all of them. A circle is the
// first tasks of the round, in task order and up to the size that the attack has, that belong to
// one class of attackers and start from one base model. Jobs hold the round's tasks in order, so
// circles do not depend on how the tasks were cut into jobs. A nil receiver has no attackers.
func (a *Attackers) collude(jobs []job) {
	if a == nil {
		return
	}
	type circle struct {
		// base is the version of the model that the tasks start from.
		base     uint64
		attacker uint32
	}
	members := map[circle][]*bus.ClientWork{}
	for i := range jobs {
		for _, work := range jobs[i].message.Clients {
			if work.Attacker == honest {
				continue
			}
			key := circle{jobs[i].base, work.Attacker}
			// Attacker 0 is honest, so class i has the number i+1.
			if len(members[key]) < a.Circle(int(work.Attacker)-1) {
				members[key] = append(members[key], work)
			}
		}
	}
	for i := range jobs {
		message := jobs[i].message
		// A job may hold several clients of one circle, which is added once.
		added := map[uint32]bool{}
		for _, work := range message.Clients {
			if added[work.Attacker] {
				continue
			}
			added[work.Attacker] = true
			message.Colluders = append(message.Colluders, members[circle{jobs[i].base, work.Attacker}]...)
		}
	}
}
