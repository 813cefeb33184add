package coordinator

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"fedpace/algorithm"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/simclock"
)

// State is all that a run needs, besides its [Config], to continue where it stood
// between two steps of the machine. What the last step asked for is in it: a
// resumed run sends open tasks again and trains again what was being
// trained, to the same bits. It knows nothing of servers, hosts or connections.
type State struct {
	Machine round.State
	Clock   simclock.State
	// Models are the versions that tasks may start from, ascending; the last is the newest. There are
	// none in a run without training.
	Models []aggregate.Version
	// Measured is true once a model was measured; only then does Best count.
	Measured bool
	// Best is the quality of the best model so far.
	Best float64
	// Server holds the vectors of the algorithm's server, see [algorithm.ServerOptimizer].
	Server [][]float64
	// Variates are what clients keep, control variates or residuals, nil if they keep nothing.
	Variates *algorithm.SavedStates
	// Updates are the updates of real devices that may yet count.
	Updates []realdevices.Answer
	// Findings are the bans and corrections of real devices.
	Findings realdevices.Findings
	// Guard is what the guard against false updates of devices remembers.
	Guard aggregate.Guard

	// Norms and DeviceNorms are what the bounds on all updates and on devices' updates remember,
	// see package combine.
	Norms, DeviceNorms []float64
}

// Checkpoint is how a run's state is kept. Both functions are called from the
// run's own goroutine, between two steps.
type Checkpoint struct {
	// Due returns true if it is time to save. It is called once for every event,
	// so it must cost next to nothing. If it is nil, that is never the case.
	Due func() bool
	// Save keeps the state, whose memory is the run's own: it is valid until
	// Save returns and must not be changed. An error ends the run. Save is
	// also called when the run is interrupted or fails between two steps. If it
	// is nil, no state is kept.
	Save func(*State) error
}

// setAggregator takes over what the aggregator adds to the state. Checkpoints hold its values beside
// the others, by the names of State's own fields.
func (s *State) setAggregator(a *aggregate.State) {
	s.Models = a.Models
	s.Measured = a.Measured
	s.Best = a.Best
	s.Server = a.Server
	s.Variates = a.Variates
	s.Guard = a.Guard
	s.Norms = a.Norms
	s.DeviceNorms = a.DeviceNorms
}

// aggregator returns the part of a checkpoint from which the aggregator continues: models, the best quality so far,
// server state, clients' states, and what the guard and the bounds remember. It shares memory with the checkpoint.
func (s *State) aggregator() *aggregate.State {
	return &aggregate.State{
		Models:      s.Models,
		Measured:    s.Measured,
		Best:        s.Best,
		Server:      s.Server,
		Variates:    s.Variates,
		Guard:       s.Guard,
		Norms:       s.Norms,
		DeviceNorms: s.DeviceNorms,
	}
}

// save hands the run's state to the configured function Save. It saves nothing if there is none, before the
// run has begun and after it has ended, and while masked updates of devices are held.
func (d *driver) save() error {
	phase := d.machine.Phase()
	hasNoRound := phase == round.Idle || phase == round.Stopped
	if d.config.Checkpoint.Save == nil || hasNoRound {
		return nil
	}
	// Masks cannot be used again by a resumed run. The state saved at the round's start stays the
	// newest, and the devices do the whole round again after it.
	if d.devices.HoldsMasked() {
		return nil
	}
	s := &State{Machine: d.machine.State(), Clock: d.clock.State()}
	// A run without training has no aggregator, and no updates of devices.
	if d.aggregator != nil {
		s.setAggregator(d.aggregator.State())
		s.Updates = d.devices.PendingUpdates()
		s.Findings = d.devices.Findings()
	}
	return d.config.Checkpoint.Save(s)
}

// restore puts the round machine and the clock where state s was taken. A state that does not fit
// the configuration is an error that wraps [ErrState].
func (d *driver) restore(s *State) (err error) {
	d.clock = simclock.Restore(s.Clock)
	d.machine, err = round.Restore(d.config.Round, s.Machine)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrState, err)
	}
	return err
}

// ErrState is wrapped by the error for a state from which a run cannot continue.
var ErrState = errors.New("the checkpoint holds a state that no run of this program leaves")

// ErrDiverged is [round.ErrDiverged], wrapped by the error of a run that diverged.
var ErrDiverged = round.ErrDiverged

// Recovered turns a panic into the error *err, which wraps [ErrState] and says where the panic was. It is
// deferred by functions that continue a run from a saved state. The checksum of a checkpoint's file shows
// accidental damage, but a file that was forged with a right checksum may hold a state that makes them
// panic.
func Recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v in %s", ErrState, p, panicLocation())
	}
}

// panicLocation returns the innermost function of this module on the stack of a panic, with its line, for a
// report to the user. Only [Recovered] may call it, because it skips the stack frames of both.
func panicLocation() string {
	var calls [32]uintptr
	// Skipped are the frames of runtime.Callers, of this function and of Recovered.
	const skipped = 3
	n := runtime.Callers(skipped, calls[:])
	frames := runtime.CallersFrames(calls[:n])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "fedpace/") || !more {
			return fmt.Sprintf("%s, line %d", f.Function, f.Line)
		}
	}
}
