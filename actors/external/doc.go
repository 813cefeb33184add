// Package external takes local steps in a process of the user, in any programming language:
// docs/trainers.md has the protocol.
//
// A [Program] is a trainer's command with the description that its process gave in its
// greeting: tensors, metrics, the class of its arithmetic, the digest of its script.
// Each of a host's workers has a [Worker], which keeps one process and starts it again
// when it dies. Requests and replies are lines of JSON on two pipes. Models and row
// numbers lie in memory that both processes map, so a model is neither copied nor sent.
//
// What a process says is checked before it is used: lengths, order, names and numbers.
// Package internal/child starts, watches and ends it.
//
// [Share] makes the samples of a set readable for processes; [Owned] is the set of a
// process that brings its own.
//
// The package knows neither rounds nor algorithms nor messages.
package external
