// Package quota says what one real device may take of a run: of the server that
// carries it and of its wall time.
//
// Quotas are far above what an honest device takes. One that is over a rate is slowed
// down. One that is over a sum has no place in the run any more.
package quota
