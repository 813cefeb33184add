// Package pld accounts for differential privacy by privacy loss distributions: the distribution of
// the logarithm of how much likelier an output is with a client than without it. Losses of rounds
// add up, so the distribution of many rounds is a convolution, which a Fourier transform makes a power
// (Koskela et al. 2020). Its epsilon is smaller than that of Rényi divergences (package privacy), which
// bounds the same distribution by its moments.
//
// The mechanism is the sampled Gaussian one: a client's update, of norm 1, is in a round with the
// probability q, and noise of the standard deviation sigma is on the sum. Neighbours are two sets of
// clients of which one has a client more (add or remove one), and both directions count: epsilon is the
// larger one. For cohorts of a fixed size that are drawn without replacement a client more takes the
// place of another, so that two updates differ: its caller halves sigma (package privacy has the proof),
// which is replace-one for a round's sum.
//
// Losses lie on a grid. The distribution on it is the one of which the curve of delta over e^epsilon
// connects the values of the exact curve at the grid by lines (Doroshenko et al. 2022): the curve is
// convex, so it lies nowhere below the exact one, and epsilon is an upper bound but for rounding.
package pld
