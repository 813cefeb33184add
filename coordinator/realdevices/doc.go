// Package realdevices is the coordinator's part for a run's real devices: it sends
// them tasks, takes their updates, and says which of them take part. Their
// clients are numbered behind the simulated ones.
//
// A device's answer is an event of the round machine as any other, and devices
// join and leave only between two clock events. So a [Record] of the answers and
// of the devices' presence can stand for the devices: a resumed run finds the
// updates there that it still needs, and a replay comes to the same bits.
//
// The package knows neither the machine's rounds nor the clock: its caller gives
// it tasks and asks for the next event.
package realdevices
