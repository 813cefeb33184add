// Package jsonscan reads JSON (RFC 8259) as a stream, for files of many megabytes
// of numbers: nothing is built that the caller does not keep.
package jsonscan
