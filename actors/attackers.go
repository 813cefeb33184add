package actors

import (
	"context"
	"reflect"
	"slices"

	"fedpace/actors/attack"
	"fedpace/algorithm"
	"fedpace/internal/keyed"
)

// acts are what an assignment's client does otherwise than an honest one.
func (p *Problem) acts(a *Assignment) attack.Acts {
	if a.Attacker == 0 {
		return attack.Acts{}
	}
	return attack.Of(p.Attacks[a.Attacker-1])
}

// plot is what colluders have agreed to send, and all that it follows from. A worker that
// does several of their tasks makes it once.
type plot struct {
	base   []float32
	shared *Shared
	of     []Assignment
	sent   []float32 // values of the parameters that are trained
}

// is reports whether the plot is the one of colluders from a base model.
func (p plot) is(base []float32, shared *Shared, of []Assignment) bool {
	return slices.Equal(p.base, base) && reflect.DeepEqual(p.shared, shared) && reflect.DeepEqual(p.of, of)
}

// collude makes the plots of a job's attackers: it trains those whose honest updates they
// know. So each worker with a task of colluders takes the local steps of at most
// [attack.Acts].Circle of them once more in a round, and holds as many updates.
func (t *Trainer) collude(ctx context.Context, base []float32, shared *Shared, work []Assignment) error {
	for i := range work {
		a := &work[i]
		acts := t.problem.acts(a)
		if acts.Together == nil || len(a.Colluders) == 0 || t.plots[a.Attacker].is(base, shared, a.Colluders) {
			continue
		}
		honest, err := t.honest(ctx, base, shared, a.Colluders)
		if err != nil {
			return err
		}
		p := plot{slices.Clone(base), shared, a.Colluders, make([]float32, t.trainable)}
		acts.Together(p.sent, honest)
		t.plots[a.Attacker] = p
	}
	return nil
}

// honest are the updates of clients of the same round, as they would be without an attack.
func (t *Trainer) honest(
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
		t.hide(base, model, &work[i])
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
	acts := t.problem.acts(a)
	if acts.Loss != nil {
		loss = acts.Loss(loss)
	}
	if a.Weight == 0 {
		return loss
	}
	model = model[:t.trainable]
	if acts.Together != nil && len(a.Colluders) > 0 {
		for i, u := range t.plots[a.Attacker].sent {
			model[i] = base[i] + u
		}
	}
	if acts.Update != nil {
		for i, x := range model {
			model[i] = x - base[i]
		}
		acts.Update(model, keyed.Hash(t.problem.Seed, keyed.Attack, uint64(a.Client), a.Task))
		for i, u := range model {
			model[i] = base[i] + u
		}
	}
	return loss
}
