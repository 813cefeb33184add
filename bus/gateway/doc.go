// Package gateway connects real devices to runs. It has both ends:
// [Gateway] is the coordinator's, [Device] is the device's.
//
// What it promises: every message of a device is checked, and an invalid one is
// refused with a reason, counted, and reported once; a device that sends too many
// messages loses its place and does not disturb others; an update counts only
// when it is complete. It knows neither rounds nor training: the update's values
// are floats.
//
// gateway.go has the coordinator's end, peer.go what it knows of one device and how it
// takes a device's messages, place.go which process has a device's place. device.go
// has the device's end, device_task.go its work on tasks. docs/protocol.md describes
// the messages for devices in other languages.
//
// # Behind a site's server
//
// A device may connect to a server of its site, a leaf node of the run's server, the hub. If the hub dies, the device's
// connection stands, and neither end learns which messages were lost. So each end repeats what it needs:
//
//   - The device repeats its requests (joins, parts of an update, messages of secure aggregation, models). A repeat
//     changes nothing: the gateway has answered the same message before, and models are named by their digests. How
//     long an answer may take is decided by the line; package natsconn describes how it finds out what was lost.
//   - The run sends an open task again until the device's process has said that it works on it. What another process
//     of the device has said does not count: leave forgets it, and a process takes the place only after a leave.
//   - A device that was started again while the hub was away knows no run, and the run still takes its first process
//     for there. So the gateway also calls devices that take part and are silent for silentBeats heartbeats.
//
// The times are those of the clock of package time, which simulations replace, and all are counted from messages, so
// that a simulation is the same each time.
package gateway
