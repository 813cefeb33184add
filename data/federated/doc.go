// Package federated says what a federated dataset is: who has which samples.
//
// A [Set] answers four questions: how many clients there are, how many training
// samples each has, what a batch of given samples looks like, and which samples
// are held out for validation. A reader of real samples makes a [Grouped] set of
// a store of samples ([Rows]) and a [Grouping] of them into clients. A [Partition]
// deals samples to clients that the source does not have. [Describe] puts a set
// in numbers. [Readers] is the table of the layouts that can be read.
//
// [Minibatches] gives the order in which a client goes through its samples, as a
// pure function of (seed, client, steps done).
//
// What readers share is here, too: [OpenSource] looks at a path, [Files] lists a folder,
// [Hash] identifies files, and [DecodePNG] reads an image. The package itself reads no set
// and knows neither rounds nor NATS. It produces learn.Batch and knows no model.
package federated
