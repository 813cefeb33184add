// Package runtest has what the tests of several packages run: small configurations, and a
// made device that takes part in a run.
package runtest
