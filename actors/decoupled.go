package actors

import (
	"context"
	"math"
	"slices"

	"fedpace/algorithm"
)

// decoupled takes the steps of clients that continue with their own copy of the model, each at its own
// pace ([algorithm.Decoupled]). As with [streaming], the steps of a task have two parts: before and after
// the fragment that the client sent last is mixed into its copy.
type decoupled struct {
	Steps
	// algorithm is the algorithm with its options.
	algorithm algorithm.Decoupled
	// memoryValues is the number of values that the steps remember, such as the optimizer's. A client's state begins
	// with them, and the parts of a copiedModel follow.
	memoryValues int
	// sent is the model passed to done.
	sent []float32
}

// copiedModel is what a client keeps from task to task beside the memory of its steps, which is the optimizer's. Its
// parts lie in the client's state, in this order.
type copiedModel struct {
	// model is the client's copy.
	model []float32
	// received is each parameter as the client got it last from the server.
	received []float32
	// versions holds for each fragment how many rounds had made the model of which the client got it last.
	// These integers are stored by their bits.
	versions []float32
	// tasksDone has one value, the number of tasks that the client has done, stored by its bits.
	tasksDone []float32
}

// copiedModelOf returns the parts of a copiedModel that lie in kept, what a client keeps beside the memory of its
// steps, for a model of this many parameters. They share kept's memory.
func copiedModelOf(kept []float32, params int) copiedModel {
	last := len(kept) - 1
	return copiedModel{
		model:     kept[:params],
		received:  kept[params : 2*params],
		versions:  kept[2*params : last],
		tasksDone: kept[last:],
	}
}

// Run implements [Steps]. The model that it passes to done differs from the base in one fragment alone, the one that
// the client sends with this task. Job states (w.States) hold what each client keeps: the memory of its steps, and a
// [copiedModel]. A job without states wants only losses, and its steps run as without streaming.
func (d *decoupled) Run(
	ctx context.Context,
	w *Work,
	done func(i int, model []float32, firstStepLoss float64) error,
) error {
	if w.States == nil {
		return d.Steps.Run(ctx, w, done)
	}
	d.sent = slices.Clone(w.Base)
	for i := range w.Tasks {
		// turn is the number of tasks that the client has done, from which the fragment follows.
		turn := d.algorithm.Turn(w.States[i])
		first, err := d.task(ctx, w, i)
		if err != nil {
			return err
		}
		// The update is how far the client has moved since it got the fragment. The receiver takes it
		// relative to the base model, in which the fragment may have moved since.
		client := copiedModelOf(w.States[i][d.memoryValues:], len(w.Base))
		start, end := d.algorithm.Span(turn, len(w.Base))
		for j := start; j < end; j++ {
			moved := float64(client.model[j]) - float64(client.received[j])
			d.sent[j] = float32(float64(w.Base[j]) + moved)
		}
		if err := done(i, d.sent, first); err != nil {
			return err
		}
		copy(d.sent, w.Base)
	}
	return nil
}

// task takes the steps of task i and replaces the client's state in w.States, which is nil before its first task. A
// client's first task starts from the base model. Later ones start from the client's copy: Overlap steps are taken
// before the fragment that the client sent last arrives, and the others after. It returns the loss before the first
// step.
func (d *decoupled) task(ctx context.Context, w *Work, i int) (firstStepLoss float64, err error) {
	params := len(w.Base)
	next := make([]float32, d.memoryValues+d.algorithm.Copy(params))
	client := copiedModelOf(next[d.memoryValues:], params)
	state := w.States[i]
	// turn is the number of tasks that the client has done.
	turn := d.algorithm.Turn(state)
	// A state holds numbers of rounds and tasks by their bits.
	version := math.Float32frombits(uint32(w.Rounds))
	var memory []float32
	if state == nil {
		copy(client.model, w.Base)
		copy(client.received, w.Base)
		for fragment := range d.algorithm.Fragments {
			client.versions[fragment] = version
		}
	} else {
		memory = state[:d.memoryValues]
		copy(next[d.memoryValues:], state[d.memoryValues:])
	}
	// The task is split where the fragment arrives.
	before := w.Tasks[i]
	after := w.Tasks[i]
	before.LocalSteps = min(d.algorithm.Overlap, before.LocalSteps)
	after.LocalSteps -= before.LocalSteps
	after.StepsDone += int64(before.LocalSteps)
	firstStepLoss, memory, err = continueSteps(ctx, d.Steps, client.model, before, memory, d.memoryValues)
	if err != nil {
		return 0, err
	}
	if turn > 0 {
		// The tasks of a client send the fragments in turn, so this one was sent by the task before.
		sent := int((turn - 1) % uint64(d.algorithm.Fragments))
		start, end := d.algorithm.Span(uint64(sent), params)
		d.mix(client.model[start:end], w.Base[start:end])
		copy(client.received[start:end], w.Base[start:end])
		client.versions[sent] = version
	}
	loss, memory, err := continueSteps(ctx, d.Steps, client.model, after, memory, d.memoryValues)
	if err != nil {
		return 0, err
	}
	// Without steps before the mixing, the first loss is that after it.
	if before.LocalSteps == 0 {
		firstStepLoss = loss
	}
	copy(next, memory)
	client.tasksDone[0] = math.Float32frombits(uint32(turn + 1))
	w.States[i] = next
	return firstStepLoss, nil
}

// mix makes the share Mix of a fragment of a client's copy, and 1 − Mix of the same fragment of the global model, the
// fragment of the copy.
func (d *decoupled) mix(clientModel, globalModel []float32) {
	clientShare := float32(d.algorithm.Mix)
	globalShare := float32(1 - d.algorithm.Mix)
	for i, x := range globalModel {
		clientModel[i] = float32(clientShare*clientModel[i]) + float32(globalShare*x)
	}
}
