// Package testport gives tests a TCP port that nobody else gets: a test that
// starts and restarts a server on one address, or knows a server's address before
// the server listens, holds the port for as long as the test lasts.
//
// It is for tests alone and knows nothing of the servers.
package testport
