// Package data reads federated datasets: who has which samples.
//
// [Open] reads the layouts in which people hold such sets. It asks the readers of
// package federated, one file here for each, which of them recognises the path;
// [OpenPrepared] reads through a memory-mapped file. Package parquetfile reads
// Parquet's columns, package table what a mapping gives a meaning, package synthetic
// makes sets.
// Samples are kept as compactly as their source allows and decoded when a batch
// asks for them.
//
// The package knows neither rounds nor NATS. It produces learn.Batch and knows
// no model.
package data
