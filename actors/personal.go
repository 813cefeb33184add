package actors

import (
	"context"

	"fedpace/learn"
)

// personal takes the steps of clients that keep a part of the model for themselves (see
// [learn.Personal]). It puts the client's private values in the place of the shared model's initial
// ones, and stores what the steps make of them. The caller of Run sees only the rest change.
type personal struct {
	// Steps take the steps of the complete model.
	Steps
	model *learn.Personal
	// memoryValues is the number of values that the steps remember. In a client's state the private values
	// follow them, then a 1.
	memoryValues int
	// headSteps is the number of steps that move the private part alone (see [Problem.HeadSteps]).
	headSteps int
	// clientModel is the model of the client under way, in the order of a [learn.Personal]: the values that are
	// communicated come first, and then the private ones.
	clientModel []float32
	// stepModel is the same model in the order in which local steps take it.
	stepModel []float32
}

// privatePart returns the slice of a model that holds the private values.
func (s *personal) privatePart(model []float32) []float32 {
	start := learn.Communicated(s.model)
	return model[start : start+s.model.PersonalParams()]
}

// begin builds a client's model in s.clientModel from the round's model and the client's private values. These are
// in its state, behind what the steps remember. A nil state means that the client has not trained before: its private
// values are those of the round's model.
func (s *personal) begin(roundModel, state []float32) {
	copy(s.clientModel, roundModel)
	if state != nil {
		copy(s.privatePart(s.clientModel), state[s.memoryValues:])
	}
}

// Run implements [Steps] for models with private parameters. Each client starts from the shared
// parameters of the base model and its own private ones, which are in its state. done gets the model
// after the steps, of which only the shared parameters are communicated. A state consists of what the steps
// remember (s.memoryValues values), the private parameters, and a 1.
func (s *personal) Run(
	ctx context.Context,
	w *Work,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	for i, a := range w.Tasks {
		var state, memory []float32
		if w.States != nil {
			state = w.States[i]
		}
		s.begin(w.Base, state)
		if state != nil {
			memory = state[:s.memoryValues]
		}
		first, memory, err := s.task(ctx, a, memory)
		if err != nil {
			return err
		}
		if w.States != nil {
			next := make([]float32, s.memoryValues+s.model.PersonalParams()+1)
			copy(next, memory)
			copy(next[s.memoryValues:], s.privatePart(s.clientModel))
			// A state of zeros alone would stand for no state, so the last value is 1.
			next[len(next)-1] = 1
			w.States[i] = next
		}
		if err := done(i, s.clientModel, first); err != nil {
			return err
		}
	}
	return nil
}

// task takes a client's local steps on s.clientModel. With headSteps 0 all parameters move together.
// Otherwise the first headSteps steps move only the private parameters, and the others only the shared
// ones (FedRep, Collins et al. 2021, Algorithm 1); the last step always moves the shared ones. It
// returns the loss before the first step and what the steps remember now, nil with headSteps.
func (s *personal) task(
	ctx context.Context,
	a Assignment,
	memory []float32,
) (firstStepLoss float64, nextMemory []float32, err error) {
	if s.headSteps == 0 {
		return s.steps(ctx, a, memory)
	}
	k := a.LocalSteps
	private := make([]float32, s.model.PersonalParams())
	communicated := make([]float32, learn.Communicated(s.model))
	// Each step moves all parameters, and then those that must not move are put back.
	a.LocalSteps = 1
	for i := range k {
		copy(private, s.privatePart(s.clientModel))
		copy(communicated, s.clientModel)
		loss, _, err := s.steps(ctx, a, nil)
		if err != nil {
			return 0, nil, err
		}
		if i < min(s.headSteps, k-1) {
			copy(s.clientModel, communicated)
		} else {
			copy(s.privatePart(s.clientModel), private)
		}
		if i == 0 {
			firstStepLoss = loss
		}
		a.StepsDone++
	}
	return firstStepLoss, nil, nil
}

// steps takes a task's local steps from the client's model, and replaces it by the result. s.clientModel holds the
// model in the run's order, with the personal parameters last, and s.stepModel is memory for the same in the model's
// own order, in which it is computed. memory is what the client's steps remembered before. The results are the loss
// before the first step and what the steps remember now.
func (s *personal) steps(
	ctx context.Context,
	a Assignment,
	memory []float32,
) (firstStepLoss float64, nextMemory []float32, err error) {
	s.model.ToModelOrder(s.stepModel, s.clientModel)
	firstStepLoss, nextMemory, err = continueSteps(ctx, s.Steps, s.stepModel, a, memory, s.memoryValues)
	s.model.FromModelOrder(s.clientModel, s.stepModel)
	return firstStepLoss, nextMemory, err
}

// Evaluate implements [Steps]: it measures the shared parameters of the model together with the
// client's private ones, which measured.State holds.
func (s *personal) Evaluate(
	ctx context.Context,
	model []float32,
	measured Measured,
	scores []learn.Score,
) (lossSum float64, err error) {
	s.begin(model, measured.State)
	s.model.ToModelOrder(s.stepModel, s.clientModel)
	return s.Steps.Evaluate(ctx, s.stepModel, measured, scores)
}
