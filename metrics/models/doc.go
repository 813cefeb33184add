// Package models is the output that leaves a run's models: the final one in
// model.safetensors, and in best.safetensors the one with the highest validation
// accuracy.
//
// The best model is written at the run's end: to write one every round would write
// more than the run computes. Until then a checkpoint keeps it.
package models
