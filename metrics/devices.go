package metrics

import "time"

// Device is what is known of one real device, by what it said when it joined.
type Device struct {
	Name string `json:"name"`
	// State is present, gone, banned, or not joined.
	State string `json:"state"`
	// Heard is when the device's last message arrived; the zero time: never.
	Heard time.Time `json:"heard,omitzero"`
	// Version is the version of the device's program; empty: the device does not state it.
	Version string `json:"version"`
	Kernel  string `json:"kernel"`
	// Samples is the number of the device's training samples; 0: it has not reported it, or withholds it.
	Samples uint64 `json:"samples"`
	// Log holds the newest lines of the device's log.
	Log []string `json:"log"`
}

// NotJoined is the state of a device that has not joined the run.
const NotJoined = "not joined"

// NeverJoined returns the names of the devices that have not joined, in the order of the list.
func NeverJoined(list []Device) (missing []string) {
	for _, d := range list {
		if d.State == NotJoined {
			missing = append(missing, d.Name)
		}
	}
	return missing
}

// DeviceStats tell how the real devices of a run behave. They are zero in a run without devices.
type DeviceStats struct {
	// Present counts the devices that have joined and are not given up.
	Present int
	// Silent counts the devices that were given up although they had neither left nor been banned.
	Silent int
	// Heartbeats counts the heartbeats that were received.
	Heartbeats int64
	// Refused counts the messages that did not count.
	Refused int64
	// Oldest is when the most silent of the present devices was last heard of; the zero time if
	// none is present.
	Oldest time.Time

	// Banned counts the devices that are banned now.
	Banned int
	// Returns counts how often the run went back to an earlier model.
	Returns int
	// Held is the wall time for which the clock has stood still to wait for devices.
	Held time.Duration
}
