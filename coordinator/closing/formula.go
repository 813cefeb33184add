package closing

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"fedpace/coordinator/schedule"
	"fedpace/internal/expression"
	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register("formula", "a quorum with numbers that follow each round's K", Formula{})
}

// Formula is a quorum whose deadline and numbers of updates are formulas of the round: of its K, of
// how long tasks of that K are expected to take, and so on (see [Facts]). With `seconds` alone it
// is a deadline, with `n` alone the first n updates, with all three a quorum ([Quorum]).
type Formula struct {
	Seconds string `key:"seconds" is:"null" help:"deadline in seconds, such as 1.2 * expected; null: none"`
	N       string `key:"n" is:"null" help:"updates that close a round before it, such as 0.8 * cohort; null: all"`
	M       string `key:"m" is:"null" help:"updates that are enough from the deadline on; null: any number"`
}

// Facts are what a formula may read of a round that opens. They are known before any of its tasks
// is issued.
type Facts struct {
	// Round is the number of the round, from 1, and Seconds the virtual time at which it opens.
	Round   int
	Seconds float64
	// K is the number of local steps of a mean client, and K0 the schedule's K_0, in the schedule's
	// unit. Cohort is the run's.
	K      int
	K0     int
	Cohort int
	// StragglerShare is that of the last round that has one, 0 before.
	StragglerShare float64
	// Quantile returns the time in seconds within which this part of the clients, 0 to 1, is
	// expected to do a task of K local steps, and Mean the mean of these times. They are asked only
	// where a formula reads them.
	Quantile func(part float64) float64
	Mean     func() float64
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

// closingVariables holds the values of the variables of a closing rule's formula, by their names in
// it.
type closingVariables struct {
	Round          float64                    `expr:"r"`
	Seconds        float64                    `expr:"t"`
	K              float64                    `expr:"k"`
	K0             float64                    `expr:"k0"`
	Cohort         float64                    `expr:"cohort"`
	StragglerShare float64                    `expr:"straggler_share"`
	Expected       float64                    `expr:"expected"`
	Quantile       func(part float64) float64 `expr:"quantile"`
}

// options returns the formulas that are set, each with its configuration key, in the order seconds, n, m.
func (f Formula) options() []struct{ key, text string } {
	var set []struct{ key, text string }
	for _, o := range []struct{ key, text string }{{"seconds", f.Seconds}, {"n", f.N}, {"m", f.M}} {
		if o.text != "" {
			set = append(set, o)
		}
	}
	return set
}

// programs are the formulas compiled so far, by their text, since a round asks once each.
var programs sync.Map

// program returns the compiled formula of a text. Programs are kept, so each text is compiled once.
// A text that is no formula is an error.
func program(text string) (*expression.Program, error) {
	if p, ok := programs.Load(text); ok {
		return p.(*expression.Program), nil
	}
	p, err := schedule.Compile(text, closingVariables{})
	if err == nil {
		programs.Store(text, p)
	}
	return p, err
}

// Validate returns an error if a formula does not compile, if neither a deadline nor a number of updates
// would close a round, or if m is set without a deadline. The cohort does not matter, because [Formula.In]
// limits numbers of updates to it.
func (f Formula) Validate(int) error {
	for _, o := range f.options() {
		if _, err := program(o.text); err != nil {
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

// reads reports whether any of the rule's formulas has one of these variables. A formula that does not
// compile has none.
func (f Formula) reads(names ...string) bool {
	for _, o := range f.options() {
		p, err := program(o.text)
		// Validate reports what is wrong with the formula.
		if err != nil {
			continue
		}
		for _, name := range names {
			if p.Reads[name] {
				return true
			}
		}
	}
	return false
}

// Needs asks the run for the facts that the formulas read: the clients' expected times, and the
// straggler share.
func (f Formula) Needs() registry.Needs {
	return registry.Needs{Times: f.reads("expected", "quantile"), Stragglers: f.reads("straggler_share")}
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

// In evaluates the formulas for the round that facts describes. The deadline is in nanoseconds, at least 1;
// the numbers of updates are rounded up, from 1 to the cohort. A formula that is not set gives 0. A value
// that is not positive, or a deadline beyond maxSeconds, is an error.
func (f Formula) In(facts Facts) (numbers Numbers, err error) {
	// Formulas calculate in floating point, whatever the facts are.
	variables := closingVariables{
		Round:          float64(facts.Round),
		Seconds:        facts.Seconds,
		K:              float64(facts.K),
		K0:             float64(facts.K0),
		Cohort:         float64(facts.Cohort),
		StragglerShare: facts.StragglerShare,
		Quantile:       facts.Quantile,
	}
	// The mean of expected times is costly, so it is calculated only for formulas that read it.
	if f.reads("expected") {
		variables.Expected = facts.Mean()
	}
	for _, option := range f.options() {
		compiled, err := program(option.text)
		if err != nil {
			return numbers, fmt.Errorf("closing: %w", err)
		}
		value := compiled.Value(variables)
		isSeconds := option.key == "seconds"
		// No more updates can be waited for than the cohort has clients.
		limit := float64(facts.Cohort)
		if isSeconds {
			limit = maxSeconds
		}
		// The comparison is negated so that NaN is refused, too. Too many updates are only lowered.
		if !(value > 0) || isSeconds && value > limit {
			return numbers, fmt.Errorf("closing: close.%s: %s is %v in round %d, want more than 0 and at most %v",
				option.key, option.text, value, facts.Round, limit)
		}
		// Without the tolerance, a rounding error would ask for one update more.
		updates := int(math.Ceil(min(value-wholeTolerance*value, limit)))
		switch option.key {
		case "seconds":
			numbers.Deadline = Deadline{Seconds: value}.Deadline()
		case "n":
			numbers.N = updates
		case "m":
			numbers.M = updates
		}
	}
	return numbers, nil
}

// wholeTolerance is the relative tolerance within which a number of updates above a whole number counts as
// that, because of rounding errors of a formula: 0.1 * 30 is 3 and not 4.
const wholeTolerance = 1e-12
