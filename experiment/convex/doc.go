// Package convex calculates what theory asks of a strongly convex problem: L,
// mu, the minimum and where it is, how far clients differ, how noisy and how
// large their gradients are.
//
// [New] reads all samples of a set for a model that is a quadratic or a logistic
// regression, and holds the objective in float64. Everything but the smoothness
// of a wide logistic regression, for which there is a bound, is exact up to
// rounding; nothing is estimated from a run.
package convex
