// Package learn holds the models and their local SGD.
//
// A model's parameters are one flat []float32, so that everything around it
// (messages, exact sums, digests, files) handles one slice and never a tree of
// tensors; [Model.Tensors] names the parts. [Parse] makes a model from a line
// such as "mlp:784,200,200,62". A [Workspace] owns all scratch memory of one
// worker: a step allocates nothing and two workers share nothing.
//
// A model is a list of layers, those of the paper, too: a [Sequential]. Package network has
// the layers, and computes lists of them. The models of theory are files of their own
// (logistic.go).
//
// [Workspace.Step] is plain SGD. An [Optimizer] makes other steps of the gradient:
// momentum, Adam, weight decay and clipping. Its [Stepper] forgets all between two
// tasks. It is plain Go that rounds every operation, the same in every class.
//
// The arithmetic of a workspace is a [Kernel]. Its class decides the bits: within a
// class the same inputs give the same bits on every machine. A class is computed by
// the fastest instructions that the machine has for it ([SelectKernel]); the
// environment variable FEDPACE_KERNEL limits which ones a process may use.
//
// Batches are worked on in blocks of 32 samples, whose values lie feature by
// feature (see package kernel), so larger batches are no faster and smaller ones
// waste what they leave of half a block.
//
// The package knows neither clients nor rounds, neither NATS nor the clock.
package learn
