// Command fedpace-device is fedpace for a real device, a Raspberry Pi for one:
// it takes part in runs (actor) and measures how fast it is (calibrate). It is
// small: it links no NATS server, no metrics and nothing that draws.
//
// The commands are package cli's, which fedpace has among its own.
package main
