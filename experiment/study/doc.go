// Package study plays many runs and compares them.
//
// A [Sweep] or a [Compare] lists runs of one configuration with other schedules,
// values and seeds. What was played before is read, not played again; a run that
// was cut goes on from its checkpoint. Tables hold means over seeds with their 95 %
// confidence intervals.
package study
