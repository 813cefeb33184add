// Package forecast says how a run will go, before it, during it and beside what it came to.
//
// It answers four questions:
//
//   - What happens on the virtual clock? [Play] plays the round machine on a clock, every
//     task planned at once, nothing learned and nothing sent, some million tasks a second.
//     [UsageOf] plays a configuration for many draws of its fleet and cohorts.
//   - What is to come? A walk goes through the rounds that are left by what their schedule
//     gives and how long they are expected to be. [Remaining] learns from the rounds so far
//     what they cost and says how long the rest takes in wall time. A [Forecast] of a run that
//     has not begun plays all of its rounds, or some of more than a million tasks, learns what
//     they cost from a trial of some, and adds the work.
//   - How large do its files become? [Growth].
//   - How sure is that of real devices? [Compare] plays the *counterpart* of a run: the run with
//     each device replaced by a simulated client of its class. It has the same cohorts and the
//     K_r that the run really had; devices are there, and lost, in the rounds in which they
//     were. The draws differ in the seed of the devices' fleet alone, so what the simulated
//     clients of the run take stays as it was. [Predict] does that for a run that is to come.
//
// An [Interval] holds 90 % of the draws: with 99 draws it reaches from the 5th to the 95th
// smallest, with 19 from the smallest to the largest. One more draw is in such an interval with
// probability 0.9 exactly, or more where draws are equal (order statistics of independent
// draws); so is a measured time whose classes are right.
//
// A schedule that follows what a run measures cannot be foreseen: it is taken to stay at K_0,
// or, in a run that goes on, at its last K. The package reads the wall clock only to time
// local steps; who follows a run tells it how long rounds took.
package forecast
