package config

import (
	"strings"
	"testing"
)

// What secure aggregation does not go with is refused by the key's name, with the reason.
func TestSecureAggregation_Refusals(t *testing.T) {
	for _, c := range []struct{ set, key, reason string }{
		{"aggregate.combine=median", "aggregate.combine", "nobody sees"},
		{"aggregate.clip=median", "aggregate.clip", "does not see"},
		{"compress=top_k", "compress", "mask covers every word"},
		{"close={rule: buffered, n: 1}", "close.n", "shows single updates"},
		{"close={rule: buffered, n: 21}", "close.n", "cohort has 20 at work"},
		{"close={rule: buffered, n: 19}; devices={names: [a, b, c], include: sampled}", "cohort", "raise it to 21"},
		{"aggregate.weights=taken", "aggregate.weights", "not fixed before"},
		{"aggregate.algorithm=fednova", "aggregate.algorithm", "more of a client than a weighted sum"},
		{"network.server_upload_mbps=100", "network", "shares a link"},
		{"privacy={local: {clip: 1, noise_multiplier: 1}, distributed: {clip: 1, noise_multiplier: 1}}", "distributed", "two kinds"},
		{"fleet=[{name: a, weight: 1, attack: {kind: sign_flip}}]", "fleet", "attackers"},
	} {
		t.Run(c.key+" "+c.set, func(t *testing.T) {
			_, err := Load("", append([]string{
				"task=femnist", "clients=100", "cohort=20", "schedule.k0=5", "stop.rounds=2", "secure_aggregation.on=true",
			}, strings.Split(c.set, "; ")...))
			if err == nil {
				t.Fatal("taken")
			}
			if !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%v: want the key %s and %q", err, c.key, c.reason)
			}
		})
	}
}

// The numbers of clients whose updates sites add up vary, so that noise made for one number does not go with them.
func TestDistributedNoise_NotAtSites(t *testing.T) {
	_, err := Load("", []string{
		"task=femnist", "clients=100", "cohort=20", "schedule.k0=5", "stop.rounds=2", "secure_aggregation.on=true",
		"network.sites.count=4", "aggregate.site_rounds=2", "privacy.distributed={clip: 1, noise_multiplier: 4}",
	})
	if err == nil || !strings.Contains(err.Error(), "aggregate.site_rounds") || !strings.Contains(err.Error(), "one number") {
		t.Error(err)
	}
}

// Noise that clients add together is refused without secure aggregation, and with weights that differ.
func TestDistributedNoise_Refusals(t *testing.T) {
	for _, c := range []struct{ set, key, reason string }{
		{"secure_aggregation.on=false", "privacy.distributed", "without secure aggregation the coordinator sees each update"},
		{"aggregate.weights=samples", "aggregate.weights", "different parts of a sum"},
		{"privacy.distributed.noise_multiplier=null", "privacy.distributed", "belong together"},
	} {
		t.Run(c.set, func(t *testing.T) {
			_, err := Load("", []string{
				"task=femnist", "clients=100", "cohort=20", "schedule.k0=5", "stop.rounds=2", "secure_aggregation.on=true",
				"privacy.distributed={clip: 1, noise_multiplier: 2}", c.set,
			})
			if err == nil {
				t.Fatal("taken")
			}
			if !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%v: want the key %s and %q", err, c.key, c.reason)
			}
		})
	}
}

// With noise that clients add together a round counts with the share of survivors for which the noise is
// made, and not below.
func TestDistributedNoise_MinimumOfSurvivors(t *testing.T) {
	c, err := Load("", []string{
		"task=femnist", "clients=100", "cohort=50", "schedule.k0=5", "stop.rounds=2", "secure_aggregation.on=true",
		"privacy.distributed={clip: 1, noise_multiplier: 2}",
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.SecurePlan(50)
	if err != nil || p.Minimum != 40 {
		t.Errorf("a minimum of %d (%v), want 40 of 50", p.Minimum, err)
	}
}

// Too small a cohort for the stated shares is refused.
func TestSecureAggregation_SmallCohort(t *testing.T) {
	c, err := Load("", []string{
		"task=femnist", "clients=100", "cohort=20", "schedule.k0=5", "stop.rounds=2", "secure_aggregation.on=true",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SecurePlan(20); err != nil {
		t.Error(err)
	}
	if p, err := c.SecurePlan(2); err == nil {
		t.Errorf("two clients: %+v", p)
	}
	c.Secure.Minimum = 30
	if p, err := c.SecurePlan(20); err == nil {
		t.Errorf("a minimum of 30 of 20: %+v", p)
	}
}
