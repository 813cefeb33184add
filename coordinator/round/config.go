package round

import (
	"fedpace/coordinator/closing"
	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/learn/metric"
)

// Config is what a machine needs to know of its run.
type Config struct {
	Seed uint64
	// Clients is the number of simulated clients, 0 if devices alone take part.
	Clients int
	// Cohort is how many clients are selected in a round or, with Buffered, are at work at a time.
	Cohort int
	// CohortFormula gives each round a cohort of its own, at most Cohort. It is empty where all rounds
	// have Cohort, as rounds that overlap must.
	CohortFormula closing.RoundFormula
	// BatchFormula gives the tasks of each round minibatches of their own, of at most Batch samples. It is
	// empty where all rounds have the configured ones.
	BatchFormula closing.RoundFormula
	// Batch is the number of samples of a minibatch, set with BatchFormula.
	Batch   int
	Closing closing.Rule
	// Late says what becomes of late updates, nil for Drop.
	Late closing.Lateness
	// Select chooses the clients of a round, nil for Uniform.
	Select selection.Rule
	// Setup is what the schedules know before the first round.
	Setup schedule.Setup
	K     schedule.K
	Eta   schedule.Eta
	// Epochs turns epochs into local steps where K counts epochs, zero elsewhere.
	Epochs schedule.Epochs
	// Failed returns why a component of the user, such as a class in Python, could not answer, nil while
	// all could. It is called after every step, and the run ends with its error. It is nil if no component
	// can fail.
	Failed func() error
	// Loss says what the schedules see as the loss of a round.
	Loss schedule.Loss
	// PrivateLosses says that no schedule may look for changes of the data in the clients' losses.
	PrivateLosses bool
	// Window says how many rounds the rolling loss of Eq. 15 spans.
	Window schedule.WindowConfig
	// Plateau says when a validation error counts as converged.
	Plateau schedule.PlateauConfig

	// Available reports whether a simulated client can be given a task at a
	// time, and NextChange when that may next differ for any client from what
	// it is at t: a later time, or false when it never does. Both are pure. If
	// they are nil, all clients are always available. Where fewer clients are
	// available than the cohort, those are taken; where none is, the round
	// opens at the next change.
	Available  func(client int, t Time) bool
	NextChange func(t Time) (Time, bool)

	// Soonest is a lower bound of the time that a task of a simulated client takes,
	// drop-outs included; 0 if none is known. With it rounds that overlap need
	// not wait for every plan, see [Machine.RunsAhead].
	Soonest Time

	// Samples, Expect and AvailableShare are what a selection may know of a client, see
	// [selection.Setup]; nil means that it is not known. Expect knows devices, too. Samples does not,
	// since they report it themselves.
	Samples        func(client int) int
	Expect         func(client, steps int) Time
	AvailableShare func(client int, start, end Time) float64

	// Overlap is how many local steps a simulated client that had a task in the round before takes
	// before it needs the model of its next task: it computes while updates are sent and the model is
	// made. 0 means that it waits for the model.
	Overlap int

	// Holds says that a simulated client gets no task while its last update waits for a round to take it:
	// its next task continues from what comes of that update. It matters only where rounds overlap.
	Holds bool

	// Batteries are what clients run on; nil if they have none. They cannot be combined with
	// Server or Soonest.
	Batteries Batteries

	// Devices are the real devices, numbered behind the simulated clients.
	Devices Devices

	// SiteRounds is how many rounds of its own a site has within each round: its clients send to it,
	// it adds up, and after the last of them it sends one update (hierarchical FedAvg; Liu et al.
	// 2020, Algorithm 1). 0 means that clients send to the server. Otherwise the transfers that share
	// Server are those of the sites, one each way in a round, and those between a site and its
	// clients take the times of the plans.
	SiteRounds int

	// Server is what transfers of simulated clients share. Leaves returns when
	// a client that is given a task at t drops out because it is not available
	// any longer, false for never. It is pure, and called only where transfers
	// are shared: otherwise plans have the dropout. It is nil if clients never
	// leave.
	Server Bandwidth
	Leaves func(client int, t Time) (Time, bool)

	// Secure says how updates are aggregated securely; nil if they are not. It cannot be combined with
	// Overlap, late updates, batteries and shared transfers of clients. Where sites add up, the clients of each
	// site aggregate among each other.
	Secure *Secure

	// Metrics are what models are measured by besides their loss.
	Metrics []metric.Metric
	// Quality is the measure in which a plateau is seen.
	Quality metric.Quality

	// Train is false in a run that is only timed: no updates are trained and no loss is known.
	Train bool

	// Measurable reports whether a held-out sample is there at a time, where samples arrive over time. It is
	// pure, and nil where all are there from the beginning. While there is none, nothing is measured.
	Measurable func(t Time) bool

	// Evaluate is when models are measured on the held-out samples, besides the final one.
	// EvaluateClients is when they are measured on the samples of each client, which decides
	// nothing in a run; if it has any, the final model is, too.
	Evaluate, EvaluateClients metric.Timetable

	Stop Limits
}

// Limits end a run; zero values do not. At least one is set.
type Limits struct {
	// Rounds ends the run after this many rounds.
	Rounds int
	// Time is the virtual time at which the run ends. A round counts if it ends by then.
	Time Time
	// Targets end the run once an evaluation reaches one of them.
	Targets []metric.Target

	// Accepted ends the run after the round in which this many tasks are accepted, counted from the
	// start.
	Accepted int
	// Samples ends the run after the round with which the local steps that count have taken this
	// many samples.
	Samples int64
	// Tokens is the same limit in tokens.
	Tokens int64
	// TokensPerSample is the number of tokens in a sample, 0 if samples have none.
	TokensPerSample int64
	// Budget ends the run after the round with which clients have used one of its amounts. An amount
	// of 0 is not set.
	Budget Used
	// Uses returns what a task used that has ended, whatever its outcome. It is pure, and nil where
	// neither a budget nor a report needs it.
	Uses func(*TaskReport) (Used, error)
	// SamplesPerStep is how many samples a client's local step takes. It is called only if Samples or
	// TokensPerSample is set.
	SamplesPerStep func(client int) int
}

// Bandwidth is what the transfers of simulated clients share, of all of them at the
// server, and of those behind one site on its link: what one transfer of the model needs of
// it each way. Zero means that transfers that way do not touch each other there (the
// paper's assumption, and the default). Client c is behind site c modulo Sites.
//
// A plan's download and upload are then their times if no other transfer slows them
// down: a transfer is at most as fast as its client's plan has it, and with
// others it shares its site and the server max-min fairly (package fairshare). Where it
// goes with capacity that changes by the second, its mean is what counts. A
// client that drops out does so at the time in its plan, however far it has
// come by then.
type Bandwidth struct {
	Download, Upload         fairshare.Work
	Sites                    int
	SiteDownload, SiteUpload fairshare.Work
}

// shared reports whether any transfers share bandwidth.
func (b *Bandwidth) shared() bool { return *b != (Bandwidth{Sites: b.Sites}) }

// asksCandidates reports whether the selection asks candidates for their losses before it chooses.
func (c *Config) asksCandidates() bool { return selection.QueryOf(c.Select) > 0 }
