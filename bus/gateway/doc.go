// Package gateway connects real devices to runs. It has both ends:
// [Gateway] is the coordinator's, [Device] is the device's.
//
// What it promises: every message of a device is checked, and one that cannot
// count is refused with a reason, counted, and reported once; a device that
// floods loses its place and disturbs nobody else; an update is whole or not
// there. It knows neither rounds nor training: the update's values are floats.
package gateway
