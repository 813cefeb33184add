// Package resuming holds tests of runs that were stopped: their checkpoints, damage to their files,
// and the bits to which they come when they continue. The code that they test is in
// experiment/checkpoint, experiment/folder and experiment/run.
package resuming
