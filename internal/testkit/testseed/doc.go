// Package testseed gives property tests the same draws in every run, so that
// `go test ./...` either always passes or always fails. A package whose tests import
// rapid imports this one for its effect:
//
//	import _ "fedpace/internal/testkit/testseed"
//
// With FEDPACE_LONG=1, or with a seed given by -rapid.seed or RAPID_SEED, the draws
// are others: fresh ones find the cases that the fixed ones miss.
package testseed
