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

// checkCustom asks for what a configuration of task custom does not set. Its error
// says how to set the first of them and how to find it, and names the others.
func (c *Config) checkCustom() error {
	if c.Task != TaskCustom {
		return nil
	}
	timed := c.DevicesAlone() || c.Compute.SecondsPerStep > 0 || c.Compute.Measured != "" ||
		len(c.Fleet) > 0 && !slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.SecondsPerStep == nil })
	learns := c.Train || c.Network.ModelMegabits == 0
	var missing []*KeyError
	for _, asked := range []struct {
		key    string
		lacks  bool
		remedy string
	}{
		{"data", (c.Data == Data{}) && (learns || c.Clients == AllClients), "task custom has no data of its own (set data: {path: own.csv, ...}; fedpace init own.csv proposes it)"},
		{"model", c.UsesTaskModel() && learns, "task custom has no model of its own (set model: linear, or one of fedpace help model)"},
		{"schedule.k0", c.Schedule.K0 == 0, "task custom has no K_0 of its own (set the local steps of a client in a round; fedpace data info says how many an epoch has)"},
		{"schedule.eta0", c.Schedule.Eta0 == 0, "task custom has no learning rate of its own (set it; fedpace compare --grid schedule.eta0=0.01,0.03,0.1,0.3 finds one)"},
		{"compute.seconds_per_step", !timed, "task custom has no time of a local step (set the seconds of a minibatch on a client's device; fedpace calibrate --model measures them)"},
		{"network.download_mbps", c.Network.DownloadMbps == 0,
			"task custom has no links of its own (set the Mbit/s of a client's downloads, as a speed test gives them)"},
		{"network.upload_mbps", c.Network.UploadMbps == 0,
			"task custom has no links of its own (set the Mbit/s of a client's uploads, as a speed test gives them)"},
		{"stop", c.Stop == Stop{}, "task custom has no end of its own (set stop: {rounds: 100}, or another of fedpace help stop)"},
	} {
		if asked.lacks {
			missing = append(
				missing,
				&KeyError{Key: asked.key, RelatedKeys: []string{"task"}, Problem: "is not set: " + asked.remedy},
			)
		}
	}
	if missing == nil {
		return nil
	}
	first := missing[0]
	furtherKeys := []string(nil)
	for _, k := range missing[1:] {
		furtherKeys = append(furtherKeys, k.Key)
	}
	if furtherKeys != nil {
		first.Problem += fmt.Sprintf("; it also needs %s", listed(furtherKeys, " and "))
	}
	return first
}

// Fit settles what follows from the population: the cohort, and the minibatch if
// samples, the numbers of training samples of clients, are known.
func (c *Config) Fit(samples []int) {
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
