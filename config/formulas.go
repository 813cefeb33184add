package config

import (
	"cmp"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
)

// checkFormulas refuses formulas of the cohort and of the minibatches that do not compile, and what counts on
// the same ones in each round.
func (c *Config) checkFormulas() error {
	return cmp.Or(c.checkCohortFormula(), c.checkBatchFormula())
}

// checkBatchFormula refuses a formula of the minibatches that does not compile, and what counts on the same
// minibatches in each round.
func (c *Config) checkBatchFormula() error {
	const key = "schedule.batch"
	if c.Schedule.Batch == "" {
		return nil
	}
	if err := closing.RoundFormula(c.Schedule.Batch).Validate(); err != nil {
		return problem(key, nil, "%v", err)
	}
	for _, x := range []struct {
		refused         bool
		related, reason string
	}{
		{c.HasOwnBatches(), "fleet", "a class has minibatches of its own (remove its batch)"},
		{len(c.Devices.Names) > 0, "devices.names", "devices have the run's minibatches (set [])"},
		{c.PlaysFlower(), "task", "an app of Flower has its own minibatches (remove it)"},
		{selection.LimitingOf(c.Select) != nil, "select", "its steps fit the time of whole minibatches (use uniform)"},
		{c.Schedule.Unit == Epochs, "schedule.unit", "epochs count whole minibatches (set unit: steps)"},
		{c.Aggregate.Weights == TakenWeights, "aggregate.weights", "samples of steps are counted by whole " +
			"minibatches (set equal or samples)"},
		{c.Stop.Samples > 0, "stop.samples", "samples of steps are counted by whole minibatches (use another limit)"},
		{c.Stop.Tokens > 0, "stop.tokens", "tokens of steps are counted by whole minibatches (use another limit)"},
		{c.Privacy.On() || c.Privacy.Local.On(), "privacy", "is not accounted with it (remove privacy)"},
		{c.UsesTheory(), "schedule.k", "Eq. 9 is about one size of minibatches (use another schedule of K)"},
	} {
		if x.refused {
			return problem(key, []string{x.related}, "%s", x.reason)
		}
	}
	return nil
}

// checkCohortFormula refuses a formula of the cohort that does not compile, and keys that count on a cohort of the same
// size in each round. A selection that counts on that is refused by its needs ([Config.addUnmetRounds]).
func (c *Config) checkCohortFormula() error {
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
		{closing.Overlaps(c.Close), "close", "in rounds that overlap, cohort is the number of clients at work (use " +
			"another closing rule)"},
		{c.DevicesAlone() && c.Devices.Include == EveryRound, "devices.include", "every device takes part in every " +
			"round (set devices.include: sampled)"},
		{c.Secure.On, "secure_aggregation.on", "who shares masks is settled for one cohort (turn it off)"},
		{c.Privacy.On() || c.Privacy.Local.On(), "privacy", "the noise is accounted for one cohort (remove privacy)"},
		{c.UsesTheory(), "schedule.k", "Eq. 9 is about one cohort (use another schedule of K)"},
		{
			c.Aggregate.Combine != nil,
			"aggregate.combine",
			"a combining rule counts on one cohort's updates (remove it)",
		},
	} {
		if x.refused {
			return problem(key, []string{x.related}, "%s", x.reason)
		}
	}
	return nil
}
