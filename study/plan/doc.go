// Package plan finds out which schedule, closing rule, K_0 and cohort a deployment
// should have, before it is deployed.
//
// A [Request] spans a grid of settings, each a configuration. [Make] gives all of them
// the same virtual time. It first plays each many times without learning, with other fleets
// and cohorts: how many rounds and local steps fit the time, what they cost. It then
// trains as many settings as the request pays for, and the configuration's own, as the
// cells of a study: what was trained before is read, and what was cut goes on.
//
// The package has no ranking of its own. Settings are ranked as fedpace compare and fedpace tune
// rank them: by the tail of their runs, with paired seeds, in [fedpace/study/choice]. A setting
// that was not trained has no rank and is not recommended, so without any training the
// recommendation is the configuration as it is. Where a request asks for the time or the energy
// of a number of updates, these are the ranking: they are what was timed, and no training says
// more of them.
//
// All that is decided before training is which settings a bounded number of trainings is spent
// on: those with the highest sqrt(local steps of all clients) times rounds. FedAvg's error falls
// with both, as 1/sqrt(N K R) and as 1/R (Karimireddy et al. 2020, SCAFFOLD, Theorem I); of two
// settings the one that has more of both is trained first. It is a rule of thumb: a request that
// trains all settings does not depend on it.
package plan
