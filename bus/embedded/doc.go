// Package embedded runs a NATS server inside this process.
//
// It opens no port unless its configuration has one, and then asks for credentials.
// No other package imports nats-server, so the program of a device, which only
// connects, is not made larger by a server. It knows nothing of runs.
package embedded
