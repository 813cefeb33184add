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
	// updateLength is how many of the communicated values, from the first on, updates have in the exact sums. The
	// rest are buffers, which are sent beside the sums; see parts.go.
	updateLength int
	// deviceStates holds for each client the digest of the kept state that is on the bus for its
	// device, zero if none is.
	deviceStates map[int]bus.Digest

	// sumMemory is the memory that every round's sum reuses, as long as the sum; see roundSum.
	sumMemory []int64
}

// New makes an aggregator for one run. channel is the coordinator's end of the bus, over which the
// aggregator sends jobs and publishes models. Without a resumed state (nil) the run begins with the initial
// model as version 0; with one it continues with the versions of the model and the memories in it. All
// versions are published on the bus before New returns, so that tasks can name them.
func New(ctx context.Context, channel bus.Coordinator, config Config, resumed *State) (*Aggregator, error) {
	instance := config.Learning.Algorithm
	if instance == nil {
		instance = config.freshInstance(algorithm.Default)
	}
	aggregator := &Aggregator{
		config:       config,
		learning:     config.Learning,
		devices:      config.Devices,
		algorithm:    instance,
		models:       newModels(channel),
		bestQuality:  math.NaN(),
		clip:         combine.Clipper{Rule: config.Learning.Combine.Clip},
		deviceClip:   combine.Clipper{Rule: config.Learning.Combine.Devices},
		communicated: learn.Communicated(config.Learning.Model),
		deviceStates: map[int]bus.Digest{},
		sumMemory:    make([]int64, algorithm.SumLength(instance.Algorithm, config.Learning.Model.Params())),
	}
	aggregator.learning.Combine = config.Learning.Combine.ForAlgorithm(instance.Algorithm)
	aggregator.updateLength = UpdateLength(&aggregator.learning)
	aggregator.queue = workQueue{bus: channel, learning: &aggregator.learning, lastJob: bus.FirstNumber()}
	// A run that begins has one version, the initial model with number 0.
	versions := []Version{{Params: config.Learning.Initial}}
	if resumed != nil {
		versions = resumed.Models
		if err := aggregator.restore(resumed); err != nil {
			return nil, err
		}
	}
	return aggregator, aggregator.publishVersions(ctx, versions)
}

// publishVersions publishes the models with which a run begins or continues, in ascending order of their
// versions. If devices take part and a part of the model is frozen, it first publishes the frozen part by
// itself, which each device downloads only once.
func (a *Aggregator) publishVersions(ctx context.Context, versions []Version) error {
	hasFrozen := a.communicated < a.learning.Model.Params()
	if hasFrozen && a.config.Round.Devices.Count > 0 {
		if err := a.models.splitFrozen(ctx, versions[0].Params, a.communicated); err != nil {
			return err
		}
	}
	for _, version := range versions {
		m := newModel(version.Params)
		m.degraded = version.Doubtful
		if err := a.models.addNewest(ctx, version.Number, m); err != nil {
			return err
		}
	}
	return nil
}

// freshInstance returns an instance of algorithm a with the state that it has at the start of a run, for
// the run's model and clients. Its updates are not compressed, so it serves to apply updates and not to
// send them.
func (c *Config) freshInstance(a algorithm.Algorithm) *algorithm.Instance {
	model := c.Learning.Model
	return algorithm.NewInstance(a, nil, model.Params(), model.Trainable(), 0, c.Round.Clients)
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
	// Doubtful is true if the model is degraded ([Guard]): a device's update that starts from it and diverges is
	// no evidence against the device.
	Doubtful bool
}

// restore takes over a state that an aggregator with the same configuration has left: the state of the
// server's optimizer, the guard's memory, the memories of both clips, and the clients' states if the
// algorithm keeps any. The caller publishes the models of the state.
func (a *Aggregator) restore(state *State) error {
	// Without a measured quality bestQuality stays NaN, which any value improves.
	if state.Measured {
		a.bestQuality = state.Best
	}
	a.guard.Guard = state.Guard
	err := errors.Join(
		a.algorithm.Server.Restore(state.Server),
		a.clip.Restore(state.Norms),
		a.deviceClip.Restore(state.DeviceNorms),
	)
	if v := a.algorithm.ClientStates; v != nil {
		err = errors.Join(err, v.Restore(*state.Variates))
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
		m := a.models.versions[version]
		s.Models = append(s.Models, Version{Number: version, Params: m.params, Doubtful: m.degraded})
	}
	// NaN stands for a quality that is not known. A state says so by Measured instead.
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

// Digest returns the digest of a version of the model, by which trainers fetch it. It is zero for a version
// that was released or never added.
func (a *Aggregator) Digest(version uint64) bus.Digest { return a.models.versions[version].digest }

// Release deletes a version of the model from which no task will start again.
func (a *Aggregator) Release(ctx context.Context, version uint64) error {
	return a.models.release(ctx, version)
}

// Advance makes the next model from the outcome of a trained round and publishes it as the newest
// version. It also advances all that is remembered from round to round: the clients' states, the memories
// of both clips, and the devices' updates, which are forgotten since they are in the model now.
func (a *Aggregator) Advance(ctx context.Context, outcome Outcome) error {
	next, err := a.nextModel(outcome)
	if err != nil {
		return err
	}
	if err := a.models.addNewest(ctx, a.models.newest+1, next); err != nil {
		return err
	}
	// Behind the model's values the sum may hold the changes of the clients' control variates.
	variateSum := outcome.sum.values[len(next.params):]
	a.advanceStates(variateSum, outcome.sum.updates)
	// The devices' updates are in the model now, so they need not be kept any longer.
	a.devices.ForgetUpdates(outcome.tasks)
	a.clip.Advance(outcome.sum.clipMemory)
	a.deviceClip.Advance(outcome.sum.devices.memory)
	if report := a.config.Observer.Model; report != nil {
		report(outcome.number, next.params)
	}
	return nil
}

// nextModel returns the model that follows a round with this outcome. Normally the server's optimizer
// applies the round's sum to the newest model. If the guard found that the round's model has diverged, it
// returns a copy of the best model so far instead, and resets what the algorithm and the clips remember. A
// model with a value that is NaN or infinite is an error that wraps [round.ErrDiverged].
func (a *Aggregator) nextModel(outcome Outcome) (model, error) {
	var params []float32
	if outcome.diverged {
		// The updates since the good model led away from it, so no memory of them may stay.
		params = slices.Clone(a.guard.Good)
		a.devices.NoteDivergence(outcome.number, outcome.modelLoss, a.guard.Best)
		if err := a.resetMemories(); err != nil {
			return model{}, err
		}
	} else {
		params = slices.Clone(a.Params())
		// An algorithm that moves the model fragment by fragment chooses the fragment by the number of rounds so
		// far or by the clients whose updates the sum has. Other algorithms ignore the two.
		a.algorithm.SetRounds(a.models.newest)
		a.algorithm.SetSenders(clientsOf(outcome.sum.updates))
		a.algorithm.Apply(params, outcome.sum.values[:len(params)], outcome.sum.scale, outcome.sum.bufferScales)
		copy(params[a.updateLength:], outcome.sum.buffers)
	}
	if i := firstNotFinite(params); i != allFinite {
		return model{}, fmt.Errorf(
			"%w: parameter %d of the model (tensor %s) after round %d is %g",
			round.ErrDiverged,
			i,
			learn.TensorAt(a.learning.Model, i),
			outcome.number,
			params[i],
		)
	}
	next := newModel(params)
	next.degraded = outcome.degraded && !outcome.diverged
	return next, nil
}

// resetMemories resets the server's optimizer and the memories of both clips to what they are at the start
// of a run.
func (a *Aggregator) resetMemories() error {
	fresh := a.config.freshInstance(a.algorithm.Algorithm).Server.State()
	return errors.Join(
		a.algorithm.Server.Restore(fresh),
		a.clip.Restore(nil),
		a.deviceClip.Restore(nil),
	)
}

// allFinite is the result of firstNotFinite for a model whose parameters are all finite.
const allFinite = -1

// firstNotFinite returns the index of the first parameter that is NaN or infinite, or allFinite if there is
// none.
func firstNotFinite(params []float32) int {
	// Of such a number all bits of the exponent are set: one more carries into the sign, which is cleared before.
	const (
		sign        = 1 << 31
		exponentOne = 1 << 23
	)
	carries := uint32(0)
	for _, x := range params {
		carries |= math.Float32bits(x)&^sign + exponentOne
	}
	if carries&sign == 0 {
		return allFinite
	}
	// x - x is 0 for each finite x, and NaN, which differs from all, for the others.
	return slices.IndexFunc(params, func(x float32) bool { return x-x != 0 })
}
