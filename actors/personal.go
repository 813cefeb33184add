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
	model     *learn.Personal
	memory    int // values that the steps remember; the client's own follow, and a 1
	headSteps int
	shared    []float32 // of a client, what travels first
	full      []float32 // the same as steps have it
}

// privatePart is where a client's own values are in its model.
func (s *personal) privatePart(model []float32) []float32 {
	start := learn.Travels(s.model)
	return model[start : start+s.model.Own()]
}

// begin makes a client's model, of what it keeps; nil: nothing yet.
func (s *personal) begin(shared, state []float32) {
	copy(s.shared, shared)
	if state != nil {
		copy(s.privatePart(s.shared), state[s.memory:])
	}
}

func (s *personal) Run(
	ctx context.Context,
	w *Work,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	for i, a := range w.Tasks {
		var state, memory []float32
		if w.Local != nil {
			state = w.Local[i]
		}
		if s.begin(w.Base, state); state != nil {
			memory = state[:s.memory]
		}
		first, memory, err := s.task(ctx, a, memory)
		if err != nil {
			return err
		}
		if w.Local != nil {
			next := make([]float32, s.memory+s.model.Own()+1)
			copy(next, memory)
			copy(next[s.memory:], s.privatePart(s.shared))
			next[len(next)-1] = 1 // all zeros are nothing
			w.Local[i] = next
		}
		if err := done(i, s.shared, first); err != nil {
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
	private := make([]float32, s.model.Own())
	communicated := make([]float32, learn.Travels(s.model))
	a.LocalSteps = 1
	for i := range k {
		copy(private, s.privatePart(s.shared))
		copy(communicated, s.shared)
		loss, _, err := s.steps(ctx, a, nil)
		if err != nil {
			return 0, nil, err
		}
		if i < min(s.headSteps, k-1) {
			copy(s.shared, communicated)
		} else {
			copy(s.privatePart(s.shared), private)
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
	s.model.Whole(s.full, s.shared)
	first, memory, err = continueSteps(ctx, s.Steps, s.full, a, memory, s.memory)
	s.model.Apart(s.shared, s.full)
	return first, memory, err
}

func (s *personal) Evaluate(
	ctx context.Context,
	model []float32,
	measured Measured,
	scores []learn.Score,
) (lossSum float64, err error) {
	s.begin(model, measured.State)
	s.model.Whole(s.full, s.shared)
	return s.Steps.Evaluate(ctx, s.full, measured, scores)
}
