package actors

import (
	"context"
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/learn"
)

// streaming takes the steps of clients that continue with their own copy of the model
// ([algorithm.Streaming]). The steps of a task have two parts: before and after the fragments of
// the last rounds are mixed into the copy. The model passed to done has moved only in the fragment
// that the round sends.
type streaming struct {
	Steps
	// algorithm is the streaming algorithm with its options.
	algorithm algorithm.Streaming
	// memoryValues is the number of values that the steps remember. In a client's state its copy of the model
	// follows them, then the number of rounds.
	memoryValues int
	// sent is the model passed to done.
	sent []float32
}

// Run implements [Steps] for clients that continue with their own copy of the model. A job without
// states wants only losses, and its steps run as without streaming.
func (s *streaming) Run(
	ctx context.Context,
	w *Work,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	if w.States == nil {
		return s.Steps.Run(ctx, w, done)
	}
	s.sent = slices.Clone(w.Base)
	for i := range w.Tasks {
		first, err := s.task(ctx, w, i)
		if err != nil {
			return err
		}
		// Only the fragment of this round is sent, from index start to end of the model. In a client's state its
		// copy of the model follows the memory of the steps.
		start, end := s.algorithm.Span(w.Rounds, len(w.Base))
		clientModel := w.States[i][s.memoryValues:]
		copy(s.sent[start:end], clientModel[start:end])
		if err := done(i, s.sent, first); err != nil {
			return err
		}
		copy(s.sent, w.Base)
	}
	return nil
}

// task takes the steps of task i and replaces the client's state, w.States[i]. A client's first task starts from the
// base model. Later ones start from the client's copy of the model: Overlap steps are taken before the newest
// fragments arrive, and the others after. w.Rounds is the number of the present round, from 0: so many rounds have
// made the base model. It returns the loss before the first step.
func (s *streaming) task(ctx context.Context, w *Work, i int) (firstStepLoss float64, err error) {
	memoryValues := s.memoryValues
	// A state consists of what the steps remember, the client's copy of the model, and the round of the task
	// that made it. Without one there is no round since the last task, so that no fragment is mixed in.
	state := w.States[i]
	lastTaskRound := w.Rounds
	next := make([]float32, memoryValues+s.algorithm.Copy(len(w.Base)))
	clientModel := next[memoryValues : memoryValues+len(w.Base)]
	copy(clientModel, w.Base)
	var memory []float32
	if state != nil {
		memory = state[:memoryValues]
		lastTaskRound = uint64(math.Float32bits(state[len(state)-1]))
		copy(clientModel, state[memoryValues:])
	}
	// The task is split where the fragments arrive.
	before := w.Tasks[i]
	after := w.Tasks[i]
	before.LocalSteps = min(s.algorithm.Overlap, before.LocalSteps)
	after.LocalSteps -= before.LocalSteps
	after.StepsDone += int64(before.LocalSteps)
	firstStepLoss, memory, err = continueSteps(ctx, s.Steps, clientModel, before, memory, memoryValues)
	if err != nil {
		return 0, err
	}
	s.mix(clientModel, w.Base, lastTaskRound, w.Rounds)
	loss, memory, err := continueSteps(ctx, s.Steps, clientModel, after, memory, memoryValues)
	if err != nil {
		return 0, err
	}
	// Without steps before the mixing, the first loss is that after it.
	if before.LocalSteps == 0 {
		firstStepLoss = loss
	}
	copy(next, memory)
	next[len(next)-1] = math.Float32frombits(uint32(w.Rounds))
	w.States[i] = next
	return firstStepLoss, nil
}

// mix replaces, in a client's copy of the model, those fragments that clients have sent in the rounds from firstRound
// to endRound-1 by weighted means: the share Mix of the copy, and the rest of the global model. A fragment that was
// sent in several of these rounds is replaced once.
func (s *streaming) mix(clientModel, globalModel []float32, firstRound, endRound uint64) {
	clientShare := float32(s.algorithm.Mix)
	globalShare := float32(1 - s.algorithm.Mix)
	// Fragments are sent in turn, so the last rounds, as many as there are fragments, have sent them all.
	if fragments := uint64(s.algorithm.Fragments); endRound > fragments {
		firstRound = max(firstRound, endRound-fragments)
	}
	for round := firstRound; round < endRound; round++ {
		start, end := s.algorithm.Span(round, len(clientModel))
		for i := start; i < end; i++ {
			clientModel[i] = float32(clientShare*clientModel[i]) + float32(globalShare*globalModel[i])
		}
	}
}

// forgets reports whether an optimizer has a memory that a task's end loses. Such an optimizer
// would also lose it in the middle of a streaming task.
func forgets(o learn.Optimizer) bool {
	// Plain SGD has no memory, and an optimizer with keep: true has one that clients keep from task to task.
	if learn.Plain(o) || learn.MemoryOf(o, 1) > 0 {
		return false
	}
	// Any other keeps nothing between tasks. It loses nothing if the memory of its stepper has no values.
	stepper, ok := o.Stepper(1).(learn.StatefulStepper)
	return !ok || stepper.Memory() > 0
}
