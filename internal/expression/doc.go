// Package expression reads and evaluates expressions over real numbers, such as max(1, k0 / sqrt(r)): numbers,
// names, arithmetic, comparisons, conditions, let, and calls of functions. It has no loops, lists, clock or
// randomness, so that each part of an expression is evaluated at most once, and equal values give equal results.
//
// [Parse] makes a syntax tree of a text. [Compile] checks the types of a tree over the variables and functions that
// its caller gives, and returns a [Program]. Errors name the place in the text. The package knows nothing of what
// the numbers mean.
package expression
