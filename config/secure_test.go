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
		{"close={rule: buffered, n: 5}", "close", "start together"},
		{"aggregate.weights=taken", "aggregate.weights", "not fixed before"},
		{"aggregate.algorithm=fednova", "aggregate.algorithm", "more of a client than a weighted sum"},
		{"network.server_upload_mbps=100", "network", "shares a link"},
		{"fleet=[{name: a, weight: 1, attack: {kind: sign_flip}}]", "fleet", "attackers"},
	} {
		t.Run(c.key+" "+c.set, func(t *testing.T) {
			_, err := Load("", []string{
				"task=femnist", "clients=100", "cohort=20", "schedule.k0=5", "stop.rounds=2", "secure_aggregation.on=true", c.set,
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
