// Package vector turns vectors of numbers into little-endian bytes and back.
//
// It is how models, sums and control variates stand in messages and files. On a
// little-endian machine no byte is copied. The package knows nothing of what
// the numbers mean.
package vector
