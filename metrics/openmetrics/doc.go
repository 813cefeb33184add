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
//	fedpace_virtual_round                    gauge    rounds completed
//	fedpace_virtual_round_duration_seconds   gauge    of the round that ends here
//	fedpace_virtual_local_steps              gauge    K_r, from the round's start
//	fedpace_virtual_learning_rate            gauge    eta_r, from the round's start
//	fedpace_virtual_training_loss            gauge    where measured
//	fedpace_virtual_validation_loss          gauge    where measured
//	fedpace_virtual_validation_accuracy      gauge    where measured
//	fedpace_virtual_validation_metric        gauge    where measured, with the label metric
//	fedpace_virtual_sgd_steps_total          counter  sum of K_r
//	fedpace_virtual_updates_total            counter  tasks by outcome
//
// Such databases count in milliseconds: of rounds that end within the same one
// the last is written.
package openmetrics
