// Package embedded runs a NATS server inside this process.
//
// It opens no port unless it is told to, and asks for credentials where it does.
// It is the only package that knows nats-server, so that a program which only
// connects (a device's) is not made larger by one. It knows nothing of runs.
package embedded
