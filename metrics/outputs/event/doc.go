// Package event holds the generated Go code of metrics/outputs/event.proto, for the output
// tensorboard alone.
package event
