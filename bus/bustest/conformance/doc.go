// Package conformance has the tests that every [bus.Transport] must pass. It is for
// tests alone.
package conformance
