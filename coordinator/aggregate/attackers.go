package aggregate

import "fedpace/bus"

// Attackers says which simulated clients attack, and how many of a class collude.
type Attackers struct {
	// Class returns the number of a client's class, whose attack the client does, and whether it
	// attacks at all.
	Class func(client int) (number int, attacks bool)
	// Colluders returns how many attackers of a class collude in a round: each of them knows the honest
	// updates of all of them. It is 0 if the attackers of the class do not collude.
	Colluders func(class int) int
}

// honest is the number of a client that does not attack, as jobs have it.
const honest = 0

// attackerNumber returns the number by which a job message names a simulated client's attack: the number of
// its class of attackers plus 1, or honest (0) if the client does not attack. A nil receiver has no
// attackers.
func (a *Attackers) attackerNumber(client int) uint32 {
	if a == nil {
		return honest
	}
	class, attacks := a.Class(client)
	if !attacks {
		return honest
	}
	return uint32(class + 1)
}

// collude lets colluding attackers know each other's honest updates: it adds to each job with members of a
// group of colluders the tasks of all members, since each computes its malicious update from the honest
// updates of the group. A group has the first tasks of the round, in task order and up to the number that
// the attack allows, that belong to one class of attackers and start from one base model. Jobs hold the
// round's tasks in order, so the groups do not depend on how tasks were divided into jobs. A nil receiver
// has no attackers.
func (a *Attackers) collude(jobs []job) {
	if a == nil {
		return
	}
	type group struct {
		// base is the version of the model that the tasks start from.
		base     uint64
		attacker uint32
	}
	members := map[group][]*bus.ClientWork{}
	for i := range jobs {
		for _, work := range jobs[i].message.Clients {
			if work.Attacker == honest {
				continue
			}
			// Number 0 is an honest client, so class i has the number i+1.
			class := int(work.Attacker) - 1
			attackers := group{jobs[i].base, work.Attacker}
			if len(members[attackers]) < a.Colluders(class) {
				members[attackers] = append(members[attackers], work)
			}
		}
	}
	for i := range jobs {
		message := jobs[i].message
		// A job may hold several clients of one group, whose members are added once. All tasks of a job
		// start from one base model, so the attacker's number identifies the group.
		added := map[uint32]bool{}
		for _, work := range message.Clients {
			if added[work.Attacker] {
				continue
			}
			added[work.Attacker] = true
			colluders := members[group{jobs[i].base, work.Attacker}]
			message.Colluders = append(message.Colluders, colluders...)
		}
	}
}
