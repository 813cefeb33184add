package quota

// Device are the quotas of one device, as the configuration has them under devices.quota.
type Device struct {
	Connections int     `key:"connections" default:"4" range:"[1,1000]" is:"inert" help:"open connections"`
	Messages    float64 `key:"messages_per_second" default:"500" range:"[1,1e6]" is:"inert" help:"messages a second; more wait"`
	PendingMB   float64 `key:"pending_mb" default:"8" range:"[1,1024]" unit:"MB" is:"inert" help:"data that waits on a connection"`
	Fetches     float64 `key:"fetches" default:"8" range:"[1,1e6]" is:"inert" help:"fetches of each task's model"`
	Refused     int     `key:"refused_tasks" default:"10" range:"[1,1e6]" is:"inert" help:"refused updates in a row"`
	Lost        int     `key:"lost_tasks" default:"5" range:"[1,1e6]" is:"inert" help:"lost tasks in a row"`
	HeldSeconds float64 `key:"held_seconds" default:"120" range:"(0,1e9]" unit:"seconds" is:"inert" help:"wall time an hour by which a device's tasks may exceed ten times the devices' median, or its class's time if more"`
	BanSeconds  float64 `key:"ban_seconds" default:"0" range:"[0,1e9]" unit:"seconds" is:"inert" help:"length of a ban for fetches and later quotas, doubled each time; 0: for good, but 2 minutes, doubled up to an hour, for lost_tasks and held_seconds"`
}

// Default returns the quotas of configurations that do not set any: what one device may use of the
// server's connections, messages and memory.
func Default() Device {
	return Device{
		Connections: 4,
		Messages:    500,
		PendingMB:   8,
		Fetches:     8,
		Refused:     10,
		Lost:        5,
		HeldSeconds: 120,
	}
}

// Pending returns PendingMB in bytes.
func (d *Device) Pending() int64 { return int64(d.PendingMB * 1e6) }
