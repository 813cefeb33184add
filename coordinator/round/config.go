package round

import (
	"cmp"
	"errors"
	"fmt"

	"fedpace/actors/measure"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
)

// Limits of one run. They keep every sum of virtual times far from overflow
// and every allocation bounded.
const (
	MaxClients    = 1 << 28
	MaxLocalSteps = schedule.MaxK0
	MaxDuration   = Time(1) << 58 // 9 years; no phase of a task takes longer
	MaxTime       = selection.MaxTime
	MaxRounds     = 1<<31 - 1
	MaxFruitless  = 1 << 24 // tasks of a buffered round that end without an update that counts
)

// Config is what a machine needs to know of its run.
type Config struct {
	Seed    uint64
	Clients int // population, of simulated clients; 0: devices alone take part
	Cohort  int // clients asked in a round; with Buffered, clients at work at a time
	Closing closing.Rule
	Late    closing.Lateness // nil: Drop
	Select  selection.Rule   // nil: Uniform
	K       schedule.K
	Eta     schedule.Eta
	Epochs  schedule.Epochs        // where K counts epochs, not local steps
	Loss    schedule.Loss          // what the schedules see as a round's loss
	Window  schedule.WindowConfig  // Eq. 15's rolling loss
	Plateau schedule.PlateauConfig // when a validation error counts as converged

	// Available says whether a client can be given a task at a time, and
	// NextChange when any client's answer may next differ from that at t: a
	// later time, or false when it never does. Both are pure. nil: all are
	// always available. Where fewer are available than the cohort, those are
	// taken; where none is, the round opens at the next change.
	// Devices are none of their business.
	Available  func(client int, t Time) bool
	NextChange func(t Time) (Time, bool)

	// Soonest is a time that no task of a simulated client is shorter than,
	// drop-outs included; 0: nothing is known. With it rounds that overlap need
	// not wait for every plan, see [Machine.RunsAhead].
	Soonest Time

	// Samples, Expect and There are what a selection may ask of a client, see [selection.Setup];
	// nil: not known. Expect is asked of devices, too, and Samples is not: they tell it.
	Samples func(client int) int
	Expect  func(client, steps int) Time
	There   func(client int, from, to Time) float64

	// Batteries are what clients run on; nil: nobody's energy ends. They go with neither
	// Server nor Soonest.
	Batteries Batteries

	Devices Devices // real devices, clients beyond the population

	// Server is what all transfers of simulated clients share. Leaves says when
	// a client that is given a task at t drops out because it is not available
	// any longer, false for never; it is pure, and asked only where transfers
	// are shared: otherwise plans say it. nil: never.
	Server Bandwidth
	Leaves func(client int, t Time) (Time, bool)

	Metrics []measure.Metric // by which models are measured besides their loss
	Quality measure.Quality  // by which a plateau is seen

	Train bool // false: no updates are trained and no loss is known

	// Evaluate is when models are measured on the held-out samples, besides the final one.
	// EvaluateClients is when they are measured on the samples of each client, which decides
	// nothing in a run; if it has any, the final model is, too.
	Evaluate, EvaluateClients measure.Timetable

	Stop Limits
}

// Limits end a run; zero values do not. At least one is set.
type Limits struct {
	Rounds  int              // after so many rounds
	Time    Time             // a round counts when it ends by then
	Targets []measure.Target // once an evaluation reaches one of them
}

// Validate says what is wrong with a configuration, without making a machine.
// What an order reads of the clients is left to [New].
func (c *Config) Validate() error {
	switch {
	case c.Clients < 0 || c.Clients > MaxClients || c.population() == 0:
		return fmt.Errorf("round: %d clients, want 1 to %d", c.Clients, MaxClients)
	case c.Cohort < 1 || c.Cohort > c.drawn():
		return fmt.Errorf("round: a cohort of %d from %d clients", c.Cohort, c.drawn())
	case c.Closing == nil || c.K == nil || c.Eta == nil:
		return errors.New("round: closing rule, K and eta schedules are required")
	case c.Stop.Rounds == 0 && c.Stop.Time == 0 && len(c.Stop.Targets) == 0:
		return errors.New("round: the run has no end: no limit of rounds or time, and no target")
	case c.Stop.Rounds < 0 || c.Stop.Time < 0:
		return errors.New("round: limits must not be negative")
	case !c.Train && len(c.Stop.Targets) > 0:
		return errors.New("round: a target needs training")
	case (c.Available == nil) != (c.NextChange == nil):
		return errors.New("round: availability needs both Available and NextChange")
	}
	if err := cmp.Or(c.Evaluate.Check(), c.EvaluateClients.Check(), c.Devices.validate(c), c.Loss.Check(), c.checkBatteries()); err != nil {
		return err
	}
	if c.Epochs.Batch > 0 && (c.Samples == nil || c.Devices.Count > 0) {
		return errors.New("round: epochs need the clients' numbers of samples, which devices do not tell")
	}
	if limit := fairshare.MaxNeed(); limit.Less(c.Server.Download) || limit.Less(c.Server.Upload) {
		return errors.New("round: one transfer takes the server longer than 9 years")
	}
	return c.validateRules()
}
