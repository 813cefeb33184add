package problem

import (
	"fmt"

	"fedpace/coordinator/closing"
	"fedpace/experiment/config"
)

// checkKept refuses a trainer that has clients keep bytes where these cannot follow them, as
// the configuration by itself refuses all else that clients keep.
func (p *Problem) checkKept() error {
	c := &p.Config
	if p.Trainer == nil || p.Trainer.State == 0 {
		return nil
	}
	refuse := func(key, lacks string) error {
		return &config.KeyError{Key: key, Others: []string{"trainer"}, Problem: fmt.Sprintf("trainer %s has each client keep up to %d bytes, which %s", p.Trainer.Name, p.Trainer.State, lacks)}
	}
	switch {
	case closing.Overlaps(c.Close):
		return refuse("close", "needs rounds that do not overlap (use another closing rule)")
	case closing.UsesLate(c.Late):
		return refuse("late", "late updates do not fit (set late: drop)")
	}
	return nil
}
