// Package samebits holds the program to the bits that it computed before. Its
// test plays small experiments through the command line, in processes of their
// own, and compares their models, fingerprints, rounds and timelines with the
// digests in testdata/digests.csv. It knows no other package of the project, so
// that it stays as it is whatever changes within.
//
// Which room holds which runs to the same bits:
//   - here: each run to what earlier versions computed
//   - learn and experiment/convex (FixedBits): models and problems on every architecture
//   - experiment/run: a run to itself with other hosts and workers, and without a server
//   - experiment/run/resuming: a run that was stopped in one process to one that was not
//   - cmd (TestResume_...): a run whose process was stopped or killed to one that was not
//   - internal/chaos: a run whose hosts, servers or connections fail to one that nobody disturbs
//
// A change that means to compute something else says so with
//
//	go test ./internal/samebits -update
//
// which writes the digests anew, and with the difference in testdata/digests.csv.
package samebits
