package coordinator

import (
	"fedpace/bus"
	"fedpace/coordinator/round"
)

// Attackers says which simulated clients attack, and how many of a class collude.
type Attackers struct {
	// Class is the number of a client's class, whose attack it does; false: it is honest.
	Class func(client int) (number int, attacks bool)
	// Circle is of how many of a round's attackers of a class the others know what they
	// would have sent; 0: they do not collude.
	Circle func(class int) int
}

// number is a client's attacker as jobs name it.
func (a *Attackers) number(client int) uint32 {
	if a == nil {
		return 0
	}
	if class, attacks := a.Class(client); attacks {
		return uint32(class + 1)
	}
	return 0
}

// collude adds to each job that has tasks of colluders those that they know of: of their
// class, from the same base model, and the first ones of the round. It does not depend on
// how the tasks, which jobs have in their order, are cut into jobs.
func (a *Attackers) collude(jobs []assignment, tasks []round.Task) {
	if a == nil {
		return
	}
	type key struct {
		model    uint64
		attacker uint32
	}
	circles := map[key][]*bus.ClientWork{}
	for i := range jobs {
		for j, w := range jobs[i].job.Clients {
			of := key{tasks[jobs[i].from+j].Model, w.Attacker}
			if w.Attacker > 0 && len(circles[of]) < a.Circle(int(w.Attacker)-1) {
				circles[of] = append(circles[of], w)
			}
		}
	}
	for i := range jobs {
		job, added := jobs[i].job, map[uint32]bool{}
		for _, w := range job.Clients {
			if !added[w.Attacker] {
				added[w.Attacker] = true
				job.Colluders = append(job.Colluders, circles[key{tasks[jobs[i].from].Model, w.Attacker}]...)
			}
		}
	}
}
