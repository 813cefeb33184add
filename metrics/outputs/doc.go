// Package outputs has the outputs of which one file is enough: the models, evaluations by client,
// what a run has cost so far, and event files for TensorBoard. An output is a file here: a
// [metrics.Sink] that registers itself.
package outputs
