// Package testserver starts NATS servers of a configuration file for tests, as
// administrators start theirs: what the file says may be changed and read again.
//
// It is for tests alone.
package testserver
