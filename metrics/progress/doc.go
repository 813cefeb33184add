// Package progress is the output of what a run has cost so far: progress.csv, by which
// pages draw other quantities against wall time and energy.
//
// A row follows a round once so much wall time has passed since the last row: 0.2 s, or a
// thousandth of the whole if that is more. So a file has some ten thousand rows at most,
// however long the run. A row before a checkpoint says so. Wall time makes the file differ
// from run to run: it is the only one that does, beside summary.json and the page.
package progress
