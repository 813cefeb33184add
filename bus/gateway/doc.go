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
package gateway
