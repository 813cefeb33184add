// Command fedpace-device is fedpace for a real device, a Raspberry Pi for one:
// it takes part in runs (actor), checks whether the machine can (doctor), and measures how
// fast it is (calibrate). It is small: it links no NATS server, no metrics, nothing of
// experiments or the coordinator, and nothing that draws.
//
// The commands are package cli's, which fedpace has among its own.
package main
