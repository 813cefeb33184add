package selection

import (
	"fmt"
	"sort"

	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register(
		"fit",
		"each client's local steps are lowered to fit the deadline or, without one, to arrive together",
		Fit{},
	)
}

// Fit lowers each client's K until its expected time fits the round's deadline:
// fewer local steps from slow clients instead of none (the trade-off of Remark
// 1.4). A client that is too slow even for the fewest steps is left out.
//
// Where rounds overlap, it is all clients of the run that are to take equally long for a task: each takes
// local steps by its speed (dynamic local updates, Liu et al. 2024).
//
// Without a deadline all clients of a round are to arrive at once, as those of one
// group of FedCompass (Li et al. 2024, whose Q_max is here K_r and whose Q_min is
// Least): at the time at which the fastest has done K_r steps, or later, when the
// slowest has done the fewest.
type Fit struct {
	Base     Rule `key:"from" is:"null" help:"how clients are drawn; null: uniform"`
	MinSteps int  `key:"least" default:"1" range:"[0,1000000]" help:"minimum local steps; slower clients are left out (0: take one)"`
}

// Order returns the order of the rule that draws the clients.
func (f Fit) Order(s Setup) (Order, error) { return OrUniform(f.Base).Order(s) }

// Query returns the number of candidates of the rule that draws the clients.
func (f Fit) Query() int { return QueryOf(f.Base) }

// DrawsBy implements [ByLosses]: it returns the rule by which candidates are drawn, which is this one without their
// query. If the base rule asks candidates for their losses, the rule that draws those takes its place as the base,
// and their local steps are still lowered to fit the deadline.
func (f Fit) DrawsBy() Rule {
	if s, ok := f.Base.(ByLosses); ok {
		f.Base = s.DrawsBy()
	}
	return f
}

// Limit implements [Limiting]: it returns the largest number of local steps, up to maxSteps, with which
// the client's task is expected to end by the round's deadline. If even the fewest steps that the rule
// allows do not fit, it is 0 and the client is left out, or 1 if the option least is 0.
func (f Fit) Limit(setup *Setup, client, maxSteps int) int {
	maxSteps = LimitOf(f.Base, setup, client, maxSteps)
	if setup.Deadline == 0 || setup.Expect(client, maxSteps) <= setup.Deadline {
		return maxSteps
	}
	fewest := f.fewest(maxSteps)
	if f.MinSteps > 0 && setup.Expect(client, fewest) > setup.Deadline {
		return 0
	}
	// Beyond the fewest, each further step takes longer. The first that is too late is searched by halves,
	// counted from 0; its number is that of the further steps that fit.
	isTooLate := func(further int) bool { return setup.Expect(client, fewest+further+1) > setup.Deadline }
	furtherSteps := sort.Search(maxSteps-fewest, isTooLate)
	return fewest + furtherSteps
}

// fewest returns to how many local steps, at least 1, the rule lowers those of a client at most, where k is
// their number without a limit.
func (f Fit) fewest(k int) int { return max(min(f.MinSteps, k), 1) }

// Deadline returns by when the clients of a round are to arrive together: when the fastest has done all
// of its steps or, if that is later, when the slowest has done its fewest.
func (f Fit) Deadline(s *Setup, clients []int32, steps func(client int) int) Time {
	fastest := MaxTime
	slowest := Time(0)
	for _, client := range clients {
		k := LimitOf(f.Base, s, int(client), steps(int(client)))
		fastest = min(fastest, s.Expect(int(client), k))
		slowest = max(slowest, s.Expect(int(client), f.fewest(k)))
	}
	// A deadline of 0 would mean that there is none.
	return max(fastest, slowest, 1)
}

// Needs says what the rule must be given: what its base needs and, beyond that, the clients' times.
func (f Fit) Needs() Needs {
	needs := registry.NeedsOf(f.Base)
	needs.Times = true
	return needs
}

// FitsOverlapping reports whether a rule that limits local steps does so also where rounds overlap. It
// then has all clients of a run arrive at about the same time, not those of one round.
func FitsOverlapping(rule Rule) bool {
	_, fits := rule.(Fit)
	return fits
}

// timedRounds returns the needs of a rule that draws as base does, and that must know the clients' times in
// rounds that do not overlap.
func timedRounds(base Rule) Needs {
	needs := registry.NeedsOf(base)
	needs.Rounds = true
	needs.Times = true
	return needs
}

// Validate returns an error if the rule that draws the clients has a wrong option.
func (f Fit) Validate(cohort, clients int) error {
	return registry.Below("from", Validate(f.Base, cohort, clients))
}

// String returns the rule in words, which complete a dry run's sentence about the cohort.
func (f Fit) String() string {
	return fmt.Sprintf("%v, with local steps that fit the round", OrUniform(f.Base))
}
