package learn

import (
	"errors"
)

// ErrNotFinite is returned by a step or an evaluation whose loss is not a
// finite number: the run has diverged, or its data is damaged.
var ErrNotFinite = errors.New("loss is not finite")

// Tensor names one part of a model's flat parameters, in PyTorch's layout
// (a linear layer's weight is [out, in]).
type Tensor struct {
	Name   string // e.g. "0.weight", as PyTorch's state_dict would call it
	Shape  []int
	Offset int // index of the first element in the flat parameters
}

// Len is the number of the tensor's elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Input says which fields of a Batch a model reads.
type Input int

// The kinds of input.
const (
	Dense  Input = iota // Batch.X
	Sparse              // Batch.RowStart, Index, Value
	Tokens              // Batch.Tokens
)

// String names the kind for messages.
func (i Input) String() string {
	switch i {
	case Dense:
		return "dense rows"
	case Sparse:
		return "bags of words"
	case Tokens:
		return "tokens"
	}
	return "unknown input"
}

// Model describes an architecture. It is immutable and shared by all workers.
type Model interface {
	// String is the architecture in a form that Parse reads back, for example
	// "mlp:784,200,200,62".
	String() string
	// Params is the number of parameters, all float32.
	Params() int
	// Tensors lists the parts of the flat parameters in order, without gaps.
	Tensors() []Tensor
	// Input is the kind of batch the model reads, Features the width of a
	// sample (dense columns, vocabulary of a bag of words, sequence length).
	Input() Input
	Features() int
	// Classes is the number of labels; a label is 0..Classes-1.
	Classes() int
	// Init writes the initial parameters for a seed: PyTorch's layer defaults
	// (paper/NOTES, "Model sizes"), from a keyed stream per tensor.
	Init(params []float32, seed uint64)
	// NewWorkspace allocates the scratch memory of one worker for batches of
	// up to maxBatch samples.
	NewWorkspace(maxBatch int) Workspace
}

// Workspace runs a model on one worker. It is not safe for concurrent use.
type Workspace interface {
	// Step performs one step of plain SGD in place, x <- x - rate * grad, on
	// the batch's mean cross-entropy. It returns that loss before the step
	// (the paper's f_c(x, xi), Eq. 15). On ErrNotFinite params are undefined.
	Step(params []float32, b *Batch, rate float32) (loss float64, err error)
	// Gradient writes the gradient of the batch's mean cross-entropy.
	Gradient(grad, params []float32, b *Batch) (loss float64, err error)
	// Evaluate returns the sum over the batch's samples of the cross-entropy,
	// and how many have their label as the first largest logit.
	Evaluate(params []float32, b *Batch) (lossSum float64, correct int, err error)
}
