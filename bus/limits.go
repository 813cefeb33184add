package bus

import (
	"time"

	"fedpace/internal/names"
)

// Limits of the numbers in messages. They are far above every use. They keep sums of a few such
// numbers within int64 and buffers within memory, so the code that adds or allocates needs no
// checks of its own.
const (
	// MaxDurationNs bounds the duration of one phase, in nanoseconds: nine years.
	MaxDurationNs = 1 << 58
	// MaxStartNs bounds virtual time, in nanoseconds: 146 years.
	MaxStartNs = 1 << 62
	// MaxLocalSteps bounds K, the local steps of one task.
	MaxLocalSteps = 1 << 24
	// MaxSteps bounds the steps that a client has done in all.
	MaxSteps = 1 << 48
	MaxRound = 1<<31 - 1
	// MaxJoules bounds the energy in a battery.
	MaxJoules = 1e12
	// MaxClients bounds the index of a client.
	MaxClients = 1<<31 - 1
	// MaxParams bounds the values of a model, which then take 1 GiB.
	MaxParams = 1 << 28
	// MaxModelBits bounds the bits of one transfer.
	MaxModelBits = 1 << 48
	// MaxJobClients bounds the clients of one job.
	MaxJobClients = 1 << 16
	// MaxJobShards bounds the shards of one job.
	MaxJobShards = 1 << 16
	// MaxSamples bounds the number of validation samples.
	MaxSamples = 1<<31 - 1
	// MaxBatch bounds the samples of a minibatch.
	MaxBatch = 1 << 20
	// maxClasses bounds the classes of clients.
	maxClasses = 1 << 16
	// MaxOutcomes bounds the bytes of a model's outputs for the samples of a shard, and those of the right
	// answers: 1024 samples of 64 values.
	MaxOutcomes = 1024 * 64 * 4
	// MaxMetrics bounds the metrics of a model, besides its loss.
	MaxMetrics      = 16
	MaxLearningRate = 1e9

	// maxNoise bounds the clip of local noise, and the deviation of the noise in clips.
	maxNoise = 1e4

	// MaxText bounds a text in a message, in bytes.
	MaxText = 4096
	// maxLine bounds a text that a device shows to people, in bytes.
	maxLine = 128
	// MaxLog is how many of the newest lines of a device's log are sent.
	MaxLog = 4
	// maxWhy bounds in bytes a device's reason to leave, and a line of its log. People are shown
	// both.
	maxWhy = 512
	// maxChunks bounds the chunks of a model or a sum.
	maxChunks = 1 << 16

	// MaxSchema bounds the schema that gives a device's samples their meaning, in bytes.
	MaxSchema = 1 << 19
	// maxMapping bounds a mapping of columns, in bytes.
	maxMapping = 1 << 18

	// maxConfiguration bounds a run's configuration, in bytes.
	maxConfiguration = 1 << 19
	// maxFiles bounds the files that a configuration names.
	maxFiles = 1 << 12
	// maxLibraries bounds the libraries of a Flower app that hosts must have alike.
	maxLibraries = 1 << 8
	// maxHeldJobs bounds the jobs that a host holds at once.
	maxHeldJobs = 1 << 12

	// MaxOthers bounds the tasks or plans nested in one message, which must fit into the smallest
	// max_payload of a server.
	MaxOthers = 127
)

// Limits of numbers in the messages of devices.
const (
	MaxDevices = names.MaxDevices
	// MaxDeviceSamples bounds the training samples of one device.
	MaxDeviceSamples = 1 << 24
	// MaxDeviceLoss bounds the first-step loss that a device reports.
	MaxDeviceLoss = 1e6
	// MaxMeasured bounds the models, and the sizes of minibatches, of one device's calibration.
	MaxMeasured = 16
	// maxMeasured bounds the values of a calibration, in seconds or in megabits a second.
	maxMeasured = 1e9
	// UnreportedLoss is the first-step loss of a device that does not report one.
	UnreportedLoss = -1
	minHeartbeat   = 50 * time.Millisecond
	maxHeartbeat   = time.Hour
)

// Calibration is the name of the run in which devices are measured and nothing is learned. A device
// that joins whichever run calls it ignores this one: it belongs to the command that calibrates.
const Calibration = "calibration"

// MaxPayload is the largest message of the embedded server, in bytes.
const MaxPayload = 16 << 20

// ChunkBytes is the largest part of a model or a sum in one message. With the message's other fields
// it fits into the 1 MiB that NATS servers allow by default.
const ChunkBytes = 1 << 19

// MaxFrame bounds the frame of a call, or of its reply, in bytes: a gibibyte, which an int of 32 bits
// holds, too.
const MaxFrame = maxChunks * ChunkBytes / 32
