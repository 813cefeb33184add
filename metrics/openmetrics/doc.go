// Package openmetrics writes a finished run as OpenMetrics text, for a time
// series database to load: its clock is the run's virtual one, at a chosen
// epoch.
//
// What a run shows while it goes is in wall time; here the same quantities are
// in virtual time. The two never mix in one series: all names begin with
// fedpace_virtual_, followed by what the live metric is called, and all series
// carry clock="virtual" beside run, task, schedule and seed. None of the names
// is one of a live metric.
//
// Each column of a round is a metric ([metrics.Column]), and so are the metrics of the model and
// the tasks by outcome.
//
// Such databases count in milliseconds: of rounds that end within the same one
// the last is written.
package openmetrics
