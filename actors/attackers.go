package actors

import (
	"context"
	"reflect"
	"slices"

	"fedpace/actors/attack"
	"fedpace/algorithm"
	"fedpace/internal/keyed"
)

// behaviour are what an assignment's client does otherwise than an honest one.
func (p *Problem) behaviour(a *Assignment) attack.Behaviour {
	if a.Attacker == 0 {
		return attack.Behaviour{}
	}
	return attack.BehaviourOf(p.Attacks[a.Attacker-1])
}

// collusion is what colluders have agreed to send, and all that it follows from. A worker that
// does several of their tasks makes it once.
type collusion struct {
	base      []float32
	shared    *Shared
	colluders []Assignment
	update    []float32 // values of the parameters that are trained
}

// matches reports whether the plot is the one of colluders from a base model.
func (p collusion) matches(base []float32, shared *Shared, colluders []Assignment) bool {
	return slices.Equal(p.base, base) && reflect.DeepEqual(p.shared, shared) && reflect.DeepEqual(p.colluders, colluders)
}

// collude makes the plots of a job's attackers: it trains those whose honest updates they
// know. So each worker with a task of colluders takes the local steps of at most
// [attack.Behaviour].MaxColluders of them once more in a round, and holds as many updates.
func (t *Trainer) collude(ctx context.Context, base []float32, shared *Shared, work []Assignment) error {
	for i := range work {
		a := &work[i]
		behaviour := t.problem.behaviour(a)
		if behaviour.Collude == nil || len(a.Colluders) == 0 || t.collusions[a.Attacker].matches(base, shared, a.Colluders) {
			continue
		}
		honest, err := t.honestUpdates(ctx, base, shared, a.Colluders)
		if err != nil {
			return err
		}
		p := collusion{slices.Clone(base), shared, a.Colluders, make([]float32, t.trainable)}
		behaviour.Collude(p.update, honest)
		t.collusions[a.Attacker] = p
	}
	return nil
}

// honestUpdates are the updates of clients of the same round, as they would be without an attack.
func (t *Trainer) honestUpdates(
	ctx context.Context,
	base []float32,
	shared *Shared,
	work []Assignment,
) (updates [][]float32, err error) {
	work = slices.Clone(work)
	for i := range work {
		work[i].Attacker = 0
	}
	err = t.steps.Run(ctx, t.work(base, shared, work), func(i int, model []float32, _ float64) error {
		t.addNoise(base, model, &work[i])
		if err := algorithm.Check(model, base); err != nil {
			return &Diverged{Task: work[i].Task, Client: work[i].Client, Cause: err.Error()}
		}
		u := make([]float32, t.trainable)
		for j := range u {
			u[j] = model[j] - base[j]
		}
		updates = append(updates, u)
		copy(model, base)
		return nil
	})
	return updates, err
}

// attack makes of a client's model the one that it sends, and returns the loss that it tells.
// In a loss query nothing is sent.
func (t *Trainer) attack(base, model []float32, loss float64, a *Assignment) float64 {
	behaviour := t.problem.behaviour(a)
	if behaviour.Loss != nil {
		loss = behaviour.Loss(loss)
	}
	if a.Weight == 0 {
		return loss
	}
	model = model[:t.trainable]
	if behaviour.Collude != nil && len(a.Colluders) > 0 {
		for i, u := range t.collusions[a.Attacker].update {
			model[i] = base[i] + u
		}
	}
	if behaviour.Update != nil {
		for i, x := range model {
			model[i] = x - base[i]
		}
		behaviour.Update(model, keyed.Hash(t.problem.Seed, keyed.Attack, uint64(a.Client), a.Task))
		for i, u := range model {
			model[i] = base[i] + u
		}
	}
	return loss
}
