// Package ui shows the runs in folders, those that go on and those that have ended, on the
// one page of package page: as a server ([Library.Handler]), or as a file that needs
// nothing else ([Library.Export]).
//
// It reads what runs leave: config.yaml and summary.json for the list, rounds.csv and
// progress.csv for curves, events.log for a run's own view and for single rounds. What was
// read is kept until the files grow, within a limit. Nothing is written, and nothing that
// a run does depends on it.
package ui
