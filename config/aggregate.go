package config

import (
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/registry"
)

// Aggregate says how the updates of a round become the next global model: which algorithm takes
// them, how each is weighted, and which bounds and rules hold off false ones.
type Aggregate struct {
	Algorithm algorithm.Algorithm `key:"algorithm" default:"fedavg" is:"flat" help:"how updates become a model"`
	Weights   string              `key:"weights" default:"equal" words:"equal,samples,taken" help:"weight of updates: equal, clients' samples, or samples that steps took"`
	// SiteRounds is κ2 of Liu et al. 2020: how many rounds of its own a site adds up before it
	// sends one sum to the server. Zero means that clients send to the server themselves.
	SiteRounds int `key:"site_rounds" is:"null" range:"[1,1000]" help:"a site's rounds before it sends an update; null: no aggregation at sites"`

	// Clip bounds the norm of every update; nil is no bound.
	Clip combine.Clip `key:"clip" is:"null" help:"bound on updates' norms"`
	// Combine is a rule that withstands Byzantine updates; nil is the weighted mean.
	Combine combine.Rule `key:"combine" is:"null" help:"robust rule; null: the weighted mean"`
}

// Combining returns what the run does with each single update before the algorithm takes their sum:
// the bounds on norms, and the rule that combines them. Devices get a robust rule of their own
// unless the configuration sets a rule for all, or [Config.UnguardedReason] gives a reason against it.
func (c *Config) Combining() combine.Setup {
	// Under secure aggregation nobody sees a single update, so nothing can be done with one.
	if c.Secure.On {
		return combine.Setup{}.ForAlgorithm(c.Aggregate.Algorithm)
	}
	s := combine.Setup{Rule: c.Aggregate.Combine, Clip: c.Aggregate.Clip, Devices: c.Devices.Clip}
	if s.Rule == nil && len(c.Devices.Names) > 0 && c.UnguardedReason() == "" {
		s.DeviceRule = deviceRule
		s.DeviceBuffers = deviceBuffers
	}
	return s.ForAlgorithm(c.Aggregate.Algorithm).Privately(c.Privacy.Clip)
}

// deviceRule is the rule for updates of real devices, of which up to one in five may be false.
// Nearest-neighbour mixing comes first because the devices' data differ, which alone makes honest
// updates look like outliers.
var deviceRule = combine.NNM{Byzantine: devicesByzantine, Then: "trimmed_mean"}

// deviceBuffers is the rule for the buffers of the same devices. They are not mixed first: the distances
// between updates say nothing of the buffers beside them.
var deviceBuffers = combine.TrimmedMean{Byzantine: devicesByzantine}

// devicesByzantine is the share of a round's devices that may be Byzantine.
var devicesByzantine = combine.Byzantine{Share: 0.2}

// UnguardedReason returns why the updates of real devices are taken as they are, without a rule that
// withstands false ones. The empty text means that such a rule is used, or that there are no
// devices.
func (c *Config) UnguardedReason() string {
	// The rule, deviceRule, is not for algorithms that weigh each update by its age or need the newest model, nor for
	// those whose own check refuses it.
	_, weighsEach := c.Aggregate.Algorithm.(algorithm.StaleWeigher)
	needsNewest := registry.NeedsOf(c.Aggregate.Algorithm).NewestModel
	robustSetup := combine.Setup{Rule: deviceRule}.ForAlgorithm(c.Aggregate.Algorithm)
	isIncompatible := robustSetup.Check(c.Aggregate.Algorithm, nil) != nil
	smallCohort := c.DevicesAlone() && c.Cohort > 0 && c.Cohort < combine.MinDeviceUpdates
	// Of several reasons that apply, the first one is given.
	switch n := len(c.Devices.Names); {
	case n == 0 || c.Aggregate.Combine != nil:
		return ""
	case c.Secure.On:
		return "secure_aggregation hides their updates"
	case c.Aggregate.Clip != nil || c.Privacy.Clip > 0:
		return "another bound is on all updates"
	case n < combine.MinDeviceUpdates || smallCohort:
		return "it needs four devices in a round"
	case c.Compress != nil:
		return "compress: " + algorithm.Compressions.NameOf(c.Compress)
	case !c.Devices.Robust:
		return "devices.robust: false"
	case c.Aggregate.Weights != EqualWeights:
		return "aggregate.weights: " + c.Aggregate.Weights
	case weighsEach || needsNewest || isIncompatible:
		return "aggregate.algorithm: " + algorithm.Algorithms.NameOf(c.Aggregate.Algorithm)
	}
	return ""
}

// These are the weights that a client's update may have in a round's mean.
const (
	// EqualWeights gives all updates the same weight, as Algorithm 1 of the paper does.
	EqualWeights = "equal"
	// SampleWeights weights an update by the number of its client's training samples.
	SampleWeights = "samples"
	// TakenWeights weights an update by the number of samples that the steps of its task took.
	TakenWeights = "taken"
)
