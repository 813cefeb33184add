// Package samebits checks that the program computes the same bits as before. Its
// test plays small experiments through the command line, each in a process of
// its own, and compares their models, fingerprints, rounds and timelines with the
// digests in testdata/digests.csv. It uses no other package of the project, so
// that no change within the project changes the test.
//
// Which room holds which runs to the same bits:
//   - here: each run to what earlier versions computed
//   - learn and experiment/convex (FixedBits): models and problems on every architecture
//   - experiment/run: a run to itself with other hosts and workers, and without a server
//   - experiment/run/resuming: a run that was stopped in one process to one that was not
//   - cmd (TestResume_...): a run whose process was stopped or killed to one that was not
//   - internal/chaos: a run whose hosts, servers or connections fail to one that nobody disturbs
//
// A change that is meant to compute other bits updates the digests with
//
//	go test ./internal/samebits -update
//
// and is reviewed with the difference in testdata/digests.csv.
package samebits
