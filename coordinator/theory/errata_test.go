package theory

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// errata has a test for each place where the paper prints something else than
// what holds: that the printed form fails, or how far it is off.
var errata = map[string]func(*testing.T){
	"Eq. 1":                 testMeanLoss,
	"Eq. 2":                 testCohortWeights,
	"below Eq. 4":           testDownload,
	"G":                     TestPrintedG_Fails,
	"Theorem 1, first term": testFirstTerm,
	"Theorem 1, 8 + 4/N":    testDriftFactors,
	"Theorem 1, p_c":        testEqualWeights,
	"Remark 1.2":            TestRemark12,
	"Eq. 8":                 testTimeAhead,
	"Eq. 9, 10":             testLostG,
	"Eq. 11, 12":            testLostK,
	"Remark 2.1.2":          TestAdvice_MoreClients,
	"Eq. 15":                testWindow,
	"Lemma 1":               testDrawWithoutReplacement,
	"Lemma 2, D":            testOneStepDoesNotDrift,
	"Lemma 2, A.2":          testStepsInsideTheSums,
	"Eq. 20 to 22":          testRateOnTheLeft,
	"A.2, last line":        testAverage,
	"A.2, variance":         testVarianceOfAllClients,
	"Eq. 23, 26":            testAverage,
	"Eq. 24, 25":            TestDerivatives,
	"Eq. 25, 28":            testSignOfTheGap,
	"A.4":                   testConvexInEta,
}

func TestErrata(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range Errata() {
		if e.Place == "" || e.Printed == "" || e.Holds == "" || e.Why == "" || listed[e.Place] {
			t.Errorf("incomplete or twice: %+v", e)
		}
		listed[e.Place] = true
		if test := errata[e.Place]; test == nil {
			t.Errorf("nothing tests %s", e.Place)
		} else {
			t.Run(e.Place, test)
		}
	}
	for place := range errata {
		if !listed[place] {
			t.Errorf("%s is tested and not told", place)
		}
	}
}

// With p_c as shares of the samples, the mean over all samples is Σ p_c times
// the clients' means. Their sums, as printed, grow with the samples.
func testMeanLoss(t *testing.T) {
	losses := [][]float64{{1, 2, 6}, {4}}
	all, mean, printed := 0.0, 0.0, 0.0
	for _, own := range losses {
		share, sum := float64(len(own))/4, 0.0
		for _, f := range own {
			sum += f
			all += f / 4
		}
		mean += share * sum / float64(len(own))
		printed += share * sum
	}
	near(t, "F", mean, all)
	near(t, "F as printed", printed, 0.75*9+0.25*4)
}

// Where nobody moves, the average is where all are; by p_c a cohort of 2 of 10
// goes to a fifth of the way from the origin.
func testCohortWeights(t *testing.T) {
	const clients, model = 10, 3.0
	cohort := []int{4, 7}
	mean, printed := 0.0, 0.0
	for range cohort {
		mean += model / float64(len(cohort))
		printed += model / clients
	}
	near(t, "Algorithm 1's mean", mean, model)
	near(t, "Eq. 2 as printed", printed, model/5)
}

// D = C would be a download at as many Mbit/s as there are clients: Sent140's
// 10,000 rounds would take 62.67 minutes, not the 65.33 of Table 4's time.
func testDownload(t *testing.T) {
	r := Runtime{Megabits: 0.32, DownloadMbps: 20, UploadMbps: 5, Step: 5.2e-3}
	near(t, "minutes", 10_000*r.Round(60)/60, 65.3333, 1e-6)
	r.DownloadMbps = 21876
	near(t, "minutes as printed", 10_000*r.Round(60)/60, 62.6691, 1e-6)
}

// The proof needs (L²/μ)‖x − x*‖², which Lemma 2 divides by ηT, to be at most
// the first term: 2κ²(F − F*) is at any point of a quadratic; 2κ(F − F*) is not
// along the eigenvector of μ, where it is κ times too small. A loss whose
// minimum is -5 has a statement that no gradient can keep to: it is below 0.
func testFirstTerm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConstants(t)
		square, above := 0.0, 0.0 // ‖x − x*‖², F − F*
		for i, share := range rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 5).Draw(t, "eigenvalues") {
			x := rapid.Float64Range(-3, 3).Draw(t, "x")
			if i == 0 {
				x += 10
			}
			square += x * x
			above += (c.Mu + share*(c.L-c.Mu)) * x * x / 2
		}
		c.Form = Shifted
		if needed := c.L * c.L / c.Mu * square; 2*c.Kappa()*c.Gap(c.FStar+above) < needed*(1-1e-9) {
			t.Errorf("2κ²(F − F*) is %v, the proof needs %v", 2*c.Kappa()*c.Gap(c.FStar+above), needed)
		}
		c.Form = Appendix
		flat := c.FStar + c.Mu*square/2
		near(t, "what the appendix lacks", c.L*c.L/c.Mu*square/(2*c.Kappa()*c.Gap(flat)), c.Kappa(), 1e-6)
	})
	c := Constants{L: 1, Mu: 0.5, FStar: -5, N: 1, Form: Statement}
	steps := []int{1, 1, 1}
	if b := c.Theorem1(-4.9, 0.1, steps).Total(); b >= 0 {
		t.Errorf("with F* = -5 the statement's bound is %v", b)
	}
	c.Form = Shifted
	near(t, "the proof's", c.Theorem1(-4.9, 0.1, steps).Total(), 2*4*0.1/(0.1*3))
}

// 8(K − 1)² + (C − N)/(C − 1)·(4/N)K² <= (8 + 4/N)K² <= 12K² <= 16K².
func testDriftFactors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, k := drawConstants(t), rapid.IntRange(1, 1000).Draw(t, "K")
		square := float64(k * k)
		chain := []float64{c.Lemma1(k) - c.Spread(), c.Drift() * square, 12 * c.G * c.G * square, c.PrintedDrift() * square}
		for i := range chain[1:] {
			if chain[i] > chain[i+1]+1e-9*(chain[i+1]+c.Spread()) {
				t.Errorf("not in order: %v", chain)
			}
		}
	})
	near(t, "8 + 4/N of 4", example.Drift(), 9*2.25)
	near(t, "16", example.PrintedDrift(), 16*2.25)
}

// Eq. 8 at W is Theorem 1 for the rounds that W seconds still hold, so W is
// ahead: with no time left it says nothing, and K* is beyond every limit.
func testTimeAhead(t *testing.T) {
	c, r := example, paperRuntime
	steps := []int{5, 5, 5}
	near(t, "three rounds ahead", c.AtTime(r, 1.5, 5, 0.1, 3*r.Round(5)), c.Theorem1(1.5, 0.1, steps).Total())
	if b, k := c.AtTime(r, 1.5, 5, 0.1, 0), c.OptimalK(r, 1.5, 0.1, 0); !math.IsInf(b, 1) || !math.IsInf(k, 1) {
		t.Errorf("at W = 0 the bound is %v, K* %v", b, k)
	}
	if late := c.OptimalK(r, 1.5, 0.1, 1e9); late >= 1 || c.Steps(r, 1.5, 0.1, 1e9, 80) != 1 {
		t.Errorf("K* is %v, %d steps", late, c.Steps(r, 1.5, 0.1, 1e9, 80))
	}
	if c.OptimalEta(r, 1.5, 5, 1e-9) <= c.MaxRate() || c.Rate(r, 1.5, 5, 1e-9) != c.MaxRate() {
		t.Error("early rates are not held to 1/(4L)")
	}
}

// Worked by hand, all of Eq. 9's factors but G² being 1: 8η²L(1 + 1/(2N)) = 9,
// gap · communication / W = 9. Then K*³ is 1/G².
func testLostG(t *testing.T) {
	c := Constants{L: 1, Mu: 1, G: 0.125, N: 4}
	r := Runtime{Megabits: 4, DownloadMbps: 20, UploadMbps: 5, Step: 7}
	near(t, "K*", c.OptimalK(r, 9, 1, 1), 4)
	near(t, "K* as printed", c.PrintedK(r, 9, 1, 1), 1)
	near(t, "K* by rounds", c.OptimalKRounds(9, 1, 1), 4)
	near(t, "K* by rounds as printed", c.PrintedKRounds(9, 1, 1), 1)
}

// Worked by hand: Z = 5 + 9·4 = 41 at K = 2; 2 gap · round / (L Z W) = 2·41·8 / (2·41·2) = 4.
func testLostK(t *testing.T) {
	c := Constants{L: 2, Mu: 2, Variance: 5, G: 1, N: 4}
	r := Runtime{Megabits: 4, DownloadMbps: 20, UploadMbps: 5, Step: 3.5}
	near(t, "eta*", c.OptimalEta(r, 41, 2, 2), math.Sqrt(2))
	near(t, "eta* as printed", c.PrintedEta(r, 41, 2, 2), 2)
	near(t, "eta* by rounds", c.OptimalEtaRounds(41, 2, 4), math.Sqrt(2*41/(2*41*4*2.0)))
	near(t, "eta* by rounds as printed", c.PrintedEtaRounds(41, 2, 4), math.Sqrt(2*41/(2*41*4.0)))
}

// The sum from r − s to r, divided by s, of a loss that stays as it is: more
// than the loss. Without its last term, which the round has yet to tell, it is
// the loss (schedule.Window has that one).
func testWindow(t *testing.T) {
	const s, r, loss = 100, 500, 0.7
	sum := func(to int) (f float64) {
		for i := r - s; i <= to; i++ {
			f += loss / s
		}
		return f
	}
	near(t, "r − s to r − 1", sum(r-1), loss)
	near(t, "as printed", sum(r), loss*(s+1)/s)
}

// The mean of N of C numbers, over all choices, differs from the mean of all by
// (C − N)/(C − 1)/N of their variance: Lemma 1's factor. The printed one is more
// than 1 below half of the clients, where A.1 uses that it is at most 1, and
// infinite for one client.
func testDrawWithoutReplacement(t *testing.T) {
	values := []float64{3, -1, 4, 1, -5, 9, 2}
	clients := len(values)
	mean, variance := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(clients)
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(clients)
	}
	for n := 1; n <= clients; n++ {
		square, choices := 0.0, 0.0
		for set := range uint(1) << clients {
			if bits.OnesCount(set) != n {
				continue
			}
			own := 0.0
			for i, v := range values {
				own += v * float64(set>>i&1) / float64(n)
			}
			square += (own - mean) * (own - mean)
			choices++
		}
		c := Constants{L: 1, Mu: 1, G: 1, N: n, Clients: clients}
		factor := c.Lemma1(1) * float64(n) / 4 // at K = 1 nothing else is in D
		near(t, "the variance of a cohort's mean", square/choices+1, factor*variance/float64(n)+1)
		if n == 1 {
			if !math.IsInf(c.PrintedLemma1(1), 1) {
				t.Errorf("as printed D is %v for one client", c.PrintedLemma1(1))
			}
		} else if printed := c.PrintedLemma1(1) * float64(n) / 4; 2*n < clients+1 && printed <= 1 {
			t.Errorf("as printed the factor is %v for %d of %d", printed, n, clients)
		}
	}
}

// After averaging, one step leaves nothing to drift in, two leave one. (K − 2)²
// has it the other way round.
func testOneStepDoesNotDrift(t *testing.T) {
	c := example
	c.N = c.Clients // no cohort is drawn
	near(t, "K = 1", c.Lemma1(1), c.Spread())
	near(t, "K = 2", c.Lemma1(2), c.Spread()+8*2.25)
}

// A round of 10 steps and one of a single step: each has its own K in the sum.
// Outside of it stands one K; with the last round's the drift would be lost. And
// t = I + k counts every iteration once where I ends before the round.
func testStepsInsideTheSums(t *testing.T) {
	c, steps := example, []int{10, 1}
	start := 2 * c.Kappa() * c.Gap(1.5) / (0.1 * 11)
	near(t, "Lemma 2", c.Lemma2(1.5, 0.1, steps), start+0.1*c.Kappa()*c.L*(10*c.Lemma1(10)+c.Lemma1(1))/11)
	near(t, "Theorem 1's drift", c.Theorem1(1.5, 0.1, steps).Drift, 0.1*c.Kappa()*c.L*c.Drift()*1001/11)
	if outside := 0.1 * c.Kappa() * c.L * c.Lemma1(1); c.Lemma2(1.5, 0.1, steps)-start < 50*outside {
		t.Errorf("with the last K outside of the sum D would be %v", outside)
	}
	next, before := 1, 0
	for _, k := range steps {
		for j := 1; j <= k; j++ {
			if before+j != next {
				t.Errorf("iteration %d is counted as %d", next, before+j)
			}
			next++
		}
		before += k
	}
}

// F = L x²/2 with L = μ = 0.1 by exact steps at η = 2 <= 1/(4L): Eq. 18 and 19
// hold with η, and with η² they do not.
func testRateOnTheLeft(t *testing.T) {
	const l, eta, x = 0.1, 2.0, 1.0
	after := x - eta*l*x
	left := l / (l * l) * (l * x) * (l * x)
	if right := x*x - after*after; eta*left > right || eta*eta*left <= right {
		t.Errorf("%v with η, %v with η², at most %v", eta*left, eta*eta*left, right)
	}
}

// F = x²/2 from 1 by exact steps: the average of the squared gradients is below
// the bound, and so the least of them; the one at the start is not.
func testAverage(t *testing.T) {
	const eta, iterations = 0.25, 100
	c := Constants{L: 1, Mu: 1, N: 1}
	x, average, least := 1.0, 0.0, math.Inf(1)
	for range iterations {
		average += x * x / iterations
		least = math.Min(least, x*x)
		x -= eta * x
	}
	steps := make([]int, iterations)
	for i := range steps {
		steps[i] = 1
	}
	bound := c.Theorem1(0.5, eta, steps).Total()
	near(t, "the bound", bound, 2*0.5/(eta*iterations))
	if !(least <= average && average <= bound && bound < 1) {
		t.Errorf("least %v, average %v, bound %v; at the start 1", least, average, bound)
	}
}

// Five clients whose gradients are off by ±σ_c: over all cases the mean of all
// has variance Σ p_c² σ_c² with every client in it.
func testVarianceOfAllClients(t *testing.T) {
	p, sigma := []float64{0.1, 0.3, 0.2, 0.25, 0.15}, []float64{1, 2, 0.5, 3, 1.5}
	square, want := 0.0, 0.0
	for set := range uint(1) << len(p) {
		off := 0.0
		for c := range p {
			off += p[c] * sigma[c] * (1 - 2*float64(set>>c&1))
		}
		square += off * off / 32
	}
	for c := range p {
		want += p[c] * p[c] * sigma[c] * sigma[c]
	}
	near(t, "the variance of x̄_t's step", square, want)
	if two := 0.01 + 0.36; square <= two {
		t.Errorf("over N = 2 it is %v, over all %v", two, square)
	}
}

// Where F is negative, F − F* > 0 is not enough: κF − F* is below 0, Eq. 8 is
// concave in K and in eta, and there is no optimum (here: 0).
func testSignOfTheGap(t *testing.T) {
	c := example // κ = 4
	c.FStar, c.Form, c.G = -2, Statement, 1e-3
	f := -1.0 // κF − F* = -2, F − F* = 1
	near(t, "κF − F*", c.Gap(f), -2)
	if c.CurvatureK(paperRuntime, f, 1, 0.1, 10) >= 0 || c.CurvatureEta(paperRuntime, f, 1, 0.1, 10) >= 0 {
		t.Error("Eq. 25 or 28 is positive where κF − F* is not")
	}
	if c.OptimalK(paperRuntime, f, 0.1, 10) != 0 || c.OptimalEta(paperRuntime, f, 1, 10) != 0 {
		t.Error("there is an optimum where the gap is negative")
	}
	c.Form = Shifted
	if c.CurvatureK(paperRuntime, f, 1, 0.1, 10) <= 0 || c.CurvatureEta(paperRuntime, f, 1, 0.1, 10) <= 0 {
		t.Error("with κ(F − F*) Eq. 25 or 28 is not positive")
	}
}

// Eq. 27 and 28 are the derivatives of Eq. 8 by eta. It is convex; its
// derivative, of which the paper says so, is concave.
func testConvexInEta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r := drawConstants(t), drawRuntime(t)
		p := drawPoint(t, c)
		p.eta = c.OptimalEta(r, p.f, p.k, p.w) * rapid.Float64Range(0.3, 0.9).Draw(t, "of the best")
		h := p.eta * 1e-4
		at := func(eta float64) float64 { return c.AtTime(r, p.f, p.k, eta, p.w) }
		slope := func(eta float64) float64 { return c.SlopeEta(r, p.f, p.k, eta, p.w) }
		near(t, "Eq. 27", slope(p.eta), (at(p.eta+h)-at(p.eta-h))/(2*h), 1e-5)
		near(t, "Eq. 28", c.CurvatureEta(r, p.f, p.k, p.eta, p.w), (slope(p.eta+h)-slope(p.eta-h))/(2*h), 1e-5)
		near(t, "Eq. 27 at eta*", 1+slope(c.OptimalEta(r, p.f, p.k, p.w))/math.Abs(slope(p.eta)), 1)
		if 2*at(p.eta) > at(p.eta/2)+at(p.eta*1.5) {
			t.Error("Eq. 8 is not convex in eta")
		}
		if 2*slope(p.eta) < slope(p.eta/2)+slope(p.eta*1.5) {
			t.Error("Eq. 27 is not concave")
		}
	})
}

// f(x) = (x ∓ 1)²/2 with p = 0.9 and 0.1. F* is F(0.8) = 0.18, which Γ is, too, and F(0) = 0.5; no
// client's gradient is above 1 from 0 on. The plain mean of one exact step of both does not leave 0.
func testEqualWeights(t *testing.T) {
	const eta, rounds = 0.001, 200_000
	x := 0.0
	for range rounds {
		x = ((x - eta*(x-1)) + (x - eta*(x+1))) / 2
	}
	gradient := 0.9*(x-1) + 0.1*(x+1)
	c := Constants{L: 1, Mu: 1, Gamma: 0.18, FStar: 0.18, N: 2, Clients: 2, G: 1}
	bound := c.Theorem1(0.5, eta, slices.Repeat([]int{1}, rounds)).Total()
	if got, want := fmt.Sprintf("%.2f > %.4f", gradient*gradient, bound), "0.64 > 0.0143"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
