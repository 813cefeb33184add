// Package network computes a list of layers on minibatches: forward to the loss, and back.
//
// A [Layer] is one file (conv.go): its options, the shape it makes, its parameters, and how
// blocks of samples go forward and back. A network (network.go) is a list of them at work;
// it joins layers that are computed together. Between two stages lies an [Activation].
// head.go has the losses. list.go says which lists are models.
//
// A [Batch] holds what a model reads, networks and others alike, and [Samples] says what
// that is. Package learn makes models of lists, names them and takes steps.
package network
