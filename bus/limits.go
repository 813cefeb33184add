package bus

import (
	"time"

	"fedpace/internal/names"
)

// Limits of the numbers in messages. They are far above every use. They keep sums of a few such
// numbers within int64 and buffers within memory, so the code that adds or allocates needs no
// checks of its own.
const (
	MaxDurationNs   = 1 << 58 // one phase: nine years
	MaxStartNs      = 1 << 62 // virtual time: 146 years
	MaxLocalSteps   = 1 << 24 // K of one task
	MaxSteps        = 1 << 48 // steps that a client has done
	MaxRound        = 1<<31 - 1
	MaxJoules       = 1e12      // in a battery
	MaxClients      = 1<<31 - 1 // largest index of a client
	MaxParams       = 1 << 28   // values of a model: 1 GiB
	MaxModelBits    = 1 << 48   // in one transfer
	MaxJobClients   = 1 << 16   // clients of one job
	MaxJobShards    = 1 << 16   // shards of one job
	MaxSamples      = 1<<31 - 1 // validation samples
	MaxBatch        = 1 << 20   // samples of a minibatch
	maxClasses      = 1 << 16   // classes of clients
	MaxMetrics      = 16        // metrics of a model, besides its loss
	MaxLearningRate = 1e9

	maxNoise = 1e4 // clip of local noise, and its deviation in clips

	MaxText   = 4096    // bytes of a text in a message
	maxLine   = 128     // bytes of a text that a device shows to people
	MaxLog    = 4       // newest lines of a device's log
	maxWhy    = 512     // bytes of a device's reason to leave, and of a line of its log, which people are shown
	maxChunks = 1 << 16 // chunks of a model or a sum

	MaxSchema  = 1 << 19 // bytes of what a device is told of the meaning of samples
	maxMapping = 1 << 18 // bytes of a mapping of columns

	maxConfiguration = 1 << 19 // bytes of a run's configuration
	maxFiles         = 1 << 12 // files that it names
	maxHeldJobs      = 1 << 12 // jobs that a host holds at once

	MaxOthers = 127 // plans nested in one message: they fit into the smallest max_payload of a server
)

// Limits of what devices say.
const (
	MaxDevices       = names.MaxDevices
	MaxDeviceSamples = 1 << 24 // training samples of one device
	MaxDeviceLoss    = 1e6     // first-step loss
	MaxMeasured      = 16      // models and sizes of minibatches of one device's calibration
	maxMeasured      = 1e9     // seconds, or megabits a second, of a calibration
	UnreportedLoss   = -1      // first-step loss of a device that does not report one
	minHeartbeat     = 50 * time.Millisecond
	maxHeartbeat     = time.Hour
)

// Calibration is the name of the run in which devices are measured and nothing is learned. A device
// that joins whichever run calls it ignores this one: it belongs to the command that calibrates.
const Calibration = "calibration"

// MaxPayload is the largest message of the embedded server, in bytes.
const MaxPayload = 16 << 20

// ChunkBytes is the largest part of a model or a sum in one message. With the message's other fields
// it fits into the 1 MiB that NATS servers allow by default.
const ChunkBytes = 1 << 19
