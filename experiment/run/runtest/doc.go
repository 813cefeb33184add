// Package runtest has small configurations that the tests of several packages run.
package runtest
