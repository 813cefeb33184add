// Package checkpoint says what a run's checkpoint holds, and whether a run may go on
// from it.
//
// It promises that [Newest] returns only a checkpoint that is whole, that is of the same
// configuration, data, trainer and kernel class as the run, and whose outputs still begin
// with what they held when it was written. Where there is none, the error says what to do.
// [Verify] finds what has happened to the files of a run since it wrote them.
//
// The package reads and writes what package folder brings to the disk. It decides neither
// when a checkpoint is written nor how a run goes on: package run does.
package checkpoint
