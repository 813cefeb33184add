package bus

// Task asks one client for one round's local steps.
type Task struct {
	Task         uint64 // unique in the run, from 1
	Round        int    // from 1
	LocalSteps   int    // K, at least 1
	LearningRate float64
	StepsDone    int64   // local steps of this client accepted so far
	Model        Digest  // base model; zero: nothing is trained
	ModelBits    int64   // size of one transfer of the model
	StartNs      int64   // virtual time at which the task starts
	Proximal     float64 // FedProx's mu, for devices; 0: plain SGD
	Stamp        uint64  // of the run's configuration, see RunInfo; SendTask sets it
}

// Phase is a part of a client's work on a task.
type Phase uint8

// The phases in their order.
const (
	NoPhase Phase = iota
	Download
	Compute
	Upload
)

// Plan is a simulated client's answer to a task: how long each phase takes, in
// nanoseconds of virtual time, none negative, each at most MaxDurationNs.
type Plan struct {
	Task       uint64
	DownloadNs int64
	ComputeNs  int64
	UploadNs   int64
	Dropout    Phase // where the client leaves; NoPhase: it finishes
	DropoutNs  int64 // when it leaves, since the task's start
}

// ClientPlan is a plan with the client that its subject names.
type ClientPlan struct {
	Client int
	Plan   Plan
}

// JobKind is what a job asks for.
type JobKind uint8

// The kinds of job.
const (
	Train    JobKind = 1 // local SGD of some clients: one partial sum
	Evaluate JobKind = 2 // losses and hits of some shards of the validation samples
)

func (k JobKind) String() string {
	switch k {
	case Train:
		return "train"
	case Evaluate:
		return "evaluate"
	}
	return "unknown"
}

// Job is a piece of training or evaluation for one trainer.
type Job struct {
	Job     uint64 // unique in the run, from 1
	Kind    JobKind
	Round   int
	Model   Digest // base model, or the one to evaluate
	Params  int    // its number of float32 values
	Kernel  string // kernel class the job needs, a token; SendJob sets it
	Spec    Spec
	Clients []JobClient // Train: at least one
	Shards  []Shard     // Evaluate: at least one
	Method  Method      // Train: how local steps differ from plain SGD
}

// Method is how local steps differ from plain SGD, which is its zero value.
type Method struct {
	Proximal      float64 // FedProx's mu
	Variates      bool    // local steps are SCAFFOLD's, and clients get new control variates
	Variate       Digest  // the server's control variate, put as a model is; zero: all zero
	VariateWeight float64 // of a client's change in the exact sum, 0 to 1
}

// values is the length of the job's exact sum: with control variates their
// changes follow the updates.
func (j *Job) values() int {
	switch {
	case j.Kind != Train:
		return 0
	case j.Method.Variates:
		return 2 * j.Params
	}
	return j.Params
}

// Spec is what a trainer must know of the learning problem.
type Spec struct {
	Model string // architecture, as learn.Model's String
	Data  string // hex SHA-256 of samples and split, as data.Info's Digest
	Seed  uint64
	Batch int // minibatch size
	// Augment is what is done to training images, "none" or "flip_crop".
	Augment string
}

// JobClient is one accepted client's local steps within a job.
type JobClient struct {
	Task         uint64
	Client       int
	LocalSteps   int // K
	StepsDone    int64
	LearningRate float64
	Weight       float64 // w_c, normalised over the accepted clients
	Variate      Digest  // the client's control variate, put as a model is; zero: all zero
}

// Shard is a range of the validation samples, numbered within its evaluation.
type Shard struct {
	Index       int
	From, Count int
}

// Sum is the one result of a job.
type Sum struct {
	Job     uint64
	Model   Digest       // of the job, repeated
	Values  []int64      // Train: the exact partial sum, Job.Params values; with control variates then as many of those
	Clients []ClientLoss // Train: in the order of Job.Clients
	Shards  []ShardScore // Evaluate: in the order of Job.Shards
	Failure *Failure     // the job cannot be done; all else is empty

	// Variates are the clients' next control variates in the order of Clients,
	// Job.Params values each, where the job's method has them. The coordinator
	// keeps them: nobody may write to them any more.
	Variates [][]float32
}

// ClientLoss is what a job tells of a client besides its update.
type ClientLoss struct {
	Task          uint64
	FirstStepLoss float64 // on the first minibatch, before the step
	Variate       Digest  // of its next control variate, if it has one
}

// ShardScore is the evaluation of one shard.
type ShardScore struct {
	Index   int
	LossSum float64 // cross-entropy, summed over the samples
	Correct int
}

// NoModel is the kind of failure of a job whose model is not on the bus: it is put
// there again and the job is done again.
const NoModel = "no model"

// Diverged is the kind of failure of losses or updates that are not finite.
const Diverged = "diverged"

// Failure says why a job cannot be done. It ends a run, unless it is a NoModel.
type Failure struct {
	Kind   string // e.g. "diverged"
	Task   uint64 // 0: not one task's
	Client int    // of the task
	Text   string
}

func (f *Failure) Error() string { return f.Text }
