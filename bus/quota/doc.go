// Package quota has the quotas that bound how much of a run one real device may use: of the run's
// server and of its wall time.
//
// Quotas are far above what an honest device uses. A device that exceeds a rate is slowed
// down. One that exceeds a total is excluded from the run.
package quota
