package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"fedpace/bus"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
	"fedpace/simclock"
)

// State is all that a run needs to go on where it stood between two steps of
// the machine, besides its [Config]. What the last step asked for is in it: a
// run that goes on sends open tasks again and trains again what was being
// trained, to the same bits. It knows nothing of servers, hosts or connections.
type State struct {
	Machine  round.State
	Clock    []byte                   // as [simclock.Clock.AppendSnapshot] writes it
	Models   []Version                // that tasks may start from, ascending; the last is the newest. None without training
	Best     float64                  // highest validation accuracy; -1: not measured yet
	Server   [][]float64              // the algorithm's vectors, see [aggregate.Server]
	Variates *aggregate.VariatesState // nil: the algorithm keeps none
}

// Version is one version of the model.
type Version struct {
	Number uint64 // as in [round.Task].Model
	Params []float32
}

// Checkpoint is how a run's state is kept. Both functions are called from the
// run's own goroutine, between two steps.
type Checkpoint struct {
	// Due says whether it is time to save. It is asked once for every event,
	// so it must cost next to nothing; nil: never.
	Due func() bool
	// Save keeps the state, whose memory is the run's own: it is valid until
	// Save returns and must not be changed. An error ends the run. Save is
	// also called when the run is interrupted or fails between two steps; nil:
	// nothing is kept.
	Save func(*State) error
}

// save keeps the run's state. Nothing is kept of a run that stands in the middle
// of a step, whose effects are not all done: the last state that was kept leads
// to the same end.
func (d *driver) save() error {
	if d.config.Checkpoint.Save == nil || d.torn || d.machine.Phase() == round.Idle || d.machine.Phase() == round.Stopped {
		return nil
	}
	s := &State{Machine: d.machine.State(), Clock: d.clock.AppendSnapshot(nil)}
	if l := d.learner; l != nil {
		for _, version := range d.machine.Models() {
			params, ok := l.models.params(version)
			if !ok {
				return fmt.Errorf("coordinator: version %d of the model is to be saved and not kept", version)
			}
			s.Models = append(s.Models, Version{version, params})
		}
		s.Best = l.best
		s.Server = l.algorithm.Server.State()
		if v := l.algorithm.Variates; v != nil {
			state := v.State()
			s.Variates = &state
		}
	}
	err := d.config.Checkpoint.Save(s)
	d.torn = err != nil // what could not be kept is not tried again on the way out
	return err
}

// resume puts the driver where a state was taken.
func (d *driver) resume(ctx context.Context, s *State) (err error) {
	if d.machine, err = round.Restore(d.config.Round, s.Machine); err != nil {
		return err
	}
	if d.clock, err = simclock.Restore(s.Clock); err != nil {
		return err
	}
	if d.pacer, err = simclock.NewPacer(d.config.Pace, d.clock.Now()); err != nil {
		return err
	}
	if d.config.Round.Train {
		if d.learner, err = resumeLearner(ctx, d.bus, &d.config, s, d.machine.Models()); err != nil {
			return err
		}
	}
	stop := s.Machine.Stop
	d.stop = round.Stop{Rounds: stop.Rounds, At: stop.At, Outcomes: stop.Outcomes}
	if d.machine.Phase() == round.Idle || d.machine.Phase() == round.Stopped {
		return fmt.Errorf("coordinator: a state of a run that is %v", d.machine.Phase())
	}
	if err := d.openDevices(ctx); err != nil {
		return err
	}
	if d.devices != nil {
		if err := d.devices.resume(&s.Machine); err != nil {
			return err
		}
	}
	open := d.machine.Pending()
	d.issued(open.Tasks)
	d.ask = append(d.ask, open.Query...)
	d.train = append(d.train, open.Train...)
	return nil
}

// resumeLearner is newLearner for a state. kept are the versions that the
// machine asks for.
func resumeLearner(ctx context.Context, channel bus.Coordinator, c *Config, s *State, kept []uint64) (*learner, error) {
	if len(s.Models) != len(kept) {
		return nil, fmt.Errorf("coordinator: a state with %d versions of the model, its tasks need %d", len(s.Models), len(kept))
	}
	l := makeLearner(channel, c)
	if err := l.algorithm.Server.Restore(s.Server); err != nil {
		return nil, err
	}
	switch v := l.algorithm.Variates; {
	case (v == nil) != (s.Variates == nil):
		return nil, errors.New("coordinator: a state whose control variates are not those of the algorithm")
	case v != nil:
		if err := v.Restore(*s.Variates); err != nil {
			return nil, err
		}
	}
	l.best = s.Best
	for i, v := range s.Models {
		if v.Number != kept[i] || len(v.Params) != c.Learning.Model.Params() {
			return nil, fmt.Errorf("coordinator: a state with version %d of the model, of %d parameters, where version %d of %d is wanted",
				v.Number, len(v.Params), kept[i], c.Learning.Model.Params())
		}
		l.params, l.digest = v.Params, bus.DigestOf(v.Params)
		l.models.next = v.Number
		if err := l.models.add(ctx, l.digest, l.params); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// firstJob is where a life of the run starts to count its jobs: by all odds not
// where another did, so that the sum of an old life's job is not taken for a new
// one's. Jobs' numbers decide nothing. They stay below 2^53, which every
// language's numbers hold.
func firstJob() uint64 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return uint64(binary.LittleEndian.Uint32(b[:])>>12) << 32
}
