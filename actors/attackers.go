package actors

import (
	"context"
	"reflect"
	"slices"

	"fedpace/actors/attack"
	"fedpace/internal/keyed"
)

// behaviour returns what the assignment's client does differently from an honest client. An honest
// client, whose Attacker is 0, has the zero Behaviour.
func (p *Problem) behaviour(a *Assignment) attack.Behaviour {
	if a.Attacker == 0 {
		return attack.Behaviour{}
	}
	return attack.BehaviourOf(p.Attacks[a.Attacker-1])
}

// collusion is the update that the colluders of one class send, with all inputs that it follows
// from. A worker that does several of their tasks in a round computes it once.
type collusion struct {
	// base and shared are the model and the shared vectors of the job.
	base   []float32
	shared *Shared
	// colluders are the tasks of which the honest updates are known to all colluders.
	colluders []Assignment
	// update is what every colluder sends, one value for each trained parameter.
	update []float32
}

// matches reports whether the collusion follows from exactly these inputs.
func (p collusion) matches(base []float32, shared *Shared, colluders []Assignment) bool {
	return slices.Equal(p.base, base) &&
		reflect.DeepEqual(p.shared, shared) &&
		reflect.DeepEqual(p.colluders, colluders)
}

// collude computes the common updates of a job's colluders before its tasks are trained. It trains
// the tasks whose honest updates the colluders know. A worker with a colluder's task therefore
// takes the local steps of up to [attack.Behaviour].MaxColluders more tasks in a round, and holds
// as many updates.
func (t *Trainer) collude(ctx context.Context, base []float32, shared *Shared, tasks []Assignment) error {
	for i := range tasks {
		a := &tasks[i]
		behaviour := t.problem.behaviour(a)
		if behaviour.Collude == nil || len(a.Colluders) == 0 {
			continue
		}
		// Colluders of one class send the same update, so it is computed once for a base model.
		isComputed := t.collusions[a.Attacker].matches(base, shared, a.Colluders)
		if isComputed {
			continue
		}
		honest, err := t.honestUpdates(ctx, base, shared, a.Colluders)
		if err != nil {
			return err
		}
		computed := collusion{
			base:      slices.Clone(base),
			shared:    shared,
			colluders: a.Colluders,
			update:    make([]float32, t.trainable),
		}
		behaviour.Collude(computed.update, honest)
		t.collusions[a.Attacker] = computed
	}
	return nil
}

// honestUpdates trains tasks of the round as honest clients would, and returns their updates of the
// trained parameters, in the order of tasks: what colluding attackers know of each other before they agree on
// what they send. The noise that each client adds to its own update is included.
func (t *Trainer) honestUpdates(
	ctx context.Context,
	base []float32,
	shared *Shared,
	tasks []Assignment,
) (updates [][]float32, err error) {
	tasks = slices.Clone(tasks)
	for i := range tasks {
		tasks[i].Attacker = 0
	}
	err = t.steps.Run(ctx, t.work(base, shared, tasks), func(i int, model []float32, _ float64) error {
		t.addNoise(base, model, &tasks[i])
		// Buffers that are sent beside the sum are no part of an update, so they must not fail its check.
		copy(model[t.summed:], base[t.summed:])
		if err := t.checkUpdate(&tasks[i], model, base); err != nil {
			return err
		}
		update := make([]float32, t.trainable)
		for j := range update {
			update[j] = model[j] - base[j]
		}
		updates = append(updates, update)
		// The steps use the memory of the model again, and expect the base in it.
		copy(model, base)
		return nil
	})
	return updates, err
}

// attack replaces a client's model by the one that its attack sends, and returns the loss that it
// reports. Only trained parameters change. In a loss query (weight 0) no update is sent, so only
// the loss changes. An honest client's model and loss stay as they are.
func (t *Trainer) attack(base, model []float32, loss float64, a *Assignment) float64 {
	behaviour := t.problem.behaviour(a)
	if behaviour.Loss != nil {
		loss = behaviour.Loss(loss)
	}
	if a.Weight == 0 {
		return loss
	}
	model = model[:t.trainable]
	// The common update was computed before the tasks were trained.
	if behaviour.Collude != nil && len(a.Colluders) > 0 {
		for i, u := range t.collusions[a.Attacker].update {
			model[i] = base[i] + u
		}
	}
	if behaviour.Update != nil {
		// An attack on updates works on the difference to base, which is added again after it.
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
