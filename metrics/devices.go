package metrics

import "time"

// Device is what is known of one real device, by what it said when it joined.
type Device struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`          // present, gone, banned, or not joined
	Heard   time.Time `json:"heard,omitzero"` // when it was heard of last; zero: never
	Version string    `json:"version"`        // of its program; empty: it does not say
	Kernel  string    `json:"kernel"`
	Samples uint64    `json:"samples"` // 0: it does not report them
	Log     []string  `json:"log"`     // newest lines of its log
}

// DeviceStats tell how the real devices of a run behave. They are zero in a run without devices.
type DeviceStats struct {
	Present    int       // joined and not given up
	Silent     int       // were heard of and are given up, and have neither left nor been banned
	Heartbeats int64     // received
	Refused    int64     // messages that did not count
	Oldest     time.Time // when the most silent of those present was last heard of; zero: none is present

	Banned  int           // devices that are banned now
	Returns int           // how often the run went back to an earlier model
	Held    time.Duration // wall time that the clock has stood for devices
}
