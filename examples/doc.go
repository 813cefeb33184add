// Package examples tests the folders below it that play a published policy and
// compare what comes out with what its paper claims.
//
// Each such folder has a README.md, a configuration, and a run.sh that regenerates
// its table compare.csv and its figure. "make examples" runs all of them; the test
// runs them in their small form.
package examples
