// Package identity answers one question: do two pieces of work follow from the same inputs?
//
// An [Identity] holds all that a run's bits follow from: its configuration, the content of
// every file that the configuration names ([Files]), the digest of its data, the class of its
// kernel and its trainer. [Identity.Difference] compares two of them. Resume and verify ask it
// of a checkpoint, compare and tune of a run that is in a folder already, hosts of the run that
// they are to serve, and reports of runs that may share a mean.
//
// The package promises that no input can be forgotten: files are found by reflection over the
// tags of the configuration, and every key counts unless it is tagged inert. It does not know
// how a run is prepared or carried out.
package identity
