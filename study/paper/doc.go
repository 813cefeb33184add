// Package paper does the evaluation of "Faster Federated Learning with Decaying
// Number of Local SGD Steps" (Mills, Hu, Min) again: Tables 1 to 4 and Figures
// 1 and 2, for any of its tasks, schedules and seeds.
//
// A [Plan] says which part of it; its cells are runs, one for each task,
// schedule and seed, all to the virtual time of the fixed schedule's rounds, and
// evaluated in the time of as many of them, so that the best of one schedule is not
// that of more values than another's. [WriteCells] says what they cost. A
// cell has a folder that is named for a hash of its configuration, so a cell
// that is done is never done again, whatever plan asks for it, and one that was
// cut goes on from its checkpoint. [Curves] has the cells' evaluations, small
// enough to be kept beside a text and enough to draw the figures, print the tables and
// decide the claims from.
//
// The paper's own numbers stand in claims.go and in the table of tasks; all else
// that is printed here is measured. A shortened evaluation, and one on data that is
// synthetic or a part of the real set, says so in every table and figure.
package paper
