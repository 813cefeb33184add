package natsbus

const (
	maxAssemblies = 16      // trainers that send chunks of one job at once
	maxWaiting    = 1 << 12 // trainers that wait for a job
	pendingJobs   = 1 << 12 // jobs and chunks the stream has not confirmed
	maxSumsHeld   = 1 << 12 // sums that wait to be taken
	maxHosts      = 1 << 12 // hosts whose presence a coordinator keeps
	maxWorkers    = 1 << 12 // of one host that count
)
