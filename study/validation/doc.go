// Package validation says whether the simulator ranks settings as a deployment does.
//
// [Make] takes finished runs in which real devices took part, and plays each once more with a
// simulated client of its class in the place of every device ([plan.Simulated]): same data, same
// schedule, same closing rule, same seed, the devices' robust rule, nothing that was measured in the run. Runs that
// differ in the seed alone are one [Setting]. Of each setting two quantities are compared, seconds a round and
// the tail of what models are measured by, and over all settings the two orders, by Kendall's τ and
// Spearman's ρ with their intervals. What a device's tasks took beside what its class predicts, by
// class and phase, comes from the runs' own predictions.
package validation
