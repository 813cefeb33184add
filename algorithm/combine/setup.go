package combine

import (
	"math"

	"fedpace/algorithm"
	"fedpace/registry"
)

// Setup is what a run does with single updates. Its zero value is a run that adds them up.
type Setup struct {
	// Rule makes one update of a round's, nil for the algorithm's weighted sum.
	Rule Rule
	// Clip is the bound on every update, nil if there is none.
	Clip Clip
	// Devices is the bound on the updates of real devices, which applies before Clip, nil if there
	// is none.
	Devices Clip
	// DeviceRule makes one update of those of real devices in a round that has at least
	// [MinDeviceUpdates] of them, nil for the weighted sum.
	DeviceRule Rule
	// DeviceBuffers combines the buffers of the same devices where DeviceRule is set. A device that sends
	// false buffers beside an honest update has its place among the distances of the others, so the
	// buffers need a rule of their own. Nil means the shares that DeviceRule returns.
	DeviceBuffers ByValue
	// Private is true if Clip is that of differential privacy, which takes updates as they are.
	Private bool

	// stretches is true if the algorithm is [algorithm.Stretching].
	stretches bool
}

// ForAlgorithm returns the setup for a run with algorithm a, whose step may depend on single updates.
func (s Setup) ForAlgorithm(a algorithm.Algorithm) Setup {
	_, s.stretches = a.(algorithm.Stretching)
	return s
}

// MinDeviceUpdates is the smallest number of updates of devices that a rule combines: of four updates of
// which one is false three are left, and two of those that agree outvote the third.
const MinDeviceUpdates = 4

// Privately returns the setup for a run with central differential privacy, which clips every update to
// norm. The other clips and rules are removed, since they may depend on the updates, and one client could
// then change how others' updates are clipped. It returns s itself if norm is 0, for a run without privacy.
func (s Setup) Privately(norm float64) Setup {
	if norm > 0 {
		s.Clip = Fixed{Norm: norm}
		s.Devices = nil
		s.DeviceRule = nil
		s.DeviceBuffers = nil
		s.Private = true
	}
	return s
}

// PerClient reports whether the run needs every client's update by itself, not only their sum.
func (s Setup) PerClient() bool { return s.Rule != nil || s.Clip != nil || s.stretches }

// Bytes returns the memory in bytes that the updates of a round take at the coordinator if they are kept
// separately: 8 for each parameter of each update, and twice that for a rule that makes a copy. It is 0 if
// only their sum is needed, and at most math.MaxInt64.
func (s Setup) Bytes(params, updates int) int64 {
	bytes := float64(8 * float64(params) * float64(updates))
	if registry.NeedsOf(s.Rule).Copy {
		bytes *= 2
	}
	switch {
	case !s.PerClient():
		return 0
	case bytes >= math.MaxInt64:
		return math.MaxInt64
	}
	return int64(bytes)
}

// DeviceBytes returns the memory in bytes that the updates of this many devices take at the coordinator in
// a round. It is 0 where no rule combines the devices' updates.
func (s Setup) DeviceBytes(params, devices int) int64 {
	return Setup{Rule: s.DeviceRule}.Bytes(params, devices)
}

// CheckBytes returns a [*registry.OptionError] if the separate updates of a round would take more than
// limit bytes, of which other state takes up taken. updates is the number of updates.
func (s Setup) CheckBytes(params, updates int, taken, limit int64) error {
	n := s.Bytes(params, updates)
	if n == 0 || n <= limit-taken {
		return nil
	}
	return registry.Errorf("limits.state_gb", "%.3g, but %s looks at each update of a round, %.3g GB for %d "+
		"parameters and %d updates (raise the limit, or lower cohort)",
		float64(limit)/1e9, s.Name(), float64(n)/1e9, params, updates)
}

// Name returns the rule's name, or that of the clipping where there is no rule.
func (s Setup) Name() string {
	if s.Rule == nil {
		return s.optionKey()
	}
	return Rules.NameOf(s.Rule)
}

// optionKey returns the configuration key to name in errors about what needs separate updates: that of the
// rule, of the bound, of privacy, or of the algorithm.
func (s Setup) optionKey() string {
	switch {
	case s.Private:
		return "privacy.clip"
	case s.Rule == nil && s.Clip == nil:
		return "aggregate.algorithm"
	case s.Rule == nil:
		return "aggregate.clip"
	}
	return "aggregate.combine"
}

// Check returns a [*registry.OptionError] if an algorithm, or the compression of its updates, cannot be
// combined with a rule or a bound that needs separate updates. A nil compression means that updates are
// not compressed.
func (s Setup) Check(a algorithm.Algorithm, compression algorithm.Compression) error {
	key := s.optionKey()
	name := algorithm.Algorithms.NameOf(a)
	_, separatesStale := a.(algorithm.StaleWeigher)
	_, votes := compression.(algorithm.Voting)
	// An algorithm that divides updates by their local steps is found by a trial of two updates with 1 and 2 steps: it
	// multiplies their sum by a factor other than 1.
	_, sumFactor := a.Weigh(algorithm.Equal(2), []int{1, 2}, nil)
	// The first reason that applies is reported.
	switch {
	case !s.PerClient():
		return nil
	case algorithm.HasControlVariates(a):
		return registry.Errorf(
			key,
			"is for updates of one vector, and those of %s are two (remove it, or use another algorithm)",
			name,
		)
	case separatesStale:
		return registry.Errorf(
			key,
			"does not go with %s, which weighs stale updates by how they differ (remove it, or use another algorithm)",
			name,
		)
	case (s.Rule != nil || s.Private) && sumFactor != 1:
		return registry.Errorf(
			key,
			"%q takes updates as they are, and %s divides each by its local steps (remove it, or use another "+
				"algorithm)",
			s.Name(),
			name,
		)
	case s.stretches && (s.Rule != nil || s.Private):
		return registry.Errorf(
			key,
			"does not go with %s, whose step follows from how long single updates are "+
				"(remove it, or use another algorithm)",
			name,
		)
	case votes:
		return registry.Errorf(
			key,
			"does not go with compress: %s, whose updates are votes (remove one of the two)",
			algorithm.Compressions.NameOf(compression),
		)
	case registry.NeedsOf(s.Rule).Whole && compression != nil:
		return registry.Errorf(
			key,
			"%q works parameter by parameter, and updates that %s has thinned out are mostly 0 "+
				"(remove compress, or use krum, multi_krum or geometric_median)",
			Rules.NameOf(s.Rule),
			algorithm.Compressions.NameOf(compression),
		)
	}
	return nil
}

// Apply sets dst to one update made of the trained values of a round's updates: by the rule, or as their
// weighted sum without one. If weights sum to less than 1, because updates are stale, the rule's update is
// multiplied by their sum. It returns the weights with which the updates' buffers are averaged, which have
// the same sum.
func (s Setup) Apply(dst []int64, updates [][]int64, weights []float64) (bufferWeights []float64) {
	if s.Rule == nil {
		weightedSum(dst, updates, weights)
		return weights
	}
	total := sumOf(weights)
	normalised := make([]float64, len(weights))
	// Rules take weights that sum to 1, and the sum is put back in afterwards.
	for i, w := range weights {
		normalised[i] = w / total
	}
	shares := s.Rule.Combine(dst, updates, normalised)
	if isLessThanOne(total) {
		multiply(dst, total)
	}
	if shares == nil {
		return weights
	}
	bufferWeights = make([]float64, len(shares))
	for i, share := range shares {
		bufferWeights[i] = float64(share * total)
	}
	return bufferWeights
}

// sumOf returns the sum of the weights, added in their order, so that it is the same on every
// machine.
func sumOf(weights []float64) (sum float64) {
	for _, w := range weights {
		sum += w
	}
	return sum
}

// isLessThanOne reports whether total, a sum of weights, is less than 1 by more than rounding.
func isLessThanOne(total float64) bool {
	const rounding = 1e-9
	return total < 1-rounding
}

// multiply multiplies the values of an update, in place, by a factor from 0 to 1, and rounds them, a half
// to the even number.
func multiply(update []int64, factor float64) {
	if factor == 1 {
		return
	}
	for i, u := range update {
		update[i] = int64(math.RoundToEven(factor * float64(u)))
	}
}
