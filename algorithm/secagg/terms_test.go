package secagg

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestChoose_HoldsBounds(t *testing.T) {
	for _, c := range []struct {
		n                   int
		colluders, dropouts float64
	}{
		{8, 0.1, 0.3},
		{20, 0.1, 0.1},
		{100, 0.1, 0.1},
		{1000, 0.1, 0.2},
		{10_000, 0.05, 0.05},
		{10_000, 0.2, 0.2},
	} {
		p, err := Choose(c.n, c.colluders, c.dropouts)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if p.PrivacyFails > maxPrivacyFailure || p.RecoveryFails > maxRecoveryFailure {
			t.Errorf("%+v: %+v", c, p)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		t.Logf("n %d colluders %g dropouts %g: k %d, t %d, 2^%.1f, 2^%.1f", c.n, c.colluders, c.dropouts,
			p.Neighbours, p.Threshold, math.Log2(p.PrivacyFails), math.Log2(p.RecoveryFails))
	}
}

// Of a sum whose members are all colluders but one, these know that one's update.
func TestTerms_HideOneHonestMember(t *testing.T) {
	terms := Terms{Neighbours: 6, Threshold: 4, Colluders: 2, Minimum: 4}
	if err := terms.Validate(); err != nil {
		t.Errorf("two honest members: %v", err)
	}
	terms.Colluders = 3
	if err := terms.Validate(); err == nil || !strings.Contains(err.Error(), "at least 2 survivors more") {
		t.Errorf("one honest member: %v", err)
	}
}

func TestChoose_RefusesImpossible(t *testing.T) {
	for _, c := range []struct {
		n                   int
		colluders, dropouts float64
	}{{2, 0, 0}, {10, 0.5, 0.4}, {10, 0, 0.9}, {100, 0.3, 0.4}} {
		if p, err := Choose(c.n, c.colluders, c.dropouts); err == nil {
			t.Errorf("%+v gives %+v", c, p)
		}
	}
}

// TestPlan_SimulatedBounds plays rings so small that promises fail often, and compares how often with the
// bounds.
func TestPlan_SimulatedBounds(t *testing.T) {
	for _, c := range []struct {
		name                 string
		colluders, dropouts  int
		neighbours, atLeast  int
		privacyOver, recOver float64
	}{
		// Members are captured, and the runs cannot be all colluders.
		{"captured", 4, 4, 8, 4, 4, 30},
		// Members have too few neighbours that stay.
		{"short", 1, 10, 8, 4, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Plan{Members: 40, Dropouts: c.dropouts}
			p.Terms = Terms{
				Neighbours: c.neighbours,
				Threshold:  c.atLeast,
				Colluders:  c.colluders,
				Minimum:    6,
			}
			p.SetFailures()
			const rounds = 5000
			random := rand.New(rand.NewPCG(1, 2))
			captured := 0
			short := 0
			cut := p.Cut(p.Members)
			for range rounds {
				leaks, lacks := p.simulate(random.Perm(p.Members), cut)
				if leaks {
					captured++
				}
				if lacks {
					short++
				}
			}
			privacy := float64(captured) / rounds
			recovery := float64(short) / rounds
			t.Logf("privacy fails in %.4f of rounds, bound %.4f; recovery in %.4f, bound %.4f",
				privacy, p.PrivacyFails, recovery, p.RecoveryFails)
			// A union bound is close where members hardly ever fail together. A few that leave side by side are
			// in many pairs of runs.
			for _, x := range []struct {
				name            string
				observed, bound float64
				slack           float64
			}{{"privacy", privacy, p.PrivacyFails, c.privacyOver}, {"recovery", recovery, p.RecoveryFails, c.recOver}} {
				deviation := math.Sqrt(x.observed / rounds)
				tooLoose := x.slack > 0 && x.observed < x.bound/x.slack
				if x.observed > x.bound+4*deviation || tooLoose {
					t.Errorf("%s fails in %.5f of the rounds, the bound is %.5f", x.name, x.observed, x.bound)
				}
			}
		})
	}
}

// simulate tells what fails where the first members collude and those behind them leave: whether a
// member has Threshold colluding neighbours or two runs have as many colluders as they must have survivors,
// and whether a member has too few neighbours that stay or two runs too few survivors, which is fewer than
// cut.
func (p *Plan) simulate(ring []int, cut int) (leaks, lacks bool) {
	n := p.Members
	half := p.Neighbours / 2
	colludes := func(member int) bool { return member < p.Colluders }
	leaves := func(member int) bool { return member >= p.Colluders && member < p.Colluders+p.Dropouts }
	count := func(first int, is func(member int) bool) (c int) {
		for d := range half {
			if is(ring[(first+d)%n]) {
				c++
			}
		}
		return c
	}
	colluding := make([]int, n)
	gone := make([]int, n)
	for a := range n {
		colluding[a] = count(a, colludes)
		gone[a] = count(a, leaves)
	}
	for a := range n {
		for b := a + half; b < n && b+half-n <= a; b++ {
			leaks = leaks || colluding[a]+colluding[b] >= cut
			lacks = lacks || 2*half-gone[a]-gone[b] < cut
		}
	}
	for place := range n {
		colluding := 0
		staying := 0
		for d := 1; d <= half; d++ {
			for _, member := range []int{ring[(place+d)%n], ring[(place-d+n)%n]} {
				if colludes(member) {
					colluding++
				}
				if !leaves(member) {
					staying++
				}
			}
		}
		leaks = leaks || colluding >= p.Threshold && !colludes(ring[place])
		lacks = lacks || staying < p.Threshold
	}
	return leaks, lacks
}

// The fewest survivors of two runs are those of all pairs.
func TestFewestInRuns_AllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		n := 4 + random.IntN(30)
		run := 1 + random.IntN(n/2)
		r := Roster{ring: random.Perm(n)}
		survives := make([]bool, n)
		for i := range survives {
			survives[i] = random.IntN(3) > 0
		}
		inRun := func(first int) (c int) {
			for d := range run {
				if survives[r.ring[(first+d)%n]] {
					c++
				}
			}
			return c
		}
		want := 2 * run
		for a := range n {
			for b := a + run; b < n && b+run-n <= a; b++ {
				want = min(want, inRun(a)+inRun(b))
			}
		}
		if got := fewestSurvivorsInRuns(r.inRingOrder(survives), run); got != want {
			t.Fatalf("%d members, runs of %d: %d, want %d", n, run, got, want)
		}
	}
}

func TestUpperTail_SmallCases(t *testing.T) {
	// Of 10 with 4 marked, 3 drawn: P(X >= 2) = (6·6 + 4·1)/120 = 1/3.
	if got := hypergeometricTail(10, 4, 3, 2); math.Abs(got-1.0/3) > 1e-12 {
		t.Errorf("%v, want 1/3", got)
	}
	if got := hypergeometricTail(9, 2, 9, 2); math.Abs(got-1) > 1e-12 {
		t.Errorf("all drawn: %v, want 1", got)
	}
	if got := hypergeometricTail(9, 2, 9, 3); got != 0 {
		t.Errorf("three of two marked: %v, want 0", got)
	}
}

func TestShift(t *testing.T) {
	for total, want := range map[uint64]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 1 << 40: 40, 1<<40 + 1: 41} {
		if got := Shift(total); got != want {
			t.Errorf("Shift(%d) = %d, want %d", total, got, want)
		}
	}
}

func TestQuorum_NoTwoSets(t *testing.T) {
	for n := 3; n < 60; n++ {
		for colluders := range n - 1 {
			q := Terms{Colluders: colluders}.Quorum(n)
			if 2*q-n <= colluders {
				t.Fatalf("n %d, %d colluders: two sets of %d signers share no honest one for sure", n, colluders, q)
			}
		}
	}
}
