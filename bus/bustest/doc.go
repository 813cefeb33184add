// Package bustest has what tests of several packages of the bus need: a server
// that asks for credentials. It is for tests alone.
package bustest
