package config

import (
	"fmt"

	"fedpace/actors/device"
	"fedpace/coordinator/schedule"
	"fedpace/internal/registry"
)

// Config is everything that decides what a run computes. Every field is one
// key of the YAML file; [KnownKeys] lists them with their meaning. A zero in a
// field that says so means that the key is null: not set.
type Config struct {
	Name         string
	Seed         uint64
	Task         Task
	Data         string // "synthetic", or a path
	Synthetic    Synthetic
	Sent140      Sent140
	Model        Model
	Quadratic    Quadratic
	Logistic     Logistic
	Theory       Theory
	Clients      int // 0: as many as the data has; the run fills it in
	Cohort       int
	Batch        int
	Augment      string // of training images: NoAugment or FlipCrop
	Select       Select
	Availability Availability
	Dropout      device.Dropout
	Schedule     Schedule
	Close        Close
	Aggregate    Aggregate
	Limits       Limits
	Stop         Stop
	Network      Network
	Compute      Compute
	Slowdown     Slowdown
	Fleet        []Class // none: all clients are alike
	Devices      Devices
	Train        bool
	Evaluate     Evaluate
	Init         string // path of a safetensors file; empty: the task's own initial weights
	Checkpoint   Checkpoint
	Events       Events
	NATS         NATS
	HTTP         string  // address of the live page and the metrics; empty: none
	Pace         float64 // virtual seconds a second of wall time; 0: as fast as it goes
	Out          string
}

// The changes of training images, as package actors knows them.
const (
	NoAugment = "none"
	FlipCrop  = "flip_crop"
)

// SyntheticData is the value of Config.Data for made data.
const SyntheticData = "synthetic"

// IsSynthetic tells whether the data is made rather than read from Data.
func (c Config) IsSynthetic() bool { return c.Data == SyntheticData }

// Synthetic shapes made data.
type Synthetic struct {
	Heterogeneity float64 // 0: clients alike
	Seed          int     // of the data; 0: that of the run
}

// Sent140 prepares the tweets of that task.
type Sent140 struct {
	MinTweets int // users with fewer are left out
}

// Model is the architecture to train: the task's own, or one for own data.
type Model struct {
	Kind   string // ModelTask, ModelLinear or ModelMLP
	Layers []int  // MLP only: widths from the input to the classes
}

// The kinds of model.
const (
	ModelTask   = "task"
	ModelLinear = "linear" // its sizes are those of the data
	ModelMLP    = "mlp"
)

// Schedule decides K_r and eta_r (Table 3).
type Schedule struct {
	K          string // dsgd, fixed, rounds, error, step, theory
	K0         int
	Eta        string // fixed, rounds, error, step
	Eta0       float64
	Window     int    // rounds in Eq. 15's mean, s
	F0         string // FromWindow or FromFirst: what stands for F_0
	Patience   int    // evaluations without improvement that count as converged
	MinDelta   float64
	DecayRound int // the last round before the decay of "step"; 0: when converged
}

// The kinds of schedule and the choices of F_0 (Table 3, Eq. 13 and 14).
const (
	DSGD   = schedule.KindDSGD
	Fixed  = schedule.KindFixed
	Rounds = schedule.KindRounds
	Error  = schedule.KindError
	Step   = schedule.KindStep

	FromWindow = "window" // the first full window's mean
	FromFirst  = "first"  // the first round's mean
)

// Select is how the clients of a round are chosen among those available.
type Select struct {
	Rule       string
	Candidates int    // PowerOfChoice: clients that are asked for their loss; 0: not set
	From       string // PowerOfChoice and Fit: how candidates are drawn, Uniform or BySize; empty: uniformly
}

// The rules of Select.
const (
	Uniform       = "uniform"
	BySize        = "size"            // with probabilities proportional to the clients' samples
	PowerOfChoice = "power_of_choice" // of more candidates those with the highest loss
	Fit           = "fit"             // uniformly, each client's K lowered to fit the deadline
)

// Close is the rule that ends a round.
type Close struct {
	Rule           string
	Seconds        float64 // Deadline: after the round's start; 0: not set
	N              int     // First and Buffered: updates that close a round; 0: not set
	StalenessLimit int     // Buffered: rounds after which an update is late; 0: no limit
}

// The rules of Close.
const (
	All      = "all"      // Eq. 4
	Deadline = "deadline" // what is not there by then is late
	First    = "first"    // the first n of the cohort: over-selection
	Buffered = "buffered" // asynchronous: with every n updates
)

// FedAvg is the standard algorithm.
const FedAvg = "fedavg"

// keepsClientState tells whether clients keep a vector from task to task.
func (c *Config) keepsClientState() bool {
	a, err := c.Aggregate.Entry()
	return err == nil && registry.NeedsOf(a).ClientState
}

// Aggregate makes the next global model of the updates.
type Aggregate struct {
	Algorithm string
	Weights   string           // EqualWeights or SampleWeights
	Options   AlgorithmOptions // nil: the algorithm's default
}

// Limits are what a run may use.
type Limits struct {
	StateGB float64 // memory of an algorithm's state, 10^9 bytes
}

// The weights of the clients' updates.
const (
	EqualWeights  = "equal"   // Algorithm 1
	SampleWeights = "samples" // by the client's training samples
)

// Stop says when a run ends: at the first that is reached of those that are
// set. Zero means not set.
type Stop struct {
	Rounds             int
	VirtualSeconds     float64
	EqualRuntimeRounds int // the virtual time that so many rounds of K-eta-fixed take
	ValidationAccuracy float64
}

// Network is every client's link (Eq. 3). 1 Mb is 10^6 bit.
type Network struct {
	DownloadMbps  float64
	UploadMbps    float64
	ModelMegabits float64 // 0: exact, 32 bits a parameter
	Links         string  // path of link traces in place of the speeds; empty: none

	// What all clients' transfers share at the server; 0: they do not touch each
	// other, as in the paper.
	ServerDownloadMbps float64
	ServerUploadMbps   float64
}

// ModelBits is the size that a model of so many float32 parameters has on the
// network.
func (n Network) ModelBits(parameters int) float64 {
	if n.ModelMegabits == 0 {
		return 32 * float64(parameters)
	}
	return n.ModelMegabits * 1e6
}

// Compute is the time of a client's minibatches (Table 2): normal, never
// negative.
type Compute struct {
	SecondsPerStep float64 // mean
	Std            float64 // seconds; 0: constant
	Measured       string  // path of measured devices; empty: none
	Reference      string  // the measured device that takes SecondsPerStep
}

// Evaluate says how often the global model is measured on held-out samples.
type Evaluate struct {
	Every   int     // rounds
	Samples int     // of the held-out ones, spread evenly; 0: all
	Target  float64 // accuracy whose time is reported; 0: Stop.ValidationAccuracy
}

// Checkpoint says how often a run can be resumed from.
type Checkpoint struct {
	Seconds float64
}

// NATS is the server that the run's messages travel through.
type NATS struct {
	URL        string // Embedded, or where a server is
	Listen     string // address of the embedded server for others; empty: none
	Replicas   int
	AckSeconds float64
}

// Embedded is the value of NATS.URL for a server within the run's process.
const Embedded = "embedded"

// Name is the schedule as command lines and results write it: dsgd,
// fixed, k-rounds, eta-step and so on. Where both K and eta decay, both names
// are joined by a plus sign.
func (s Schedule) Name() string { return schedule.Pair{K: s.K, Eta: s.Eta}.String() }

// Named returns the schedule with its kinds set by a name of Table 3
// ([schedule.Names]), everything else kept.
func (s Schedule) Named(name string) (Schedule, error) {
	pair, err := schedule.Parse(name)
	if err != nil {
		return s, &KeyError{Key: "schedules", Problem: notA(name, "schedule", schedule.Names())}
	}
	s.K, s.Eta = pair.K, pair.Eta
	return s, nil
}

// SelectsBySize tells whether clients are drawn by their samples.
func (c *Config) SelectsBySize() bool { return c.Select.Rule == BySize || c.Select.From == BySize }

// IsDevice tells whether a client is a real device.
func (c *Config) IsDevice(client int) bool { return client >= c.Clients }

// Shared tells whether transfers slow each other down.
func (n Network) Shared() bool { return n.ServerDownloadMbps > 0 || n.ServerUploadMbps > 0 }

// Untrained makes a configuration one that is timed alone. Where clients are
// chosen by their losses the draw of candidates stands for the choice, and the
// time to ask them is missing.
func (c *Config) Untrained() {
	c.Train, c.Devices.Names = false, nil
	if s := &c.Select; s.Rule == PowerOfChoice {
		if s.From == "" {
			s.From = Uniform
		}
		*s = Select{Rule: s.From}
	}
}

// Words says when a round closes.
func (c Close) Words() string {
	switch c.Rule {
	case Deadline:
		return fmt.Sprintf("after %g s", c.Seconds)
	case First:
		return fmt.Sprintf("with the first %d updates", c.N)
	case Buffered:
		if c.StalenessLimit > 0 {
			return fmt.Sprintf("with every %d updates, none older than %d rounds", c.N, c.StalenessLimit)
		}
		return fmt.Sprintf("with every %d updates", c.N)
	}
	return "when all have answered"
}
