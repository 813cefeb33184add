package secagg

import (
	"fmt"
	"math"
	"math/bits"
	"sort"

	"fedpace/internal/portable"
)

// Terms are what the members of a round agree on before they send keys.
type Terms struct {
	// Neighbours is the number k of members with which each member shares masks and to which it
	// gives shares. In a round of at most k + 1 members all are neighbours.
	Neighbours int
	// Threshold is the number of shares that recover a secret.
	Threshold int
	// Colluders is the largest number of members that may collude with the coordinator.
	Colluders int
	// Minimum is the smallest number of survivors whose sum is revealed.
	Minimum int
}

// MaxMembers is the largest number of members of a round.
const MaxMembers = 1 << 20

// smallestMinimum is the smallest minimum of survivors: of a sum of two each of the two knows the
// other's update.
const smallestMinimum = 3

// smallestHonest is how many members of a sum must be honest at least: colluders subtract their own updates,
// and what is left of one honest member would be that member's update.
const smallestHonest = 2

// Validate refuses terms under which a sum would hide nothing, or a secret could not be recovered:
// it returns an error that names the number and its range.
func (t Terms) Validate() error {
	switch {
	case t.Minimum < smallestMinimum || t.Minimum > MaxMembers:
		return fmt.Errorf(
			"secagg: a minimum of %d survivors, want %d to %d", t.Minimum, smallestMinimum, MaxMembers)
	case t.Neighbours < 2 || t.Neighbours > MaxMembers:
		return fmt.Errorf("secagg: %d neighbours, want 2 to %d", t.Neighbours, MaxMembers)
	case t.Threshold < 2 || t.Threshold > t.Neighbours:
		return fmt.Errorf("secagg: a threshold of %d shares of %d neighbours, want 2 to %d",
			t.Threshold, t.Neighbours, t.Neighbours)
	case t.Colluders < 0 || t.Colluders > t.Minimum-smallestHonest:
		return fmt.Errorf("secagg: %d colluders and a minimum of %d survivors, want at least %d survivors more",
			t.Colluders, t.Minimum, smallestHonest)
	}
	return nil
}

// Quorum returns the number of members out of a roster of n that must have signed a set of survivors
// before anybody reveals shares for it. Honest members sign one set. Two sets that both have a quorum
// have at least 2·Quorum − n > Colluders signers in common, so that one of those is honest: there are
// no two such sets.
func (t Terms) Quorum(n int) int { return (n+t.Colluders)/2 + 1 }

// FewestMembers returns the smallest number of members with which a round can be recovered: each has Threshold others
// that hold shares of its secrets, and as many as Minimum survive.
func (t Terms) FewestMembers() int { return max(t.Minimum, t.Threshold+1) }

// Shift returns the smallest s for which 2^s is at least total, the weight of all members together.
// A member of weight W then adds W·2^-s times its difference from the model, and all members
// together add at most the difference's bound.
func Shift(total uint64) int {
	if total <= 1 {
		return 0
	}
	return bits.Len64(total - 1)
}

// Share returns the weight with which a member of weight w enters the exact sum, w·2^-shift. It is
// exact: w is below 2^53.
func Share(w uint64, shift int) float64 { return math.Ldexp(float64(w), -shift) }

// Plan is the choice of neighbours and threshold for a number of members, with the probabilities
// with which it fails its promises.
type Plan struct {
	Members int
	Terms
	// Dropouts is the largest number of members that may leave after they have sent shares.
	Dropouts int
	// PrivacyFails bounds the probability that colluders learn more than the sum: that some honest
	// member has Threshold colluding neighbours (Bell et al., Definition 3.2.1), or that the honest
	// members that stay are no longer connected (3.2.2), also where the coordinator chooses who leaves.
	PrivacyFails float64
	// RecoveryFails bounds the probability that some member has fewer than Threshold neighbours that
	// stay (Bell et al., Definition 3.2.3), or that the ring has too few survivors somewhere ([Terms.Cut]).
	RecoveryFails float64
}

// The largest probabilities with which [Choose] lets promises fail (Bell et al., Section 3.4, has
// sigma = 40 and eta = 30).
const (
	maxPrivacyFailure  = 1.0 / (1 << 40)
	maxRecoveryFailure = 1.0 / (1 << 30)
)

// Choose returns the plan with the smallest number of neighbours that keeps both promises, privacy and
// recovery, for n members of which the share colluders collude and the share dropouts leaves. The error
// says which shares n members cannot bear.
func Choose(n int, colluders, dropouts float64) (Plan, error) {
	plan := Plan{
		Members:  n,
		Dropouts: int(math.Floor(dropouts * float64(n))),
	}
	plan.Colluders = int(math.Floor(colluders * float64(n)))
	survivors := n - plan.Dropouts
	plan.Minimum = max(smallestMinimum, plan.Colluders+smallestHonest)
	if n < smallestMinimum || survivors < plan.Minimum {
		return plan, fmt.Errorf("secagg: of %d members %d may leave and %d may collude, which leaves fewer than %d",
			n, plan.Dropouts, plan.Colluders, plan.Minimum)
	}
	if quorum := plan.Quorum(n); survivors < quorum {
		return plan, fmt.Errorf("secagg: of %d members %d may leave, and %d must sign the set of survivors",
			n, plan.Dropouts, quorum)
	}
	// More neighbours cost every member more work, so the smallest number that is enough is taken. A member
	// has as many neighbours on one side of the ring as on the other, so their number is even.
	complete := n - 1
	for k := 2; k < complete; k += 2 {
		plan.Neighbours = k
		if plan.chooseThreshold() {
			return plan, nil
		}
	}
	plan.Neighbours = complete
	if plan.chooseThreshold() {
		return plan, nil
	}
	return plan, fmt.Errorf("secagg: no threshold fits %d members of which %d collude and %d leave",
		n, plan.Colluders, plan.Dropouts)
}

// chooseThreshold sets the threshold for the plan's number of neighbours, and the probabilities of failure
// that follow. It takes the middle one of those that keep both promises, so that both have room. It returns
// false if no threshold keeps both.
func (p *Plan) chooseThreshold() bool {
	const none = 0
	lowest := none
	highest := none
	// These do not depend on the threshold.
	disconnected := p.disconnectedProbability()
	unsigned := p.unsignedProbability()
	if disconnected > maxPrivacyFailure || unsigned > maxRecoveryFailure {
		return false
	}
	for p.Threshold = 2; p.Threshold <= p.Neighbours; p.Threshold++ {
		p.PrivacyFails = p.privacyFailure(disconnected)
		p.RecoveryFails = p.recoveryFailure(unsigned)
		// A higher threshold only makes the recovery fail more often.
		if p.RecoveryFails > maxRecoveryFailure {
			break
		}
		// A threshold that is too low lets colluders collect enough shares.
		if p.PrivacyFails > maxPrivacyFailure {
			continue
		}
		if lowest == none {
			lowest = p.Threshold
		}
		highest = p.Threshold
	}
	if lowest == none {
		return false
	}
	p.Threshold = (lowest + highest + 1) / 2
	p.SetFailures()
	return true
}

// SetFailures sets PrivacyFails and RecoveryFails, which follow from the plan's other fields. It must be called
// after one of these was changed.
func (p *Plan) SetFailures() {
	p.PrivacyFails = p.privacyFailure(p.disconnectedProbability())
	p.RecoveryFails = p.recoveryFailure(p.unsignedProbability())
}

// privacyFailure returns PrivacyFails, a union bound over the members: the neighbours of a member are k
// members drawn without replacement, since the ring is a random permutation, and Threshold of them must
// not collude. disconnected is what disconnectedProbability returns.
func (p *Plan) privacyFailure(disconnected float64) float64 {
	n := p.Members
	captured := float64(n) * hypergeometricTail(n-1, p.Colluders, p.Neighbours, p.Threshold)
	return math.Min(1, captured+disconnected)
}

// recoveryFailure returns RecoveryFails, a union bound over the members: it bounds the probability that
// some member has fewer than Threshold neighbours that stay, or that nobody signs the set of survivors.
// unsigned is what unsignedProbability returns.
func (p *Plan) recoveryFailure(unsigned float64) float64 {
	n := p.Members
	// Recovery fails if this many of a member's neighbours leave.
	tooFew := p.Neighbours - p.Threshold + 1
	return math.Min(1, float64(n)*hypergeometricTail(n-1, p.Dropouts, p.Neighbours, tooFew)+unsigned)
}

// runLength returns the length of a run: the number of members in a row whose absence leaves no connection
// between the members on both sides of them, since neighbours are at most this many places apart.
func (t Terms) runLength() int { return (t.Neighbours + 1) / 2 }

// Cut returns the smallest number of survivors that any two runs of the ring of n members must have
// together, where a run is half of Neighbours members in a row. The ring falls apart if all members of two
// runs have left or collude, and then the sums of its parts could be seen. A coordinator that lies can
// choose who has left, but not who colludes. So members sign no set in which two runs have fewer survivors
// than Cut. Cut is so large that the probability that all of these survivors collude is at most half of
// maxPrivacyFailure. It is 0 where all members are neighbours, since such a graph cannot fall apart.
func (t Terms) Cut(n int) int {
	run := t.runLength()
	if 2*run >= n-1 {
		return 0
	}
	// failure bounds the probability that some two runs have at least this many colluders: it is the sum over all
	// pairs of runs.
	failure := func(colluders int) float64 {
		return t.runPairs(n) * hypergeometricTail(n, t.Colluders, 2*run, colluders)
	}
	// Two runs have 2·run members, so at most as many colluders: the search, from 1 on, ends there.
	return 1 + sort.Search(2*run, func(i int) bool { return failure(1+i) <= maxPrivacyFailure/2 })
}

// runPairs returns the number of pairs of runs without a member in common on a ring of n members.
func (t Terms) runPairs(n int) float64 { return float64(n) * float64(n-2*t.runLength()+1) / 2 }

// disconnectedProbability returns an upper bound of the probability that two disjoint runs, stretches of the ring of
// members, have together as many colluders as members demand survivors of two runs (see [Terms.Cut]). All these
// survivors could then collude, and a set that members sign could still fall apart. It is 0 if all members are
// neighbours.
func (p *Plan) disconnectedProbability() float64 {
	fewest := p.Cut(p.Members)
	if fewest == 0 {
		return 0
	}
	return p.runPairs(p.Members) * hypergeometricTail(p.Members, p.Colluders, 2*p.runLength(), fewest)
}

// unsignedProbability returns an upper bound of the probability that two disjoint runs, stretches of the ring of
// members, have together fewer survivors than members demand (see [Terms.Cut]), so that no member signs the set of
// survivors and the round fails. Dropouts of the Members leave, all sets of so many being equally likely. The bound
// is the sum over all pairs of runs.
func (p *Plan) unsignedProbability() float64 {
	fewest := p.Cut(p.Members)
	// Two runs have 2·run members. If this many of them leave, fewer than Cut remain.
	tooMany := 2*p.runLength() - fewest + 1
	switch {
	case fewest == 0:
		return 0
	case tooMany <= 0:
		return 1
	}
	return p.runPairs(p.Members) * hypergeometricTail(p.Members, p.Dropouts, 2*p.runLength(), tooMany)
}

// hypergeometricTail returns the probability that at least x of k members are marked, if the k are drawn
// without replacement from n members, of which marked ones are marked.
func hypergeometricTail(n, marked, k, x int) float64 {
	sum := 0.0
	for i := max(x, k-(n-marked), 0); i <= min(k, marked); i++ {
		log := logChoose(marked, i) + logChoose(n-marked, k-i) - logChoose(n, k)
		sum += portable.Exp(log)
	}
	return math.Min(1, sum)
}

// logChoose returns the natural logarithm of the binomial coefficient n over k, which itself may be
// too large for a float64.
func logChoose(n, k int) float64 {
	return portable.LogFactorial(n) - portable.LogFactorial(k) - portable.LogFactorial(n-k)
}
