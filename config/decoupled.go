package config

import (
	"slices"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/coordinator/closing"
)

// checkDecoupled refuses settings that compare the updates of a round, or change all their values, where
// each update is of another fragment of the model, and rounds of more updates than there are clients to
// wait for them.
func (c *Config) checkDecoupled() error {
	if _, ok := c.Aggregate.Algorithm.(algorithm.Decoupled); !ok {
		return nil
	}
	attackers := slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Attack != nil })
	buffered, isBuffered := c.Close.(closing.Buffered)
	const fragments = "the updates of a round are of different fragments with aggregate.algorithm: decoupled "
	for _, conflict := range []struct {
		refused bool
		key     string
		problem string
	}{
		{c.Aggregate.Combine != nil, "aggregate.combine", "compares updates, and " + fragments + "(remove it)"},
		{c.Aggregate.Clip != nil, "aggregate.clip", "compares updates, and " + fragments + "(remove it)"},
		{c.Privacy.On() || c.Privacy.Local.On(), "privacy", "adds noise to whole updates, and " + fragments +
			"(remove it, or use another algorithm)"},
		{attackers, "fleet", "has attackers, who send whole updates, and " + fragments + "(remove them)"},
		{isBuffered && buffered.N > c.Clients, "close.n", "is more than the clients, and with aggregate.algorithm: " +
			"decoupled each sends one update to a round (lower it, or raise clients)"},
	} {
		if conflict.refused {
			return problem(conflict.key, []string{"aggregate.algorithm"}, "%s", conflict.problem)
		}
	}
	return nil
}
