// Package known keeps what a real device has told of its samples and what its tasks have taken,
// by which it is expected to take a time for the next.
package known
