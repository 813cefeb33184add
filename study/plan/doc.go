// Package plan finds out which schedule, closing rule, K_0 and cohort a deployment
// should have, before it is deployed.
//
// A [Request] spans a grid of settings, each a configuration. [Make] gives all of them
// the same virtual time. It first plays each many times without learning, with other fleets
// and cohorts: how many rounds and local steps fit the time, what they cost. It then
// trains the most promising ones, and the configuration's own, as the cells of a study:
// what was trained before is read, and what was cut goes on. At last it recommends
// one setting and says why.
//
// What is most promising, before anything is learned, is a rule of thumb: the settings
// with the highest sqrt(local steps of all clients) times rounds. FedAvg's error falls
// with both, as 1/sqrt(N K R) and as 1/R (Karimireddy et al. 2020, SCAFFOLD, Theorem I);
// a setting that has more of both is never behind.
package plan
