// Package run turns a configuration into a run and a run into results. Package problem
// prepares what the run needs, and package checkpoint has the state that it resumes from.
//
// It promises that a configuration which [config.Config.Validate] accepts can be
// run, and that a folder of results is whole: it is made only for a run that starts, never
// shared by two runs, and its summary appears at once or not at all. A run that
// was stopped or died continues from its last checkpoint, with [Resume], to the
// bits of a run that was never stopped.
//
// The package knows coordinator and actors, which it wires together, and
// nothing of the command line that calls it.
package run
