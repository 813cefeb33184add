// Package tasks names the learning problems and holds what the paper gives for
// each of its own (Tables 1 and 2). It uses the standard library alone, so that a
// device's program has the tables without the configuration.
package tasks
