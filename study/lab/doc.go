// Package lab puts the paper's theory to the test on strongly convex problems,
// where all of its constants are known.
//
// A [Plan] runs schedules over seeds, through the same path as any other run,
// at equal virtual time. Each run's models are then gone through again with all
// clients taking part, as the analysis has it, which gives the mean client model
// x̄_t of every iteration, ∇F there, and the largest gradient of any client.
// [Result] holds the runs beside Theorem 1's bound; it is written as CSV files,
// from which alone the figures are drawn.
package lab
