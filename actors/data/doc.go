// Package data holds federated datasets: who has which samples.
//
// A [Set] answers four questions: how many clients there are, how many
// training samples each has, what a batch of given samples looks like, and
// which samples are held out for validation. Samples are kept as compactly as
// their source allows and decoded when a batch asks for them.
//
// [Open] reads the layouts in which people hold such sets, chosen by looking at
// the path; [OpenPrepared] does so through a memory-mapped file. [Synthetic]
// makes sets, client by client as they are needed. A [Partition] deals samples
// to clients that the source does not have. Whatever is made, samples or
// grouping, is called synthetic wherever it appears. [Describe] puts a set in
// numbers.
//
// [Minibatches] gives the order in which a client goes through its samples,
// as a pure function of (seed, client, steps done).
//
// The package knows neither rounds nor NATS. It produces learn.Batch and knows
// no model.
package data
