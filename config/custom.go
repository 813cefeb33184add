package config

import (
	"fmt"
	"slices"

	"fedpace/actors/fleet"
	"fedpace/data/federated"
)

// Task custom has data and a model of its owner's. Nothing in a table is true of
// it: what nobody can know is asked for, and what follows from the data is fitted
// once they are read.

// checkCustom refuses a configuration of task custom that leaves out what only its owner can know,
// such as the data, the model and the learning rate. Its error explains how to set the first
// missing key and how to find a value, and names the other missing keys. Other tasks always pass.
func (c *Config) checkCustom() error {
	if c.Task != TaskCustom {
		return nil
	}
	// Local steps have a known time where real devices measure it, where the configuration gives it
	// for all clients, or where every class of devices has its own.
	lacksTime := func(k fleet.Class) bool { return k.SecondsPerStep == nil }
	allClassesTimed := len(c.Fleet) > 0 && !slices.ContainsFunc(c.Fleet, lacksTime)
	hasStepTime := c.DevicesAlone() || c.Compute.SecondsPerStep > 0 || c.Compute.Measured != "" || allClassesTimed
	// The model must be known to train it, and also to calculate its size on the network.
	needsModel := c.Train || c.Network.ModelMegabits == 0
	var missing []*KeyError
	// Each row is a key, whether it is missing, and how the user finds a value for it.
	for _, required := range []struct {
		key       string
		isMissing bool
		remedy    string
	}{
		{"data", (c.Data == Data{}) && (needsModel || c.Clients == AllClients), "task custom has no data of its own " +
			"(set data: {path: own.csv, ...}; fedpace init own.csv proposes it)"},
		{"model", c.UsesTaskModel() && needsModel, "task custom has no model of its own (set model: linear, or one " +
			"of fedpace help model)"},
		{"schedule.k0", c.Schedule.K0 == 0, "task custom has no K_0 of its own (set the local steps of a client in " +
			"a round; fedpace data info says how many an epoch has)"},
		{"schedule.eta0", c.Schedule.Eta0 == 0, "task custom has no learning rate of its own (set it; fedpace " +
			"tune --grid schedule.eta0=0.01,0.03,0.1,0.3 finds one)"},
		{"compute.seconds_per_step", !hasStepTime, "task custom has no time of a local step (set the seconds of a " +
			"minibatch on a client's device; fedpace calibrate --model measures them)"},
		{"network.download_mbps", c.Network.DownloadMbps == 0,
			"task custom has no links of its own (set the Mbit/s of a client's downloads, as a speed test gives them)"},
		{"network.upload_mbps", c.Network.UploadMbps == 0,
			"task custom has no links of its own (set the Mbit/s of a client's uploads, as a speed test gives them)"},
		{"stop", c.Stop == Stop{}, "task custom has no end of its own (set stop: {rounds: 100}, or another of " +
			"fedpace help stop)"},
	} {
		if required.isMissing {
			missing = append(
				missing,
				&KeyError{Key: required.key, RelatedKeys: []string{"task"}, Problem: "is not set: " + required.remedy},
			)
		}
	}
	if missing == nil {
		return nil
	}
	// One error with all missing keys saves the user a run for each of them.
	first := missing[0]
	var furtherKeys []string
	for _, k := range missing[1:] {
		furtherKeys = append(furtherKeys, k.Key)
	}
	if len(furtherKeys) > 0 {
		first.Problem += fmt.Sprintf("; it also needs %s", listed(furtherKeys, " and "))
	}
	return first
}

// Fit settles the sizes that were left to the population. A cohort of 0 becomes a tenth of the
// clients, but at least 10, or all of fewer, and at most 100; where real devices are alone, it becomes all of
// them. It stays 0 while the number of clients is not known. A
// minibatch of 0 is fitted to samples, the clients' numbers of training samples, which is nil where
// those are not known. Sizes that are set stay.
func (c *Config) Fit(samples []int) {
	// Without a number of clients yet, the cohort stays 0 and is fitted later.
	switch {
	case c.Cohort == 0 && c.DevicesAlone():
		c.Cohort = len(c.Devices.Names)
	case c.Cohort == 0 && c.Clients > 0:
		c.Cohort = min(c.Clients, max(10, min(100, c.Clients/10)))
	}
	if c.Batch == 0 {
		c.Batch = federated.FitBatch(samples)
	}
}
