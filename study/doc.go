// Package study plays many runs and compares them.
//
// A [Plan] spans cells: schedules at points of grids, with seeds. [Play] plays cells: what was
// played before is read, not played again; a run that was cut goes on from its checkpoint; hosts,
// progress and limits are those of all. Every table is a list of [Column], of which its text, CSV
// files and pages are made. [Run] does all three for a comparison, whose tables hold means over
// seeds with their 95 % confidence intervals. The paper's evaluation and the plan of a
// deployment bring cells of their own, and what only they compute.
package study
