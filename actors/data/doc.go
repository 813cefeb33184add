// Package data holds federated datasets: who has which samples.
//
// A [Set] answers four questions: how many clients there are, how many
// training samples each has, what a batch of given samples looks like, and
// which samples are held out for validation. Only what is asked for is decoded.
// Readers for the layouts in which people hold such sets are chosen by looking
// at the path ([Open]); made-up sets are called synthetic wherever they appear.
//
// [Minibatches] gives the order in which a client goes through its samples,
// as a pure function of (seed, client, steps done).
//
// The package knows neither rounds nor NATS. It produces learn.Batch and knows
// no model.
package data
