package round

import (
	"cmp"
	"errors"
	"fmt"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/registry"
)

// Validate returns an error if rules do not fit the run or each other. It does not check ranges of
// numbers, which the reader of the configuration does, nor what an order of clients needs, which [New]
// finds when it makes the order.
func (c *Config) Validate() error {
	if c.sitesAddUp() &&
		(!isAll(c.Closing) || c.Devices.Count > 0 || c.asksCandidates()) {
		return errors.New("round: sites that add up need a round that waits for all, without devices and candidates")
	}
	if err := cmp.Or(c.validateSecure(), c.validateCohort(), c.validateBatch()); err != nil {
		return err
	}
	err := registry.Check(c.Closing)
	if v, ok := c.Closing.(interface{ Validate(cohort int) error }); ok && err == nil {
		err = v.Validate(c.Cohort)
	}
	// The first of these errors is returned.
	s := selection.OrUniform(c.Select)
	return cmp.Or(
		c.checkNeeds("closing rule", c.Closing, err),
		c.checkNeeds("selection", s, selection.Validate(s, c.Cohort, c.selectableClients())),
		c.validateLate(),
	)
}

// checkNeeds returns an error if a component, such as the closing rule, needs what this run does not have.
// name is what the user calls the component. If err, a mistake in its options, is not nil, it returns that.
func (c *Config) checkNeeds(name string, component any, err error) error {
	var missing error
	needs := registry.NeedsOf(component)
	if s, ok := component.(selection.Rule); ok && selection.LimitingOf(s) != nil && !selection.FitsOverlapping(s) {
		// Limits of local steps follow the one deadline that a round has.
		needs.Rounds = true
	}
	switch {
	case err != nil:
		return fmt.Errorf("round: %s: %w", name, err)
	case (needs.Losses || needs.Validation) && !c.Train:
		missing = errors.New("training")
	case needs.Candidates && c.Devices.Count > 0:
		missing = errors.New("losses of clients without a task, which devices do not tell")
	case needs.Rounds && closing.Overlaps(c.Closing):
		missing = errors.New("rounds that do not overlap")
	case needs.Deadline && c.Closing.Deadline() == 0:
		missing = errors.New("rounds with a deadline")
	case needs.Times && c.Expect == nil:
		missing = errors.New("the clients' expected times")
	case needs.Speeds && !c.knowsSpeeds():
		missing = errors.New("the clients' expected times, and devices that are drawn with the others have none " +
			"without a class")
	case needs.Samples && c.Samples == nil && c.Clients > 0:
		missing = errors.New("the clients' numbers of samples")
	default:
		return nil
	}
	return fmt.Errorf("round: the %s needs %w", name, missing)
}

// knowsSpeeds reports whether the expected time of each client from which cohorts are selected is known:
// that of a real device only if the device has a class.
func (c *Config) knowsSpeeds() bool {
	// Devices that are selected with the simulated clients have the numbers behind theirs.
	selectableDevices := c.selectableClients() - c.Clients
	for i := range selectableDevices {
		if c.Devices.Modelled == nil || !c.Devices.Modelled(i) {
			return false
		}
	}
	return true
}

// validateSecure returns an error if secure aggregation cannot work with the other rules of the run: late
// updates, overlapping local steps, and shared transfers of clients or batteries.
func (c *Config) validateSecure() error {
	secure := c.Secure
	if secure == nil {
		return nil
	}
	switch {
	case c.Overlap > 0, closing.UsesLate(c.Late):
		return errors.New("round: secure aggregation needs updates that count in the round of their masks")
	case closing.HasGrace(c.Closing):
		return errors.New("round: secure aggregation needs rounds that close with their last update, without grace")
	// Where sites add up, the transfers that share links are those of the sites.
	case c.Server.shared() && !c.sitesAddUp(), c.Batteries != nil:
		return errors.New("round: the stages of secure aggregation go with neither shared transfers nor batteries")
	case secure.Minimum < 2, secure.Threshold < 1, secure.Neighbours < secure.Threshold:
		return fmt.Errorf("round: secure aggregation with %+v", *secure)
	}
	return nil
}

// validateCohort returns an error if a formula of the cohort does not compile, or does not fit the
// other rules of the run.
func (c *Config) validateCohort() error {
	if c.CohortFormula == "" {
		return nil
	}
	if err := c.CohortFormula.Validate(); err != nil {
		return fmt.Errorf("round: formula of the cohort: %w", err)
	}
	switch {
	case closing.Overlaps(c.Closing), c.Secure != nil, registry.NeedsOf(c.Select).Cohort:
		return errors.New("round: rounds that overlap, secure aggregation and a selection that counts on one cohort " +
			"go without a formula of the cohort")
	}
	return c.checkNeeds("cohort", c.CohortFormula, nil)
}

// validateBatch returns an error if a formula of the minibatches does not compile, or does not fit the
// other rules of the run.
func (c *Config) validateBatch() error {
	if c.BatchFormula == "" {
		return nil
	}
	if err := c.BatchFormula.Validate(); err != nil {
		return fmt.Errorf("round: formula of the minibatches: %w", err)
	}
	if c.Batch < 1 || c.Devices.Count > 0 || selection.LimitingOf(c.Select) != nil {
		return errors.New("round: a formula of the minibatches needs their largest size, and goes without devices " +
			"and selections that limit local steps")
	}
	return c.checkNeeds("minibatch", c.BatchFormula, nil)
}

// isAll reports whether the closing rule waits for all tasks of a round.
func isAll(r closing.Rule) bool {
	_, all := r.(closing.All)
	return all
}

// validateLate returns an error if the rule for late updates is not valid, or if no update can be
// late, or none can count late, under the other rules of the run.
func (c *Config) validateLate() error {
	if c.Late == nil {
		return nil
	}
	err := registry.Check(c.Late)
	if v, ok := c.Late.(interface{ Validate() error }); ok && err == nil {
		err = v.Validate()
	}
	if err := c.checkNeeds("rule for late updates", c.Late, err); err != nil {
		return err
	}
	switch {
	case !closing.UsesLate(c.Late):
		return nil
	case isAll(c.Closing):
		return errors.New("round: no update is late where a round waits for all")
	case closing.Overlaps(c.Closing):
		return errors.New("round: no update is late where rounds overlap")
	case c.asksCandidates():
		return errors.New("round: late updates do not go with candidates that are asked for their losses")
	}
	return nil
}
