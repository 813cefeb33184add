// Package devicelog keeps what the real devices of a run answered, in devices.log of the
// run's folder: how long their tasks took and, if that is wanted, their updates, so that
// the run can be played again without its devices.
//
// [Log] is an output of the run and the record that the coordinator writes to, or one of
// another run that a replay reads from. The file has the format of package eventlog, with the
// checksums of its records: a log that is damaged is refused, and one that was torn off by a
// crash ends with its last whole record. Unlike events.log it is there whatever events.sample
// is, holds each record as it happens, and is for its owner alone. The package does not know
// how a run is carried out.
package devicelog
