// Package samebits holds the program to the bits that it computed before. Its
// test plays small experiments through the command line, in processes of their
// own, and compares their models, fingerprints, rounds and timelines with the
// digests in testdata/digests.csv. It knows no other package of the project, so
// that it stays as it is whatever changes within.
//
// A change that means to compute something else says so with
//
//	go test ./internal/samebits -update
//
// which writes the digests anew, and with the difference in testdata/digests.csv.
package samebits
