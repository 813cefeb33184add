// Package advise says what the paper's theory, corrected, advises for a configuration or along a
// finished run: the number of local steps K* (Eq. 9) and the learning rate eta* (Eq. 11) over time.
//
// The formulas are those of coordinator/theory. What this package adds is where their constants come
// from, in this order: a flag ([Given]), the configuration's theory keys, a convex task's own objective
// ([OpenObjective]), or gradients at a finished run's models ([Estimate]). Each is reported with its
// [Source]. [Advise] looks ahead from the start of a configuration, [AlongRun] goes along a run.
package advise
