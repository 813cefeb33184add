package config

import (
	"fmt"
	"slices"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/algorithm/secagg"
	"fedpace/coordinator/closing"
	"fedpace/registry"
)

// SecureAggregation says whether the coordinator sees the updates of single clients or only their
// sum (package secagg has the protocol), and what a client's part in it costs in time.
type SecureAggregation struct {
	On bool `key:"on" default:"false" help:"the coordinator sees sums of updates only"`
	// Colluders and Dropouts are the shares of a round's clients under which the protocol keeps its
	// promises: neighbours and threshold follow from them.
	Colluders float64 `key:"colluders" default:"0.1" range:"[0,0.5)" help:"share of clients that may collude with the coordinator"`
	Dropouts  float64 `key:"dropouts" default:"0.2" range:"[0,0.9]" help:"share of clients that may leave after sharing secrets"`
	// Neighbours, Threshold and Minimum are 0 where they follow from Colluders and Dropouts.
	Neighbours int `key:"neighbours" is:"null" range:"[2,100000]" help:"clients with which each shares masks; null: the minimum"`
	Threshold  int `key:"threshold" is:"null" range:"[2,100000]" help:"shares that recover a secret; null: the middle of what is safe"`
	Minimum    int `key:"minimum" is:"null" range:"[3,1000000]" help:"minimum updates of a sum; null: two more than may collude, at least 3"`
	// StageSeconds bounds how long the stages of keys and of shares wait for slow clients; with real
	// devices, those of survivors and recovery too.
	StageSeconds float64 `key:"stage_seconds" is:"null" range:"(0,4e9]" unit:"seconds" help:"limit of a stage; null: waits for all clients; real devices have a quarter of devices.task_seconds"`
	// The remaining fields are measured constants of a client.
	NeighbourSeconds float64 `key:"neighbour_seconds" default:"0.0003" range:"[0,1e3]" unit:"seconds" help:"a client's time for a neighbour's keys and shares"`
	SignatureSeconds float64 `key:"signature_seconds" default:"0.00006" range:"[0,1e3]" unit:"seconds" help:"for each signature"`
	MaskSeconds      float64 `key:"mask_seconds" default:"0.002" range:"[0,1e3]" unit:"seconds" help:"for a mask of a million words"`
	MaxWeight        int     `key:"max_weight" default:"65536" range:"[1,16777216]" help:"maximum weight in samples, with aggregate.weights: samples"`
}

// maskedGrowth is by how much a masked update is larger than a model: words of 64 bits take the
// place of float32.
const maskedGrowth = 2

// SecurePlan returns the parameters of secure aggregation for a round of up to this many members:
// each client's neighbours, the threshold of shares and the minimum of clients, with the
// probabilities that it fails its promises. What the configuration sets takes precedence over what
// is chosen for it. Parameters that cannot work are a *[KeyError].
func (c *Config) SecurePlan(members int) (secagg.Plan, error) {
	s := &c.Secure
	p, err := secagg.Choose(members, s.Colluders, s.Dropouts)
	isGiven := s.Neighbours > 0 || s.Threshold > 0
	// Where nothing can be chosen, the user may still give the parameters.
	if err != nil && !isGiven {
		return p, problem("secure_aggregation", nil, "%v (raise cohort, or lower secure_aggregation.colluders or "+
			"secure_aggregation.dropouts)", err)
	}
	// A client has at most all others as neighbours, and needs no more shares than it has
	// neighbours.
	if s.Neighbours > 0 {
		p.Neighbours = min(s.Neighbours, members-1)
		p.Threshold = min(p.Threshold, p.Neighbours)
	}
	if s.Threshold > 0 {
		p.Threshold = s.Threshold
	}
	// Noise that clients add together must be whole with the fewest survivors, so the round is refused
	// below the share that may stay.
	if c.Privacy.Distributed.On() {
		p.Minimum = max(p.Minimum, members-p.Dropouts)
	}
	if s.Minimum > 0 {
		p.Minimum = s.Minimum
	}
	// The probabilities of the chosen parameters no longer hold and are calculated again.
	if isGiven {
		p.SetFailures()
	}
	if err := p.Validate(); err != nil {
		return p, problem("secure_aggregation", nil, "%v", err)
	}
	if p.Minimum > members {
		return p, problem("secure_aggregation.minimum", []string{"cohort"}, "%d, and a round has at most %d clients",
			p.Minimum, members)
	}
	return p, nil
}

// SecureShift returns the exponent s of secagg.Shift for rounds of at most members clients: an
// update of weight W enters the sum with W·2^-s.
func (c *Config) SecureShift(members int) int {
	return secagg.Shift(uint64(members) * c.SecureMaxWeight() * c.NewestWeightFactor())
}

// NewestWeightFactor returns the factor by which the weight of an update is multiplied if its base model is the
// newest. Where rounds overlap, an update from an older model has a smaller factor, by its staleness weight, and
// as the weights of secure aggregation are whole numbers, the largest factor sets their resolution. It is 1
// where all updates of a round start from one model.
func (c *Config) NewestWeightFactor() uint64 {
	if !closing.Overlaps(c.Close) {
		return 1
	}
	const units = 1 << 10
	return units
}

// SecureMaxWeight returns the largest weight that an update can have under secure aggregation: the
// configured bound where its number of samples is its weight, and 1 where all updates weigh the
// same.
func (c *Config) SecureMaxWeight() uint64 {
	if c.Aggregate.Weights == SampleWeights {
		return uint64(c.Secure.MaxWeight)
	}
	return 1
}

// checkSecure refuses what cannot be combined with secure aggregation, with the first reason that
// applies: mainly what needs single updates, which nobody sees, and clients that do not start
// together, as masks are agreed on within a round, in messages before and after the update (the stages of secure
// aggregation). Without secure aggregation everything passes, except what needs it.
func (c *Config) checkSecure() error {
	if !c.Secure.On && c.Privacy.Distributed.On() {
		return problem("privacy.distributed", []string{"secure_aggregation.on"}, "hides an update in the sum of many, "+
			"and without secure aggregation the coordinator sees each update with next to no noise (set "+
			"secure_aggregation.on, or use privacy.local)")
	}
	if !c.Secure.On {
		return nil
	}
	// These are looked up here so that the rows below stay short.
	isBuffered := closing.Overlaps(c.Close)
	bufferSize := closing.Fewest(c.Close, c.Cohort)
	needs := registry.NeedsOf(c.Select)
	algorithmName := algorithm.Algorithms.NameOf(c.Aggregate.Algorithm)
	batteries := slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Battery != nil })
	attackers := slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Attack != nil })
	hasDevices := len(c.Devices.Names) > 0
	cohortForGroups := c.cohortForGroups(bufferSize)
	// Each row is a setting that masks do not allow, with the reason and a remedy.
	for _, conflict := range []struct {
		refused      bool
		key, problem string
	}{
		{c.Aggregate.Combine != nil, "aggregate.combine", "looks at single updates, which nobody sees (remove it)"},
		{c.Aggregate.Clip != nil, "aggregate.clip", "is applied by the coordinator to single updates, which it does " +
			"not see (use privacy.local, by which clients clip their own)"},
		{c.Privacy.On(), "privacy.clip", "is applied by the coordinator to single updates, which it does not see " +
			"(use privacy.local, by which clients clip their own and add noise)"},
		{c.Privacy.Distributed.On() && c.Aggregate.Weights != EqualWeights, "aggregate.weights", "gives clients " +
			"different parts of a sum, and privacy.distributed bounds them by one clip (set equal)"},
		{c.Compress != nil, "compress", "sends part of an update or values of few bits, and a mask covers every word " +
			"of 64 bits (remove it)"},
		{isBuffered && bufferSize < 3, "close.n", fmt.Sprintf(
			"%d shows single updates: a sum hides those of three or more (raise it)", bufferSize)},
		{isBuffered && bufferSize > c.Cohort, "close.n", fmt.Sprintf("%d clients wait for each other, and cohort has "+
			"%d at work (lower it, or raise cohort)", bufferSize, c.Cohort)},
		{isBuffered && c.Cohort < cohortForGroups, "cohort", fmt.Sprintf("%d clients and devices are drawn, and "+
			"groups of %d may have too few of either (raise it to %d, or set devices.include: every_round)",
			c.Cohort, bufferSize, cohortForGroups)},
		{closing.HasGrace(c.Close), "close.grace", "keeps a round open for updates whose number is not known when " +
			"masks are made (remove it)"},
		{closing.UsesLate(c.Late), "late", "counts an update in another round than that of its masks (set drop)"},
		{c.Aggregate.Weights == TakenWeights, "aggregate.weights", "taken is not fixed before the masks are made " +
			"(set equal or samples)"},
		{c.Aggregate.SiteRounds > 0 && c.Privacy.Distributed.On(), "aggregate.site_rounds", "has as many sums as " +
			"sites, of numbers of clients that vary, and noise is whole for one number (remove privacy.distributed)"},
		// Where sites add up, their own transfers alone share links.
		{c.Network.Shared() && c.Aggregate.SiteRounds == 0, "network", "shares a link among transfers, and the " +
			"stages' messages are not played there (remove server_download_mbps, server_upload_mbps and sites)"},
		{c.Overlap() > 0, "aggregate.algorithm", "has clients compute before a round's keys are sent (use another)"},
		{attackers, "fleet", "has attackers: what they do to masks and shares is not played (remove " +
			"them)"},
		{!needsOnlySum(c.Aggregate.Algorithm), "aggregate.algorithm", algorithmName +
			" looks at more of a client than a weighted sum of updates (use fedavg, fedavgm, fedprox, fedadam, " +
			"fedadagrad or fedyogi)"},
		{c.Devices.KeepUpdates, "devices.keep_updates", "keeps single updates, which nobody sees (set false)"},
		{batteries, "fleet", "has batteries, and the stages draw on none (remove them)"},
		{needs.Candidates && hasDevices, "select", "asks devices for losses before they have a task"},
		{registry.NeedsOf(c.Local).ClientState && hasDevices, "local.keep", "has devices send what they keep, " +
			"which no mask covers (set false)"},
	} {
		if conflict.refused {
			return problem(conflict.key, []string{"secure_aggregation.on"}, "%s", conflict.problem)
		}
	}
	return nil
}

// cohortForGroups returns the smallest cohort of simulated clients and devices, drawn together, of which n or more can
// always make a group where rounds overlap. Devices mask their updates among each other, so they wait until they are
// enough, one less than that at most, and n simulated clients must have places beside those that wait. It returns 0
// where devices are not drawn with simulated clients.
func (c *Config) cohortForGroups(n int) int {
	if !c.DrawsDevices() || c.DevicesAlone() {
		return 0
	}
	plan, err := c.SecurePlan(min(n, len(c.Devices.Names)))
	// Terms that cannot work are refused with their own reason.
	if err != nil {
		return 0
	}
	return n + plan.FewestMembers() - 1
}

// needsOnlySum reports whether algorithm a needs nothing of a round but the weighted sum of its updates,
// which is all that secure aggregation shows.
func needsOnlySum(a algorithm.Algorithm) bool {
	switch algorithm.Algorithms.NameOf(a) {
	case "fedavg", "fedavgm", "fedprox", "fedadam", "fedadagrad", "fedyogi":
		return true
	}
	return false
}
