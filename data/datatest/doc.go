// Package datatest reads and checks batches for the tests of data sets.
package datatest
