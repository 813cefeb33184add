// Command theory puts the paper's theory to the test on strongly convex problems, where all of its
// constants are known:
//
//	go run ./examples/theory --seeds 5 --out runs/theory
//
// A [Plan] runs schedules over seeds, through the same path as any other run, at equal virtual time.
// Each run is then replayed with all clients taking part, as the analysis has it ([replayer]). That
// gives the mean client model x̄_t of every iteration, ∇F there, and the largest gradient of any client.
// [Result] holds the runs beside Theorem 1's bound. It is written as CSV files, from which alone the
// figures are drawn.
package main
