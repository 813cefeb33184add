// Package datatest has what tests of several packages ask of sets.
package datatest
