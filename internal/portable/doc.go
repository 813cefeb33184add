// Package portable has functions whose bits are the same on every architecture:
// logarithm, exponential, sine, the normal quantile, and the lengths of vectors.
//
// math.Log and math.Exp are assembly on some and compiled with fused multiply-add on
// others, and hosts of several kinds compute for one run. Every product that meets a sum
// is therefore converted explicitly. Errors of functions of one number stay below four units
// in the last place.
package portable
