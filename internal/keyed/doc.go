// Package keyed gives random numbers that are pure functions of a key.
//
// A key is a seed, a purpose and a few integers (client, task, round, ...).
// The same key always gives the same numbers, whoever asks, in whatever order
// and on whichever machine; different keys give independent ones. There is no
// shared state, so nothing that is scheduled differently can draw differently.
//
// [Hash] serves a single draw. [New] gives a stream (math/rand/v2's PCG-DXSM,
// seeded with 128 bits of the key's hash) where many numbers belong to one key,
// as for the weights of a layer or a client's permutation of its samples.
//
// The package uses only the standard library and knows nothing of federated
// learning beyond the names of the purposes in purpose.go.
package keyed
