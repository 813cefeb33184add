package config

import "fedpace/coordinator/closing"

// checkFormulas refuses a formula of the cohort that does not compile, and what counts on the same
// cohort in each round. A selection that does is refused with what else it needs.
func (c *Config) checkFormulas() error {
	const key = "schedule.cohort"
	if c.Schedule.Cohort == "" {
		return nil
	}
	if err := closing.RoundFormula(c.Schedule.Cohort).Validate(); err != nil {
		return problem(key, nil, "%v", err)
	}
	for _, x := range []struct {
		refused         bool
		related, reason string
	}{
		{closing.Overlaps(c.Close), "close", "in rounds that overlap, cohort is the number of clients at work (use another " +
			"closing rule)"},
		{c.DevicesAlone() && c.Devices.Include == EveryRound, "devices.include", "every device takes part in every round " +
			"(set devices.include: sampled)"},
		{c.Secure.On, "secure_aggregation.on", "who shares masks is settled for one cohort (turn it off)"},
		{c.Privacy.On() || c.Privacy.Local.On(), "privacy", "the noise is accounted for one cohort (remove privacy)"},
		{c.UsesTheory(), "schedule.k", "Eq. 9 is about one cohort (use another schedule of K)"},
		{c.Aggregate.Combine != nil, "aggregate.combine", "a combining rule counts on one cohort's updates (remove it)"},
	} {
		if x.refused {
			return problem(key, []string{x.related}, "%s", x.reason)
		}
	}
	return nil
}
