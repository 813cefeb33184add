// Package folder is what a run leaves: the files in its folder.
//
// It promises that a folder of results is whole: [Results] makes it only for a run
// that starts, never shares it between two runs, writes every file whole or not at
// all, and writes summary.json last. A run that was stopped cuts its growing files
// back to its checkpoint and goes on. Checkpoints and summary.json hold a
// [FileDigest] of each file, by which damage is found. [Store] is the part that a run
// goes on from, and brings it to a [Disk] in an order that outlasts a power cut.
// [Reports], [ReadSummary] and [ReadModel] read what is there, also while the run goes on.
//
// The package knows the round's report and a model's tensors. It does not know how
// a run is carried out, and not what the state in a checkpoint means.
package folder
