// Package portable has functions whose bits are the same on every architecture:
// logarithm, exponential, sine, factorials, the power of ten below, the normal quantile, and the lengths of vectors.
//
// math.Log and math.Exp are assembly on some architectures and compiled with fused multiply-add
// on others, and hosts of several kinds compute for one run. Every product that meets a sum is
// therefore converted explicitly, which forbids the fusion. Errors of functions of one number
// stay below four units in the last place. Package exact, below, has no error but is far slower.
package portable
