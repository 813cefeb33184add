// Package choice finds the best of several settings by trials with paired seeds, and confirms the choice
// with seeds that took no part in it.
//
// A trial of a setting with a seed gives an error, of which lower is better: the error in the last tenth
// of a run, or the time until a run reaches a level. Runs of two settings with the same seed share their
// random draws, so settings are compared by the differences of their errors, seed by seed.
//
// [Search] is successive halving on seeds (Jamieson and Talwalkar 2016, Algorithm 1, with seeds as the
// resource). Every setting is tried with the same few seeds. Settings that a test tells from the best one
// leave, and so does the worse half of the others; those that remain are tried with twice as many seeds.
// This ends when one setting remains, or at a bound on the seeds.
//
// The value by which a setting was chosen is favoured by chance: it is the best of several noisy values.
// So the settings that remained are tried once more, with fresh seeds. The recommendation follows from
// all seeds, but what is said about the chosen setting comes from the fresh ones.
//
// The package knows nothing of runs, and its results depend on the errors alone.
package choice
