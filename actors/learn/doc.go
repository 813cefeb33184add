// Package learn holds the models and their local SGD.
//
// A model's parameters are one flat []float32, so that everything around it
// (messages, exact sums, digests, files) handles one slice and never a tree of
// tensors; [Model.Tensors] names the parts. [Parse] makes a model from a line
// such as "mlp:784,200,200,62". A [Workspace] owns all scratch memory of one
// worker: a step allocates nothing and two workers share nothing.
//
// A model is a list of layers, those of the paper, too: a [Sequential]. A [Layer] is one
// file (layer_conv.go): its options, the shape it makes, its parameters, and how blocks
// of samples go forward and back. A network (network.go) is such a list at work; it
// joins layers that are computed together, and has the one step, gradient and
// evaluation. Between two stages lies an [Activation]. head.go has the losses.
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
