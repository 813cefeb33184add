package learn

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
