package quota

// Device is what one device may take.
type Device struct {
	Connections int     `key:"connections" default:"4" range:"[1,1000]" is:"inert" help:"connections that a device may have open at a time; more are refused"`
	Messages    float64 `key:"messages_per_second" default:"500" range:"[1,1e6]" is:"inert" help:"messages that are taken from a device in a second; more wait"`
	PendingMB   float64 `key:"pending_mb" default:"8" range:"[1,1024]" unit:"MB" is:"inert" help:"what may wait on each connection of a device that reads slowly; with more the connection is closed"`
	Fetches     float64 `key:"fetches" default:"8" range:"[1,1e6]" is:"inert" help:"times that a device may fetch the model for each of its tasks; with more it has no place in the run any more"`
	Refused     int     `key:"refused_tasks" default:"10" range:"[1,1e6]" is:"inert" help:"tasks in a row whose updates are refused, after which a device has no place in the run any more"`
	Lost        int     `key:"lost_tasks" default:"5" range:"[1,1e6]" is:"inert" help:"tasks in a row that may be lost to liveness_seconds or task_seconds, after which a device has no place in the run any more"`
	HeldSeconds float64 `key:"held_seconds" default:"120" range:"(0,1e9]" unit:"seconds" is:"inert" help:"wall time by which the tasks of a device may, in all and again each hour, take longer than ten times the median of the devices, or what its class takes if that is more; with more it has no place in the run for ban_seconds, or for an hour if that is 0"`
	BanSeconds  float64 `key:"ban_seconds" default:"0" range:"[0,1e9]" unit:"seconds" is:"inert" help:"wall time for which a device that is over a quota has no place in the run, twice as long each further time; 0: for good"`
}

// Default is what configurations have that say nothing.
func Default() Device {
	return Device{Connections: 4, Messages: 500, PendingMB: 8, Fetches: 8, Refused: 10, Lost: 5, HeldSeconds: 120}
}

// Pending is PendingMB in bytes.
func (d *Device) Pending() int64 { return int64(d.PendingMB * 1e6) }
