package aggregate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/learn"
)

// Aggregator makes the models of one run. Its methods are called from the run's goroutine.
type Aggregator struct {
	config Config
	// learning is the learning part of config, with its defaults filled in.
	learning  Learning
	devices   *realdevices.Devices
	algorithm *algorithm.Instance
	queue     workQueue
	models    models

	// bestQuality is the quality of the best model that was evaluated so far, NaN before the first.
	bestQuality float64
	clip        combine.Clipper
	// deviceClip bounds the updates of real devices alone, before the clip of all updates.
	deviceClip combine.Clipper
	guard      guard

	// communicated is how many of the model's values clients send: the first ones.
	communicated int
	// judged is how many of the communicated values, from the first on, updates are judged by. The
	// rest are buffers; see parts.go.
	judged int
	// deviceStates holds for each client the digest of the kept state that is on the bus for its
	// device, zero if none is.
	deviceStates map[int]bus.Digest

	// sumMemory is the memory that every round's sum reuses, as long as the sum; see roundSum.
	sumMemory []int64
}

// New makes an aggregator for one run. channel carries its jobs and models. Without a resumed state
// (nil) the run begins with the initial model as version 0; with one it continues with the versions
// and the memories in it. All versions are published on the bus before New returns, so that tasks
// can name them.
func New(ctx context.Context, channel bus.Coordinator, c Config, resumed *State) (*Aggregator, error) {
	instance := c.Learning.Algorithm
	if instance == nil {
		instance = c.fresh(algorithm.Default)
	}
	a := &Aggregator{
		config:       c,
		learning:     c.Learning,
		devices:      c.Devices,
		algorithm:    instance,
		models:       newModels(channel),
		bestQuality:  math.NaN(),
		clip:         combine.Clipper{Rule: c.Learning.Combine.Clip},
		deviceClip:   combine.Clipper{Rule: c.Learning.Combine.Devices},
		communicated: learn.Communicated(c.Learning.Model),
		deviceStates: map[int]bus.Digest{},
		sumMemory:    make([]int64, algorithm.SumLength(instance.Algorithm, c.Learning.Model.Params())),
	}
	a.learning.Combine = c.Learning.Combine.ForAlgorithm(instance.Algorithm)
	// The number of trained values depends on the algorithm and the model, which are set above.
	a.judged = a.countJudged()
	a.queue = workQueue{bus: channel, learning: &a.learning, lastJob: bus.FirstNumber()}
	// A run that begins has one version, the initial model with number 0.
	versions := []Version{{Params: c.Learning.Initial}}
	if resumed != nil {
		versions = resumed.Models
		if err := a.restore(resumed); err != nil {
			return nil, err
		}
	}
	return a, a.publishVersions(ctx, versions)
}

// publishVersions puts the models on the bus with which a run begins or continues, in ascending order of
// their versions. If devices take part and a part of the model is frozen, it first publishes that part by
// itself, which devices download once.
func (a *Aggregator) publishVersions(ctx context.Context, versions []Version) error {
	hasFrozen := a.communicated < a.learning.Model.Params()
	if hasFrozen && a.config.Round.Devices.Count > 0 {
		if err := a.models.splitFrozen(ctx, versions[0].Params, a.communicated); err != nil {
			return err
		}
	}
	for _, v := range versions {
		x := newModel(v.Params)
		x.doubtful = v.Doubtful
		if err := a.models.addNewest(ctx, v.Number, x); err != nil {
			return err
		}
	}
	return nil
}

// fresh returns an algorithm with the state that it has at the start of a run.
func (c *Config) fresh(a algorithm.Algorithm) *algorithm.Instance {
	model := c.Learning.Model
	return algorithm.NewPartly(a, nil, model.Params(), model.Trainable(), 0, c.Round.Clients)
}

// State returns what a run needs to continue from here: all versions that tasks may still name, the
// memories of the rules, and the clients' states. Its vectors are the aggregator's own: they are
// valid until the next Advance and must not be changed.
type State struct {
	// Models are the versions that tasks may start from, ascending; the last is the newest.
	Models []Version
	// Measured is true once a model was evaluated; only then does Best count.
	Measured bool
	// Best is the quality of the best model so far.
	Best float64
	// Server holds the vectors of the algorithm's server, see [algorithm.ServerOptimizer].
	Server [][]float64
	// Variates is what clients keep from task to task, nil if the algorithm keeps nothing.
	Variates *algorithm.SavedStates
	Guard    Guard

	// Norms and DeviceNorms are what the bounds on all updates and on devices' updates remember,
	// see package combine.
	Norms, DeviceNorms []float64
}

// Version is one version of the model.
type Version struct {
	// Number is the version's number, as in [round.Task].Model.
	Number uint64
	Params []float32
	// Doubtful is true if a device's update that starts from this model and diverges is no evidence
	// against the device.
	Doubtful bool
}

// restore takes over a state that an aggregator with the same configuration has left: the server
// half of the algorithm, the guard, the bounds of both clips, and the clients' states where the
// algorithm has any. The models of the state are published by the caller.
func (a *Aggregator) restore(s *State) error {
	// Without a measured quality bestQuality stays NaN, which any value improves.
	if s.Measured {
		a.bestQuality = s.Best
	}
	a.guard.Guard = s.Guard
	err := errors.Join(
		a.algorithm.Server.Restore(s.Server),
		a.clip.Restore(s.Norms),
		a.deviceClip.Restore(s.DeviceNorms),
	)
	if v := a.algorithm.ClientStates; v != nil {
		err = errors.Join(err, v.Restore(*s.Variates))
	}
	return err
}

// State returns what a run needs to continue from here. Its vectors are the aggregator's own: they
// are valid until the next Advance and must not be changed.
func (a *Aggregator) State() *State {
	s := &State{
		Server:      a.algorithm.Server.State(),
		Guard:       a.guard.Guard,
		Norms:       a.clip.Memory(),
		DeviceNorms: a.deviceClip.Memory(),
	}
	// Versions are listed in ascending order, so that equal states are equal in their bytes.
	for _, version := range slices.Sorted(maps.Keys(a.models.versions)) {
		x := a.models.versions[version]
		s.Models = append(s.Models, Version{version, x.params, x.doubtful})
	}
	s.Measured = !math.IsNaN(a.bestQuality)
	if s.Measured {
		s.Best = a.bestQuality
	}
	if v := a.algorithm.ClientStates; v != nil {
		state := v.State()
		s.Variates = &state
	}
	return s
}

// Params returns the newest model, which must not be changed.
func (a *Aggregator) Params() []float32 { return a.models.current().params }

// Digest returns the digest of a version of the model, by which trainers fetch it. It is zero for a
// version that was released or never added. It is zero for a
// version that was released or never added.
func (a *Aggregator) Digest(version uint64) bus.Digest { return a.models.versions[version].digest }

// Release deletes a version of the model from which no task will start again.
func (a *Aggregator) Release(ctx context.Context, version uint64) error {
	return a.models.release(ctx, version)
}

// Advance makes the next model from the outcome of a round that was trained, publishes it as the
// newest version and moves all states on that follow from the round: those of clients, devices and
// clips.
func (a *Aggregator) Advance(ctx context.Context, o Outcome) error {
	next, err := a.nextModel(o)
	if err != nil {
		return err
	}
	if err := a.models.addNewest(ctx, a.models.newest+1, next); err != nil {
		return err
	}
	// A sum may hold more values than the model. Those behind the model belong to the clients'
	// states.
	a.advanceStates(o.sum.values[len(next.params):], o.sum.updates)
	// The devices' updates are in the model now, so they need not be kept any longer.
	a.devices.Used(o.tasks)
	a.clip.Advance(o.sum.clipMemory)
	a.deviceClip.Advance(o.sum.devices.memory)
	if report := a.config.Observer.Model; report != nil {
		report(o.number, next.params)
	}
	return nil
}

// nextModel returns the model that follows round o. It applies the server half of the algorithm to
// the round's sum. If the guard gave the round's model up (o.lost), it returns to the last good
// model and forgets what the algorithm had gathered since. A model with a value that is not finite
// is an error.
func (a *Aggregator) nextModel(o Outcome) (model, error) {
	var params []float32
	if o.lost {
		// The updates since the good model led away from it, so no memory of them may stay.
		params = slices.Clone(a.guard.Good)
		a.devices.ModelLost(o.number, o.modelLoss, a.guard.Best)
		if err := a.forget(); err != nil {
			return model{}, err
		}
	} else {
		params = slices.Clone(a.Params())
		a.algorithm.After(a.models.newest)
		a.algorithm.Apply(params, o.sum.values[:len(params)], o.sum.scale, o.sum.bufferScales)
		copy(params[a.judged:], o.sum.buffers)
	}
	if i := notFinite(params); i != allFinite {
		return model{}, fmt.Errorf(
			"%w: parameter %d of the model (tensor %s) after round %d is %g",
			round.ErrDiverged,
			i,
			learn.TensorAt(a.learning.Model, i),
			o.number,
			params[i],
		)
	}
	next := newModel(params)
	next.doubtful = o.doubtful && !o.lost
	return next, nil
}

// forget puts the server half of the algorithm and the bounds of both clips into the state in which
// a run begins.
func (a *Aggregator) forget() error {
	fresh := a.config.fresh(a.algorithm.Algorithm).Server.State()
	return errors.Join(
		a.algorithm.Server.Restore(fresh),
		a.clip.Restore(nil),
		a.deviceClip.Restore(nil),
	)
}

// allFinite is the result of notFinite for a model whose parameters are all finite.
const allFinite = -1

// notFinite returns the place of the first parameter that is NaN or infinite, or allFinite.
func notFinite(params []float32) int {
	return slices.IndexFunc(params, func(x float32) bool { return x-x != 0 })
}
