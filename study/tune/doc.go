// Package tune finds the values of keys with which schedules end best, by successive halving on
// virtual time.
//
// Every setting of a grid is played to a ninth of the virtual time, the best third of them to a third
// of it, and the best third of these to its end (Jamieson and Talwalkar 2016, Algorithm 1, with η = 3,
// which makes it a bracket of Hyperband, Li et al. 2018): 22 to 26 % of the grid's virtual time, and
// more of its local steps where K decays, as most are taken early, or large K go on. All settings have the same
// seeds. A run that goes on does so from its checkpoint, so that the last ones are whole runs to the
// bit, and what was played is read: a tuning that was stopped goes on to the same result.
package tune
