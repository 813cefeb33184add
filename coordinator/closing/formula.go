package closing

import (
	"fmt"
	"strings"

	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register("formula", "a quorum by formulas of each round's K", Formula{})
}

// Formula is a quorum whose deadline and numbers of updates are formulas of the round: of its K, of
// how long tasks of that K are expected to take, and so on (see [Facts]). With `seconds` alone it
// is a deadline, with `n` alone the first n updates, with all three a quorum ([Quorum]).
type Formula struct {
	Seconds string `key:"seconds" is:"null" help:"deadline in seconds, as 1.2 * expected"`
	N       string `key:"n" is:"null" help:"updates that close a round before it, such as 0.8 * cohort; null: all"`
	M       string `key:"m" is:"null" help:"updates that are enough from the deadline on; null: any number"`
}

// Numbers are those of one round: 0 stands for a number that is not set.
type Numbers struct {
	Deadline Time
	N, M     int
}

// PerRound is a closing rule whose numbers follow the round. The run settles them when a round
// opens and holds the round to them.
type PerRound interface {
	Rule
	// In returns the numbers of a round. An error says which formula has no value that a round can
	// take.
	In(Facts) (Numbers, error)
}

// Rule returns the closing rule by which a round of these numbers closes: a fixed quorum.
func (n Numbers) Rule() Rule { return settled{n} }

// settled closes a round with N updates, if N is set, or at its deadline with at least M.
type settled struct{ numbers Numbers }

// Deadline returns the round's deadline in virtual time from its first task, 0 for none.
func (s settled) Deadline() Time { return s.numbers.Deadline }

// Close reports whether there are N updates, or M after the deadline. An N of 0 is never reached,
// and an M of 0 always.
func (s settled) Close(now Standing) bool {
	// Without N, the round waits for its deadline or for all of its tasks.
	hasAll := s.numbers.N > 0 && now.Accepted >= s.numbers.N
	hasEnough := now.Overdue && now.Accepted >= s.numbers.M
	return hasAll || hasEnough
}

// formulaOption is one of the formulas of a [Formula], with its key.
type formulaOption struct {
	key     string
	formula RoundFormula
}

// options returns the formulas that are set, in the order in which they are settled: seconds, n, m.
func (f Formula) options() []formulaOption {
	var set []formulaOption
	for _, o := range []formulaOption{
		{"seconds", RoundFormula(f.Seconds)},
		{"n", RoundFormula(f.N)},
		{"m", RoundFormula(f.M)},
	} {
		if o.formula != "" {
			set = append(set, o)
		}
	}
	return set
}

// Validate returns an error if a formula does not compile, if the rule would close no round, or if
// it has an m without a deadline. It needs no cohort, as numbers are limited to it later.
func (f Formula) Validate(int) error {
	for _, o := range f.options() {
		if err := o.formula.Validate(); err != nil {
			return registry.Errorf(o.key, "%v", err)
		}
	}
	// Formulas that compile may still say nothing together.
	switch {
	case f.Seconds == "" && f.N == "":
		return registry.Errorf("seconds", "is not set, nor is n (set one of them, or close: all)")
	case f.M != "" && f.Seconds == "":
		return registry.Errorf("m", "is for the time after a deadline, and there is none (set seconds)")
	}
	return nil
}

// Needs asks the run for the facts that the formulas read: the clients' expected times, and the
// straggler share.
func (f Formula) Needs() (needs registry.Needs) {
	for _, o := range f.options() {
		n := o.formula.Needs()
		needs.Times = needs.Times || n.Times
		needs.Stragglers = needs.Stragglers || n.Stragglers
	}
	return needs
}

// Deadline returns 0: a round's deadline is known only when it opens, and [Formula.In] returns it.
func (Formula) Deadline() Time { return 0 }

// Close reports false: a round is closed by its own numbers, of which [Numbers.Rule] makes a rule.
func (Formula) Close(Standing) bool { return false }

// String ends the sentence "Rounds close ..." of a summary with the texts of the formulas
// themselves, since their values change from round to round.
func (f Formula) String() string {
	var parts []string
	if f.N != "" {
		parts = append(parts, "with "+f.N+" updates")
	}
	if f.Seconds != "" {
		part := "after " + f.Seconds + " s"
		// M counts only at the deadline, so it has no part of its own.
		if f.M != "" {
			part += " with at least " + f.M
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", or ")
}

// maxSeconds is the latest deadline, that of [Deadline].
const maxSeconds = 4e9

// In returns the numbers of the round that facts describes: the deadline in nanoseconds, at least
// one, and the numbers of updates, rounded up, from 1 to the cohort. A formula that is not set
// gives 0. A value that is not positive, or a deadline beyond maxSeconds, is an error.
func (f Formula) In(facts Facts) (n Numbers, err error) {
	for _, o := range f.options() {
		key := "close." + o.key
		switch o.key {
		case "seconds":
			n.Deadline, err = deadlineIn(o.formula, facts)
		case "n":
			// No more updates can be waited for than the cohort has clients.
			n.N, err = o.formula.Whole(key, facts, facts.Cohort)
		case "m":
			n.M, err = o.formula.Whole(key, facts, facts.Cohort)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// deadlineIn returns the deadline in nanoseconds that the formula seconds gives a round. One beyond
// maxSeconds is an error.
func deadlineIn(f RoundFormula, facts Facts) (Time, error) {
	seconds, err := f.Value("close.seconds", facts)
	if err != nil {
		return 0, err
	}
	if seconds > maxSeconds {
		return 0, fmt.Errorf("closing: close.seconds: %s is %v in round %d, want at most %v",
			f, seconds, facts.Round, float64(maxSeconds))
	}
	return Deadline{Seconds: seconds}.Deadline(), nil
}
