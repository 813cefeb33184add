package bus

import (
	"time"

	"fedpace/internal/names"
)

// Join is how a device announces itself.
type Join struct {
	Name    string // for people
	Kernel  string // its kernel class, for people
	Samples int    // training samples that it holds
}

// Welcome is what a device must know of the run that it joins.
type Welcome struct {
	Client        int           // its number among the run's clients
	Clients       int           // all clients, devices included
	Spec          Spec          // Spec.Data is the digest of the simulated clients' data
	Params        int           // float32 values of the model
	Heartbeat     time.Duration // wall time from one heartbeat to the next, at most
	Task          string        // what is learned, e.g. "femnist"
	Heterogeneity float64       // of synthetic data
	DataSeed      uint64        // of synthetic data
}

// Heartbeat shows that a device is alive.
type Heartbeat struct {
	Task  uint64 // that it works on; 0: none
	Phase Phase
}

// DeviceUpdate is a device's whole answer to a task: the durations that it
// measured, in nanoseconds of its own clock, and its model.
type DeviceUpdate struct {
	Device        int // index in DeskConfig.Devices
	Task          uint64
	DownloadNs    int64
	ComputeNs     int64
	UploadNs      int64
	FirstStepLoss float64
	Samples       int
	Values        []float32 // the device's model after its steps; nil of one that is refused
}

// Limits of what devices say.
const (
	MaxDevices       = names.MaxDevices
	MaxDeviceSamples = 1 << 24 // training samples of one device
	MaxDeviceLoss    = 1e6     // first-step loss
	minHeartbeat     = 50 * time.Millisecond
	maxHeartbeat     = time.Hour
)
