package config

import (
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/registry"
)

// Aggregate makes the next global model of the updates.
type Aggregate struct {
	Algorithm algorithm.Algorithm `key:"algorithm" default:"fedavg" is:"flat" help:"how updates become a model"`
	Weights   string              `key:"weights" default:"equal" words:"equal,samples,taken" help:"weight of client updates: equal, by their clients' samples, or by those that their steps took"`
	// SiteRounds is κ2 of Liu et al. 2020.
	SiteRounds int `key:"site_rounds" is:"null" range:"[1,1000]" help:"a site adds up its clients' updates, in so many rounds of its own, before it sends one; null: clients send to the server"`

	Clip    combine.Clip `key:"clip" is:"null" help:"bound to which updates are shortened; null: none"`
	Combine combine.Rule `key:"combine" is:"null" help:"rule that withstands false updates; null: the weighted mean"`
}

// Combining is what the run does with single updates.
func (c *Config) Combining() combine.Setup {
	s := combine.Setup{Rule: c.Aggregate.Combine, Clip: c.Aggregate.Clip, Devices: c.Devices.Clip}
	if s.Rule == nil && len(c.Devices.Names) > 0 && c.Believes() == "" {
		s.DeviceRule = deviceRule
	}
	return s.ForAlgorithm(c.Aggregate.Algorithm).Privately(c.Privacy.Clip)
}

// deviceRule combines the updates of devices, whose data differ.
var deviceRule = combine.NNM{Byzantine: combine.Byzantine{Share: 0.2}, Then: "trimmed_mean"}

// Believes says why the updates of devices are not combined so that some may be false; "": they are,
// or there are no devices.
func (c *Config) Believes() string {
	_, perUpdate := c.Aggregate.Algorithm.(algorithm.StaleWeigher)
	robustSetup := combine.Setup{Rule: deviceRule}.ForAlgorithm(c.Aggregate.Algorithm)
	switch n := len(c.Devices.Names); {
	case n == 0 || c.Aggregate.Combine != nil:
		return ""
	case c.Aggregate.Clip != nil || c.Privacy.Clip > 0:
		return "another bound is on all updates"
	case n < combine.MinDeviceUpdates ||
		c.DevicesAlone() && c.Cohort > 0 && c.Cohort < combine.MinDeviceUpdates:
		return "of fewer than four in a round nobody can tell who lies"
	case c.Compress != nil:
		return "compress: " + algorithm.Compressions.NameOf(c.Compress)
	case !c.Devices.Robust:
		return "devices.robust: false"
	case c.Aggregate.Weights != EqualWeights:
		return "aggregate.weights: " + c.Aggregate.Weights
	case perUpdate || registry.NeedsOf(c.Aggregate.Algorithm).NewestModel || robustSetup.Check(c.Aggregate.Algorithm, nil) != nil:
		return "aggregate.algorithm: " + algorithm.Algorithms.NameOf(c.Aggregate.Algorithm)
	}
	return ""
}

// The weights of the clients' updates.
const (
	EqualWeights  = "equal"   // Algorithm 1
	SampleWeights = "samples" // by the client's training samples
	TakenWeights  = "taken"   // by the samples that the task's steps took
)
