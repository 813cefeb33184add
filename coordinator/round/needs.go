package round

import (
	"cmp"
	"errors"
	"fmt"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/internal/registry"
)

// validateRules refuses a closing rule and a selection that do not fit the run.
func (c *Config) validateRules() error {
	err := registry.Check(c.Closing)
	if v, ok := c.Closing.(interface{ Validate(cohort int) error }); ok && err == nil {
		err = v.Validate(c.Cohort)
	}
	s := selection.OrUniform(c.Select)
	return cmp.Or(c.checkNeeds("closing rule", c.Closing, err), c.checkNeeds("selection", s, selection.Validate(s, c.Cohort, c.drawn())), c.validateLate())
}

// checkNeeds refuses a component with an error in its options, or that needs what the
// run does not give.
func (c *Config) checkNeeds(name string, component any, err error) error {
	var missing error
	n := registry.NeedsOf(component)
	switch {
	case err != nil:
		return fmt.Errorf("round: %s: %w", name, err)
	case (n.Losses || n.Validation) && !c.Train:
		missing = errors.New("training")
	case n.Candidates && c.Devices.Count > 0:
		missing = errors.New("losses of clients without a task, which devices do not tell")
	case n.Rounds && closing.Overlaps(c.Closing):
		missing = errors.New("rounds that do not overlap")
	case n.Deadline && c.Closing.Deadline() == 0:
		missing = errors.New("rounds with a deadline")
	case n.Times && c.Expect == nil:
		missing = errors.New("the clients' expected times")
	case n.Speeds && !c.tellsApart():
		missing = errors.New("the clients' expected times, and devices that are drawn with the others have none without a class")
	case n.Samples && c.Samples == nil && c.Clients > 0:
		missing = errors.New("the clients' numbers of samples")
	default:
		return nil
	}
	return fmt.Errorf("round: the %s needs %w", name, missing)
}
