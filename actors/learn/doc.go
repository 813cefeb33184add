// Package learn holds the models and their local SGD.
//
// A model's parameters are one flat []float32, so that everything around it
// (messages, exact sums, digests, files) handles one slice and never a tree of
// tensors; [Model.Tensors] names the parts. A [Workspace] owns all scratch
// memory of one worker: a step allocates nothing and two workers share nothing.
//
// The arithmetic runs in a kernel class chosen once at start (see [Kernel]).
// Within a class the same inputs give the same bits on every machine.
//
// The package knows neither clients nor rounds, neither NATS nor the clock.
package learn
