// Package predict says how long a run takes before or without running it, and
// compares what real devices measured with what was predicted of them.
//
// A prediction is many draws of a run's time. [Play] plays one: the round machine on
// a clock, every task planned at once, nothing learned and nothing sent, some million
// tasks a second. The *twin* of a run with real devices ([Compare]) is the run with
// each device replaced by a simulated client of its class. It has the same cohorts and
// the K_r that the run really had; devices are there, and lost, in the rounds in which
// they were. The draws differ in the seed of the devices' fleet alone, so what the
// simulated clients of the run take stays as it was.
//
// Intervals hold 90 % of the draws: with 99 draws they reach from the 5th to the 95th
// smallest, with 19 from the smallest to the largest. One more draw is in such an interval
// with probability 0.9 exactly, or more where draws are equal (order statistics of
// independent draws); so is a measured time whose classes are right.
package predict
