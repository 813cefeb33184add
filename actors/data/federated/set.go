package federated

import "fedpace/actors/learn"

// Info describes a set in the words that reports use.
type Info struct {
	Name      string // e.g. "femnist (parquet)"
	Synthetic bool   // made, or real samples in a made grouping; every report says so
	Note      string // what a reader must know, e.g. what is synthetic about it
	Digest    string // hex SHA-256 that identifies the samples and their split
	Input     learn.Input
	Features  int // see learn.Model.Features
	Classes   int
}

// Set is a federated dataset. Its methods may be called concurrently.
type Set interface {
	Info() Info
	// Clients is the number of clients, numbered from 0; Client names one.
	Clients() int
	Client(c int) string
	// Samples is the number of client c's training samples, at least 1.
	Samples(c int) int
	// Batch appends to dst the given training samples (0..Samples(c)-1) of
	// client c. It returns an error when the samples cannot be read.
	Batch(dst *learn.Batch, c int, samples []int32) error
	// HeldOut is the number of validation samples, pooled over all clients;
	// HeldOutBatch appends samples from..from+n-1 of them.
	HeldOut() int
	HeldOutBatch(dst *learn.Batch, from, n int) error
	// Close releases files and maps.
	Close() error
}
