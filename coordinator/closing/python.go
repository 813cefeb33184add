package closing

import (
	"fmt"

	"fedpace/policy"
	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register("python", "a Python subclass of fedpace.Closing", Python{})
}

// Python closes a round when a class in Python says so. A host, which closes no rounds, has no
// process bound; there, and where a configuration is checked, a round closes with its fewest
// updates.
type Python struct {
	policy.Python
	Seconds float64 `key:"deadline_seconds" default:"0" range:"[0,4e9]" unit:"seconds" help:"deadline from a round's first task; 0: none"`
	Fewest  int     `key:"updates" default:"1" range:"[1,1000000]" help:"minimum of updates"`
}

// Kind returns the name of the base class in Python that the user's class must have.
func (Python) Kind() string { return "Closing" }

// Deadline returns the option deadline_seconds as virtual time in nanoseconds. 0 means that there is no deadline:
// then the class is asked whether the round closes only when an update has arrived.
func (p Python) Deadline() Time {
	if p.Seconds == 0 {
		return 0
	}
	return Deadline{Seconds: p.Seconds}.Deadline()
}

// Close reports whether the round closes now, by the answer of the Python class. It is false before the
// fewest updates have been accepted, and if the class has failed. Without a bound class the round closes as
// soon as it has the fewest.
func (p Python) Close(now Standing) bool {
	if now.Accepted < p.Fewest {
		return false
	}
	if p.Asker() == nil {
		return true
	}
	closes := false
	return p.Asker().Ask("close", asked(now), &closes) && closes
}

// asked is the [Standing] of a round as the class in Python is asked about it, in JSON.
type asked struct {
	Cohort   int  `json:"cohort"`
	Tasks    int  `json:"tasks"`
	Accepted int  `json:"accepted"`
	Overdue  bool `json:"overdue"`
}

// String completes the sentence "Rounds close ...".
func (p Python) String() string { return fmt.Sprintf("as %v says", p.Python) }

// Validate returns an error if the class would first be asked with more updates than a round has tasks, and
// so never. cohort is the number of tasks.
func (p Python) Validate(cohort int) error {
	if p.Fewest > cohort {
		return registry.Errorf("updates", "%d is more than the cohort (at most %d)", p.Fewest, cohort)
	}
	return nil
}
