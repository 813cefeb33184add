// Package human writes durations, sizes and counts for people.
//
// It is pure; what programs read is written elsewhere, without rounding.
package human
