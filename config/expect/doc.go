// Package expect reads what is expected of runs, such as "tail_accuracy >= 0.75", and holds what
// they came to against it.
package expect
