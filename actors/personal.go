package actors

import (
	"context"

	"fedpace/learn"
)

// personal takes the steps of clients that keep a part of the model to themselves: it puts the
// client's own values where the shared model has their first ones, and keeps what the steps make of
// them. What done gets is the rest.
type personal struct {
	Steps     // of the whole model
	of        *learn.Personal
	memory    int // values that the steps remember; the client's own follow, and a 1
	headSteps int
	model     []float32 // of a client, what travels first
	whole     []float32 // the same as steps have it
}

// own is where a client's own values are in its model.
func (s *personal) own(model []float32) []float32 {
	from := learn.Travels(s.of)
	return model[from : from+s.of.Own()]
}

// begin makes a client's model, of what it keeps; nil: nothing yet.
func (s *personal) begin(shared, kept []float32) {
	copy(s.model, shared)
	if kept != nil {
		copy(s.own(s.model), kept[s.memory:])
	}
}

func (s *personal) Run(
	ctx context.Context,
	w *Work,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	for i, a := range w.Tasks {
		var kept, memory []float32
		if w.Local != nil {
			kept = w.Local[i]
		}
		if s.begin(w.Base, kept); kept != nil {
			memory = kept[:s.memory]
		}
		first, memory, err := s.task(ctx, a, memory)
		if err != nil {
			return err
		}
		if w.Local != nil {
			next := make([]float32, s.memory+s.of.Own()+1)
			copy(next, memory)
			copy(next[s.memory:], s.own(s.model))
			next[len(next)-1] = 1 // all zeros are nothing
			w.Local[i] = next
		}
		if err := done(i, s.model, first); err != nil {
			return err
		}
	}
	return nil
}

// task takes a client's steps: all parameters move together, or one step after the other moves first
// the personal ones and then the rest (FedRep, Collins et al. 2021, Algorithm 1). The last step is
// for the rest.
func (s *personal) task(ctx context.Context, a Assignment, memory []float32) (first float64, _ []float32, err error) {
	if s.headSteps == 0 {
		return s.steps(ctx, a, memory)
	}
	k := a.LocalSteps
	own := make([]float32, s.of.Own())
	rest := make([]float32, learn.Travels(s.of))
	a.LocalSteps = 1
	for i := range k {
		copy(own, s.own(s.model))
		copy(rest, s.model)
		loss, _, err := s.steps(ctx, a, nil)
		if err != nil {
			return 0, nil, err
		}
		if i < min(s.headSteps, k-1) {
			copy(s.model, rest)
		} else {
			copy(s.own(s.model), own)
		}
		if i == 0 {
			first = loss
		}
		a.StepsDone++
	}
	return first, nil, nil
}

// steps takes steps from the client's model, which it replaces, and returns what they remember.
func (s *personal) steps(ctx context.Context, a Assignment, memory []float32) (first float64, _ []float32, err error) {
	s.of.Whole(s.whole, s.model)
	first, memory, err = goOn(ctx, s.Steps, s.whole, a, memory, s.memory)
	s.of.Apart(s.model, s.whole)
	return first, memory, err
}

func (s *personal) Evaluate(
	ctx context.Context,
	model []float32,
	of Measured,
	scores []learn.Score,
) (lossSum float64, err error) {
	s.begin(model, of.Kept)
	s.of.Whole(s.whole, s.model)
	return s.Steps.Evaluate(ctx, s.whole, of, scores)
}
