// Package quota says what one real device may take of a run: of the server that
// carries it and of its wall time.
//
// Quotas are far above what an honest device takes. A device that exceeds a rate is slowed
// down. One that exceeds a total is excluded from the run.
package quota
