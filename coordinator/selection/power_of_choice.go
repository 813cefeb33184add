package selection

import (
	"cmp"
	"fmt"

	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register("power_of_choice", "the candidates with the highest losses", PowerOfChoice{})
}

// PowerOfChoice draws more candidates than the cohort has places, asks each for
// its loss on the newest model and takes those with the highest (Cho, Wang and
// Joshi 2020). The loss is that of the client's next minibatch, the paper's
// variant that saves computation (cpow-d).
//
// A candidate downloads the model and computes for as long as one local step;
// sending back a number takes no time. The round continues when each candidate
// has answered or dropped out; a deadline counts from there. A chosen client
// holds the model already and does not download it again. Where all candidates
// drop out the round closes with nothing accepted.
type PowerOfChoice struct {
	Candidates int  `key:"candidates" range:"[1,1000000]" help:"clients asked for their loss"`
	Base       Rule `key:"from" is:"null" help:"how candidates are drawn; null: uniform"`
}

// Order returns the order of the rule that draws the candidates.
func (p PowerOfChoice) Order(s Setup) (Order, error) { return p.DrawsBy().Order(s) }

// Query implements [ByLosses]: it returns how many candidates are asked for their losses.
func (p PowerOfChoice) Query() int { return p.Candidates }

// DrawsBy implements [ByLosses]: it returns the rule that draws the candidates.
func (p PowerOfChoice) DrawsBy() Rule { return OrUniform(p.Base) }

// Needs says what the rule must be given: what its base needs and, beyond that, candidates with
// their losses and rounds that do not overlap.
func (p PowerOfChoice) Needs() Needs {
	n := registry.NeedsOf(p.Base)
	n.Losses = true
	n.Candidates = true
	n.Rounds = true
	return n
}

// Validate returns an error if the number of candidates does not fit the cohort and the clients, or
// if the base rule asks candidates itself.
func (p PowerOfChoice) Validate(cohort, clients int) error {
	if err := checkCandidates(p.Candidates, p.Base, cohort, clients); err != nil || QueryOf(p.Base) == 0 {
		return err
	}
	return registry.Errorf("from", "candidates cannot be drawn by asking other candidates for their losses")
}

// checkCandidates returns an error if n candidates are fewer than the cohort or more than the clients (0
// if their number is not known yet), or if the rule that draws them has a wrong option.
func checkCandidates(n int, base Rule, cohort, clients int) error {
	if n < cohort {
		return registry.Errorf(
			"candidates",
			"%d is less than the cohort, which is chosen from them (at least %d)",
			n,
			cohort,
		)
	}
	return cmp.Or(atMost("candidates", n, clients), registry.Below("from", Validate(base, n, clients)))
}

// String returns the rule in words, which complete a dry run's sentence about the cohort.
func (p PowerOfChoice) String() string {
	return fmt.Sprintf("those with the highest losses of %d drawn %v", p.Candidates, p.DrawsBy())
}
