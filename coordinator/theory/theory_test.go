package theory

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// near fails the test unless got equals want to a relative 1e-9, or to the given tolerance.
func near(t interface{ Errorf(string, ...any) }, what string, got, want float64, within ...float64) {
	tolerance := 1e-9
	if len(within) > 0 {
		tolerance = within[0]
	}
	if math.IsNaN(got) || math.Abs(got-want) > tolerance*math.Max(math.Abs(want), 1e-300) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// example has constants that a person can calculate with.
var example = Constants{L: 2, Mu: 0.5, Variance: 3, Gamma: 0.25, G: 1.5, FStar: 0.5, N: 4, Clients: 10}

// paperRuntime is FEMNIST's (Tables 1 and 2).
var paperRuntime = Runtime{Megabits: 6.71, DownloadMbps: 20, UploadMbps: 5, Step: 0.017}

// The runtime model gives the times of K-eta-fixed that the notes on the paper
// check: 65.33, 506.25, 4250 and 20217.08 minutes for 10,000 rounds.
func TestRuntime_Paper(t *testing.T) {
	for _, test := range []struct {
		task                   string
		megabits, step         float64
		k0                     int
		communication, minutes float64
	}{
		{"sent140", 0.32, 5.2e-3, 60, 0.08, 65.3333},
		{"femnist", 6.71, 0.017, 80, 1.6775, 506.25},
		{"cifar100", 40, 0.31, 50, 10, 4250},
		{"shakespeare", 5.21, 1.5, 80, 1.3025, 20217.0833},
	} {
		r := Runtime{Megabits: test.megabits, DownloadMbps: 20, UploadMbps: 5, Step: test.step}
		near(t, test.task+": communication", r.Communication(), test.communication)
		steps := make([]int, 10000)
		for i := range steps {
			steps[i] = test.k0
		}
		near(t, test.task+": Eq. 5", r.Total(steps)/60, test.minutes, 1e-6)
		iterations := 10000 * float64(test.k0)
		near(t, test.task+": Eq. 7", r.Runtime(iterations, float64(test.k0))/60, test.minutes, 1e-6)
		near(t, test.task+": Eq. 7 for T", r.Iterations(60*test.minutes, float64(test.k0)), iterations, 1e-6)
	}
}

// Worked by hand: κ = 4, 8 + 4/N = 9, G² = 2.25, σ² + 6LΓ = 6; K = 2, 1; η = 0.1.
func TestTheorem1_Worked(t *testing.T) {
	b := example.Theorem1(1.5, 0.1, []int{2, 1})
	near(t, "start", b.Start, 2*4*(4*1.0)/(0.1*3))
	near(t, "noise", b.Noise, 0.1*4*2*3)
	near(t, "gamma", b.Gamma, 0.1*4*2*6*2*0.25)
	near(t, "drift", b.Drift, 0.1*4*2*9*2.25*9/3) // Σ K³ / Σ K = 9/3
	near(t, "total", b.Total(), b.Start+b.Noise+b.Gamma+b.Drift)
	near(t, "Z", example.Z(2), 6+9*2.25*4)
	near(t, "1/(4L)", example.MaxRate(), 0.125)
	// D of K = 2: 6 + 8·1·2.25 + (6/9)·1·4·2.25; of K = 1: 6 + (6/9)·1·1·2.25.
	near(t, "Lemma 1, K = 2", example.Lemma1(2), 6+18+6)
	near(t, "Lemma 1, K = 1", example.Lemma1(1), 6+1.5)
	near(t, "Lemma 2", example.Lemma2(1.5, 0.1, []int{2, 1}), b.Start+0.1*4*2*(2*30+7.5)/3)
	near(t, "Lemma 1 as printed, K = 1", example.PrintedLemma1(1), 6+2*2.25) // (C − N)/(N − 1) = 2
}

// The three forms of the first term. Adding a constant to F changes only the
// statement's; with F* = 0 the first two agree.
func TestForms(t *testing.T) {
	c := example
	for _, test := range []struct {
		form Form
		want float64
	}{{Shifted, 4}, {Statement, 5.5}, {Appendix, 1}} {
		c.Form = test.form
		near(t, test.form.String(), c.Gap(1.5), test.want)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawConstants(t)
		f, by := c.FStar+rapid.Float64Range(0, 10).Draw(t, "above"), rapid.Float64Range(0, 10).Draw(t, "by")
		moved := c
		moved.FStar += by
		near(t, "the shifted gap", moved.Gap(f+by)+1, c.Gap(f)+1, 1e-6)
		printed := c
		printed.Form, c.Form = Statement, Shifted
		// κF − F* − κ(F − F*) = (κ − 1) F*, so the statement is weaker where F* >= 0.
		if printed.Gap(f)+1e-9*math.Abs(printed.Gap(f)) < c.Gap(f) {
			t.Errorf("the statement's gap %v is below the shifted %v with F* = %v", printed.Gap(f), c.Gap(f), c.FStar)
		}
	})
}

// drawConstants draws valid constants.
func drawConstants(t *rapid.T) Constants {
	positive := func(name string, low, high float64) float64 { return rapid.Float64Range(low, high).Draw(t, name) }
	n := rapid.IntRange(1, 100).Draw(t, "N")
	c := Constants{
		L: positive("L", 0.1, 100), Variance: positive("variance", 0, 10), Gamma: positive("gamma", 0, 5),
		G: positive("G", 0.1, 20), FStar: positive("F*", 0, 3), N: n, Clients: n + rapid.IntRange(0, 1000).Draw(t, "more"),
	}
	c.Mu = c.L * positive("1/kappa", 0.001, 1)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// drawRuntime draws the times of a task.
func drawRuntime(t *rapid.T) Runtime {
	f := rapid.Float64Range(0.01, 100)
	return Runtime{Megabits: f.Draw(t, "megabits"), DownloadMbps: f.Draw(t, "D"), UploadMbps: f.Draw(t, "U"), Step: f.Draw(t, "beta")}
}

// point is where Eq. 8 is looked at.
type point struct{ f, k, eta, w float64 }

// drawPoint draws a point at which Eq. 8 is looked at.
func drawPoint(t *rapid.T, c Constants) point {
	f := func(name string, low, high float64) float64 { return rapid.Float64Range(low, high).Draw(t, name) }
	return point{f: c.FStar + f("above", 0.01, 10), k: f("K", 1, 1000), eta: c.MaxRate() * f("of 1/(4L)", 0.01, 1), w: f("W", 1, 1e6)}
}

// golden finds where a function with one minimum in [low, high] has it, by
// golden sections.
func golden(f func(float64) float64, low, high float64) float64 {
	const ratio = 0.6180339887498949
	a, b := high-ratio*(high-low), low+ratio*(high-low)
	fa, fb := f(a), f(b)
	for range 200 {
		if fa < fb {
			high, b, fb = b, a, fa
			a = high - ratio*(high-low)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			b = low + ratio*(high-low)
			fb = f(b)
		}
	}
	return (low + high) / 2
}

// Theorem 2 and Corollary 2.1 are where Eq. 8 is least; as printed they are not.
func TestOptima_Equation8(t *testing.T) {
	for _, form := range []Form{Shifted, Statement, Appendix} {
		t.Run(form.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c, r := drawConstants(t), drawRuntime(t)
				c.Form = form
				p := drawPoint(t, c)
				k := c.OptimalK(r, p.f, p.eta, p.w)
				found := math.Exp(golden(func(x float64) float64 { return c.AtTime(r, p.f, math.Exp(x), p.eta, p.w) }, math.Log(k)-3, math.Log(k)+3))
				near(t, "K*", k, found, 1e-4)
				eta := c.OptimalEta(r, p.f, p.k, p.w)
				found = math.Exp(golden(func(x float64) float64 { return c.AtTime(r, p.f, p.k, math.Exp(x), p.w) }, math.Log(eta)-3, math.Log(eta)+3))
				near(t, "eta*", eta, found, 1e-4)
				// How far the printed forms are off.
				near(t, "K* printed", c.PrintedK(r, p.f, p.eta, p.w), k*math.Cbrt(c.G*c.G))
				near(t, "eta* printed", c.PrintedEta(r, p.f, p.k, p.w), eta*math.Sqrt(p.k))
			})
		})
	}
}

// Steps is the best whole number, by looking at all of them.
func TestSteps_BestWholeNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r := drawConstants(t), drawRuntime(t)
		p := drawPoint(t, c)
		most := rapid.IntRange(1, 60).Draw(t, "most")
		best, at := math.Inf(1), 0
		for k := 1; k <= most; k++ {
			if v := c.AtTime(r, p.f, float64(k), p.eta, p.w); v < best {
				best, at = v, k
			}
		}
		got := c.Steps(r, p.f, p.eta, p.w, most)
		if got != at && c.AtTime(r, p.f, float64(got), p.eta, p.w) > best*(1+1e-12) {
			t.Errorf("K = %d, the best is %d", got, at)
		}
		if got < 1 || got > most {
			t.Errorf("K = %d of 1 to %d", got, most)
		}
	})
}

// The derivatives of Eq. 8 by K are those that differences give. The printed
// Eq. 24 and 25 are off by exactly the βK that has cancelled.
func TestDerivatives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r := drawConstants(t), drawRuntime(t)
		p := drawPoint(t, c)
		p.k = rapid.Float64Range(1, 50).Draw(t, "K")
		h := p.k * 1e-4
		at := func(k float64) float64 { return c.AtTime(r, p.f, k, p.eta, p.w) }
		scale := at(p.k)/p.k + c.CurvatureK(r, p.f, p.k, p.eta, p.w)*p.k
		near(t, "slope", c.SlopeK(r, p.f, p.k, p.eta, p.w)+scale, (at(p.k+h)-at(p.k-h))/(2*h)+scale, 1e-5)
		scale /= p.k
		slope := func(k float64) float64 { return c.SlopeK(r, p.f, k, p.eta, p.w) }
		near(t, "curvature", c.CurvatureK(r, p.f, p.k, p.eta, p.w)+scale, (slope(p.k+h)-slope(p.k-h))/(2*h)+scale, 1e-5)
		if c.CurvatureK(r, p.f, p.k, p.eta, p.w) <= 0 {
			t.Errorf("Eq. 8 is not convex in K")
		}
		off := c.SlopeK(r, p.f, p.k, p.eta, p.w) - c.PrintedSlopeK(r, p.f, p.k, p.eta, p.w)
		want := 2 * c.Kappa() * c.Gap(p.f) * r.Step / (p.eta * p.w * p.k)
		near(t, "what Eq. 24 is off", off+scale, want+scale, 1e-6)
		off = c.PrintedCurvatureK(r, p.f, p.k, p.eta, p.w) - c.CurvatureK(r, p.f, p.k, p.eta, p.w)
		near(t, "what Eq. 25 is off", off+scale, 2*want/p.k+scale, 1e-6)
	})
}

// units scales loss, length and time, as another choice of units would.
type units struct{ loss, length, time float64 }

// drawUnits draws other units.
func drawUnits(t *rapid.T) units {
	f := rapid.Float64Range(0.1, 10)
	return units{f.Draw(t, "loss"), f.Draw(t, "length"), f.Draw(t, "time")}
}

// constants returns constants c in these units.
func (u units) constants(c Constants) Constants {
	c.L *= u.loss / (u.length * u.length)
	c.Mu *= u.loss / (u.length * u.length)
	c.Variance *= u.loss * u.loss / (u.length * u.length)
	c.Gamma *= u.loss
	c.G *= u.loss / u.length
	c.FStar *= u.loss
	return c
}

// runtime returns the times of r in these units.
func (u units) runtime(r Runtime) Runtime {
	r.DownloadMbps /= u.time
	r.UploadMbps /= u.time
	r.Step *= u.time
	return r
}

// In other units every formula gives the same quantity. The printed forms of
// K* do not: without G² it would be a number of losses per length.
func TestUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r, u := drawConstants(t), drawRuntime(t), drawUnits(t)
		p := drawPoint(t, c)
		rate := u.length * u.length / u.loss
		square := u.loss * u.loss / (u.length * u.length)
		d, s := u.constants(c), u.runtime(r)
		q := point{f: p.f * u.loss, k: p.k, eta: p.eta * rate, w: p.w * u.time}
		steps := rapid.SliceOfN(rapid.IntRange(1, 100), 1, 5).Draw(t, "steps")

		near(t, "Eq. 5", s.Total(steps), r.Total(steps)*u.time)
		near(t, "Theorem 1", d.Theorem1(q.f, q.eta, steps).Total(), c.Theorem1(p.f, p.eta, steps).Total()*square)
		near(t, "Lemma 2", d.Lemma2(q.f, q.eta, steps), c.Lemma2(p.f, p.eta, steps)*square)
		near(t, "Eq. 8", d.AtTime(s, q.f, q.k, q.eta, q.w), c.AtTime(r, p.f, p.k, p.eta, p.w)*square)
		near(t, "Eq. 9", d.OptimalK(s, q.f, q.eta, q.w), c.OptimalK(r, p.f, p.eta, p.w))
		near(t, "Eq. 10", d.OptimalKRounds(q.f, q.eta, 7), c.OptimalKRounds(p.f, p.eta, 7))
		near(t, "Eq. 11", d.OptimalEta(s, q.f, q.k, q.w), c.OptimalEta(r, p.f, p.k, p.w)*rate)
		near(t, "Eq. 12", d.OptimalEtaRounds(q.f, q.k, 7), c.OptimalEtaRounds(p.f, p.k, 7)*rate)

		near(t, "printed Eq. 9", d.PrintedK(s, q.f, q.eta, q.w), c.PrintedK(r, p.f, p.eta, p.w)*math.Cbrt(square))
		near(t, "printed Eq. 10", d.PrintedKRounds(q.f, q.eta, 7), c.PrintedKRounds(p.f, p.eta, 7)*math.Cbrt(square))
		// Eq. 11 and 12 lack a number, which has no unit to miss.
		near(t, "printed Eq. 11", d.PrintedEta(s, q.f, q.k, q.w), c.PrintedEta(r, p.f, p.k, p.w)*rate)
		near(t, "printed Eq. 12", d.PrintedEtaRounds(q.f, q.k, 7), c.PrintedEtaRounds(p.f, p.k, 7)*rate)
	})
}

// Eq. 8 is Theorem 1 with a fixed K and T from Eq. 7, at whole rounds; and
// Theorem 1 with decaying rates is Theorem 1 where they do not decay. Lemma 2,
// from which it comes, is never above it.
func TestBounds_Agree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r := drawConstants(t), drawRuntime(t)
		p := drawPoint(t, c)
		rounds, k := rapid.IntRange(1, 200).Draw(t, "R"), rapid.IntRange(1, 100).Draw(t, "K")
		steps := make([]int, rounds)
		for i := range steps {
			steps[i] = k
		}
		want := c.Theorem1(p.f, p.eta, steps).Total()
		near(t, "Eq. 8", c.AtTime(r, p.f, float64(k), p.eta, r.Total(steps)), want)
		mixed := rapid.SliceOfN(rapid.IntRange(1, 100), 1, 20).Draw(t, "mixed")
		if got, most := c.Lemma2(p.f, p.eta, mixed), c.Theorem1(p.f, p.eta, mixed).Total(); got > most*(1+1e-12) {
			t.Errorf("Lemma 2 is %v, Theorem 1 %v", got, most)
		}
		// Two rounds at two rates are the mean of one each, weighted by eta K.
		rates := []float64{p.eta, p.eta * rapid.Float64Range(0.1, 1).Draw(t, "decay")}
		two := mixed[:1:1]
		two = append(two, k)
		way := rates[0]*float64(two[0]) + rates[1]*float64(two[1])
		agree := func(name string, f func(rates []float64, steps []int) float64) {
			each := 0.0 // with the start in both of them
			for i := range two {
				each += f(rates[i:i+1], two[i:i+1]) * rates[i] * float64(two[i])
			}
			// Not their difference, which drift can be a billion times as large as.
			near(t, name, f(rates, two)*way+2*c.Kappa()*c.Gap(p.f), each)
		}
		agree("Theorem 1 at two rates", func(r []float64, s []int) float64 { return c.Theorem1Rates(p.f, r, s).Total() })
		agree("Lemma 2 at two rates", func(r []float64, s []int) float64 { return c.Lemma2Rates(p.f, r, s) })
	})
}

// Theorem 2 and Remark 2.1: K* goes down as W^(-1/3); Corollary 2.1: eta* as
// W^(-1/2). A falling loss makes them fall faster, never slower.
func TestExponents_InTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r := drawConstants(t), drawRuntime(t)
		p := drawPoint(t, c)
		near(t, "K* after eight times the time", c.OptimalK(r, p.f, p.eta, 8*p.w), c.OptimalK(r, p.f, p.eta, p.w)/2)
		near(t, "eta* after four times the time", c.OptimalEta(r, p.f, p.k, 4*p.w), c.OptimalEta(r, p.f, p.k, p.w)/2)
		lower := c.FStar + (p.f-c.FStar)*rapid.Float64Range(0, 1).Draw(t, "share left")
		if c.OptimalK(r, lower, p.eta, 8*p.w) > c.OptimalK(r, p.f, p.eta, p.w)/2*(1+1e-9) {
			t.Error("K* falls slower where the loss falls")
		}
		// Table 3's K_r-rounds and Eq. 13: what is left when two rounds are divided.
		near(t, "K_r-rounds", c.OptimalKRounds(p.f, p.eta, 27)/c.OptimalKRounds(p.f, p.eta, 1), 1.0/3)
		c.Form, c.FStar = Statement, 0
		near(t, "K_r-error", c.OptimalK(r, p.f/8, p.eta, p.w)/c.OptimalK(r, p.f, p.eta, p.w), 0.5)
		near(t, "eta_r-error", c.OptimalEta(r, p.f/4, p.k, p.w)/c.OptimalEta(r, p.f, p.k, p.w), 0.5)
	})
}

// Remark 2.1's PASGD has a divergence that grows with K where FedAvg's grows
// with K²: the K that is best then falls as W^(-1/2).
func TestRemark21(t *testing.T) {
	c, r := example, paperRuntime
	best := func(power, w float64) float64 {
		return math.Exp(golden(func(x float64) float64 {
			k := math.Exp(x)
			return c.AtTime(r, 1.5, k, 0.1, w) + 0.1*c.Kappa()*c.L*c.Drift()*(math.Pow(k, power)-k*k)
		}, -15, 15))
	}
	near(t, "with K²", math.Log(best(2, 1e3)/best(2, 1e6))/math.Log(1e3), 1.0/3, 1e-4)
	near(t, "with K", math.Log(best(1, 1e3)/best(1, 1e6))/math.Log(1e3), 1.0/2, 1e-4)
}

// Remark 2.2: more clients a round, larger K*. Remark 2.1.2 says the contrary
// of eta*, with the wrong sign: N lowers Z, which stands in the denominator.
func TestAdvice_MoreClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r := drawConstants(t), drawRuntime(t)
		p := drawPoint(t, c)
		more := c
		more.N += rapid.IntRange(1, 100).Draw(t, "more a round")
		more.Clients += more.N
		if more.OptimalK(r, p.f, p.eta, p.w) <= c.OptimalK(r, p.f, p.eta, p.w) {
			t.Error("Remark 2.2: K* does not grow with N")
		}
		if more.OptimalEta(r, p.f, p.k, p.w) <= c.OptimalEta(r, p.f, p.k, p.w) {
			t.Error("Remark 2.1.2 with its sign put right: eta* does not grow with N")
		}
		// Its second half holds: a larger K has a smaller eta*.
		if c.OptimalEta(r, p.f, 2*p.k, p.w) >= c.OptimalEta(r, p.f, p.k, p.w) {
			t.Error("Remark 2.1.2: eta* does not fall with K")
		}
	})
	// The limits: N from 1 to very many changes K* by 1.5^(1/3) and no more.
	one, many := example, example
	one.N, many.N, many.Clients = 1, 1e9, 2e9
	near(t, "K* of many over K* of one", many.OptimalK(paperRuntime, 1, 0.1, 10)/one.OptimalK(paperRuntime, 1, 0.1, 10), math.Cbrt(1.5), 1e-6)
}

// Remark 2.1.1: whatever lengthens a round raises eta*. K* grows with
// communication alone: computing has cancelled (Remark 2.3).
func TestAdvice_LongerRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, r := drawConstants(t), drawRuntime(t)
		p := drawPoint(t, c)
		eta := c.OptimalEta(r, p.f, p.k, p.w)
		for what, slower := range map[string]Runtime{
			"download": {r.Megabits, r.DownloadMbps / 2, r.UploadMbps, r.Step},
			"upload":   {r.Megabits, r.DownloadMbps, r.UploadMbps / 2, r.Step},
			"compute":  {r.Megabits, r.DownloadMbps, r.UploadMbps, r.Step * 2},
		} {
			if c.OptimalEta(slower, p.f, p.k, p.w) <= eta {
				t.Errorf("Remark 2.1.1: eta* does not grow with a slower %s", what)
			}
		}
		faster := r
		faster.Step = 0
		near(t, "K* without computing", c.OptimalK(faster, p.f, p.eta, p.w), c.OptimalK(r, p.f, p.eta, p.w))
		// Remark 2.3: then W = R (|x|/D + |x|/U), and Eq. 10 and 12 are 9 and 11.
		near(t, "Eq. 10", c.OptimalKRounds(p.f, p.eta, 50), c.OptimalK(faster, p.f, p.eta, 50*faster.Communication()))
		near(t, "Eq. 12", c.OptimalEtaRounds(p.f, p.k, 50), c.OptimalEta(faster, p.f, p.k, 50*faster.Communication()))
	})
}

// Remark 1.2 says that in rounds a larger K shrinks the variance's share. What
// K divides in R rounds is the first term alone. Its second half holds: more
// clients a round lower the drift, the more so the larger K is.
func TestRemark12(t *testing.T) {
	c := example
	rounds := func(k int) Bound {
		steps := make([]int, 100)
		for i := range steps {
			steps[i] = k
		}
		return c.Theorem1(1.5, 0.1, steps)
	}
	one, ten := rounds(1), rounds(10)
	near(t, "the first term", ten.Start, one.Start/10)
	near(t, "the noise", ten.Noise, one.Noise)
	near(t, "the drift (Remark 1.3)", ten.Drift, one.Drift*100)
	c.N, c.Clients = 10*c.N, 10*c.Clients
	saved := one.Total() - rounds(1).Total()
	near(t, "what ten times the clients save at K = 1", saved, 0.1*c.Kappa()*c.L*2.25*0.9) // (4/4 − 4/40) G²
	near(t, "at K = 10", ten.Total()-rounds(10).Total(), 100*saved)
}

// Remark 1.1: at a fixed rate the bound goes to a floor of order eta as T grows,
// and decaying K lowers that floor.
func TestRemark11(t *testing.T) {
	c := example
	floor := func(eta float64) float64 { return eta * c.Kappa() * c.L * c.Z(5) }
	steps := make([]int, 200_000)
	for i := range steps {
		steps[i] = 5
	}
	near(t, "the floor", c.Theorem1(1.5, 0.1, steps).Total(), floor(0.1), 1e-3)
	near(t, "half the rate", c.Theorem1(1.5, 0.05, steps).Total(), floor(0.05), 1e-3)
	for i := range steps {
		steps[i] = max(1, int(math.Ceil(5/math.Cbrt(float64(i+1)))))
	}
	if got := c.Theorem1(1.5, 0.1, steps).Total(); got > floor(0.1)/3 {
		t.Errorf("with decaying K the bound is %v, with a fixed one %v", got, floor(0.1))
	}
}

// What W = 0, a gap that is not positive, and rates beyond 1/(4L) come to.
func TestEdges(t *testing.T) {
	if k := example.OptimalK(paperRuntime, 1.5, 0.1, 0); !math.IsInf(k, 1) {
		t.Errorf("K* at W = 0 is %v", k)
	}
	if k := example.Steps(paperRuntime, 1.5, 0.1, 0, 80); k != 80 {
		t.Errorf("K at W = 0 is %d, want the most", k)
	}
	if k := example.Steps(paperRuntime, example.FStar, 0.1, 10, 80); k != 1 {
		t.Errorf("K at the optimum is %d", k)
	}
	if eta := example.OptimalEta(paperRuntime, example.FStar-1, 5, 10); eta != 0 {
		t.Errorf("eta* below the optimum is %v", eta)
	}
	if eta := example.Rate(paperRuntime, 1.5, 5, 1e-9); eta != example.MaxRate() {
		t.Errorf("the rate at first is %v, want 1/(4L)", eta)
	}
}

func TestMistakes_Refused(t *testing.T) {
	for name, change := range map[string]func(*Constants){
		"L":        func(c *Constants) { c.L = 0 },
		"mu":       func(c *Constants) { c.Mu = 3 },
		"variance": func(c *Constants) { c.Variance = -1 },
		"Gamma":    func(c *Constants) { c.Gamma = math.NaN() },
		"G":        func(c *Constants) { c.G = math.Inf(1) },
		"F*":       func(c *Constants) { c.FStar = math.NaN() },
		"N":        func(c *Constants) { c.N = 0 },
		"C":        func(c *Constants) { c.Clients = 3 },
		"form":     func(c *Constants) { c.Form = 9 },
	} {
		c := example
		if change(&c); c.Validate() == nil {
			t.Errorf("a wrong %s is taken", name)
		}
	}
	if err := example.Validate(); err != nil {
		t.Error(err)
	}
	for i, r := range []Runtime{{0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, -1, 1}, {1, 1, 1, math.NaN()}} {
		if r.Validate() == nil {
			t.Errorf("runtime %d is taken", i)
		}
	}
	if err := paperRuntime.Validate(); err != nil {
		t.Error(err)
	}
}

// Two quadratics on a line, f₁ = (x + 1)²/2 and f₂ = 0.1 (x − 1)²/2, by exact
// gradients from x₁ = x*, where the paper's G is 0: after 200 rounds of K = 2000
// at η = 0.01 the mean of ‖∇F(x̄_t)‖² is above Theorem 1's right side. With G
// from the clients' gradients Lemma 2 and Theorem 1 hold.
func TestPrintedG_Fails(t *testing.T) {
	const (
		eta    = 0.01
		k      = 2000
		rounds = 200
	)
	a, b := [2]float64{1, 0.1}, [2]float64{-1, 1}
	best := (a[0]*b[0] + a[1]*b[1]) / (a[0] + a[1])
	loss := func(x float64) (f float64) {
		for c := range a {
			f += a[c] * (x - b[c]) * (x - b[c]) / 4
		}
		return f
	}
	global, sum, g := best, 0.0, 0.0
	for range rounds {
		local := [2]float64{global, global}
		for range k {
			x := (local[0] + local[1]) / 2
			gradient := (a[0]*(x-b[0]) + a[1]*(x-b[1])) / 2
			sum += gradient * gradient
			for c := range local {
				own := a[c] * (local[c] - b[c])
				g = math.Max(g, math.Abs(own))
				local[c] -= eta * own
			}
		}
		global = (local[0] + local[1]) / 2
	}
	mean := sum / (rounds * k)

	c := Constants{L: 1, Mu: 0.1, Gamma: loss(best), FStar: loss(best), N: 2, Clients: 2, G: PrintedG(1, 0), Form: Statement}
	steps := make([]int, rounds)
	for i := range steps {
		steps[i] = k
	}
	printed := c.Theorem1(loss(best), eta, steps).Total()
	if got, want := fmt.Sprintf("%.3f > %.4f", mean, printed), "0.115 > 0.0586"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	c.G, c.Form = g, Shifted
	if bound := c.Lemma2(loss(best), eta, steps); mean > bound {
		t.Errorf("with G = %v from the clients' gradients: %v above the bound %v", g, mean, bound)
	}
}
