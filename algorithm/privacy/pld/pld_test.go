package pld

import (
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// TestEpsilon_GaussianMechanism compares with the closed form for no sampling: n rounds at noise sigma
// are one at sigma/√n, and delta(ε) = Φ(−εσ + 1/(2σ)) − e^ε Φ(−εσ − 1/(2σ)) (Balle and Wang 2018).
func TestEpsilon_GaussianMechanism(t *testing.T) {
	for _, c := range []struct {
		sigma  float64
		rounds int
		delta  float64
	}{{2, 1, 1e-5}, {1, 1, 1e-5}, {5, 20, 1e-5}, {3, 7, 1e-6}, {0.7, 1, 1e-3}} {
		got, err := Mechanism{Sigma: c.sigma, Rate: 1}.Epsilon(c.rounds, c.delta)
		if err != nil {
			t.Fatal(err)
		}
		s := c.sigma / math.Sqrt(float64(c.rounds))
		curve := func(e float64) float64 {
			return normalUpperTail(e*s-1/(2*s)) - math.Exp(e)*normalUpperTail(e*s+1/(2*s))
		}
		low, high := 0.0, 100.0
		for range 100 {
			if middle := (low + high) / 2; curve(middle) > c.delta {
				low = middle
			} else {
				high = middle
			}
		}
		if math.Abs(got-high) > 2e-4 {
			t.Errorf("%+v: %.6f, exact %.6f", c, got, high)
		}
	}
}

// accounted are epsilons of the sampled Gaussian mechanism by dp-accounting 0.6.0, which
// testdata/accounting.py prints.
var accounted = []struct {
	sigma, rate float64
	rounds      int
	delta       float64
	epsilon     float64
}{
	{0.5, 0.1, 20, 0.0001, 12.879197},
	{1, 0.1, 20, 0.0001, 2.877722},
	{2, 1, 1, 1e-05, 1.993091},
	{1, 0.01, 1000, 1e-05, 1.828244},
	{0.8, 0.02, 200, 1e-06, 3.924889},
	{3, 0.5, 50, 1e-05, 5.626423},
	{1.5, 0.001, 10000, 1e-07, 0.336285},
}

// TestEpsilon_OfDPAccounting holds the accountant to another one.
func TestEpsilon_OfDPAccounting(t *testing.T) {
	for _, c := range accounted {
		got, err := Mechanism{Sigma: c.sigma, Rate: c.rate}.Epsilon(c.rounds, c.delta)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-c.epsilon) > 1e-3 {
			t.Errorf("%+v: %.6f", c, got)
		}
	}
}

// TestEpsilon_AgreesWithDPAccounting prints the committed values anew.
func TestEpsilon_AgreesWithDPAccounting(t *testing.T) {
	slow.Test(t, "it fetches dp-accounting")
	out, err := exec.Command("uv", "run", "--no-project", "--quiet", "--with", "dp-accounting==0.6.0",
		"python", "testdata/accounting.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(accounted) {
		t.Fatalf("%d values, want %d", len(lines), len(accounted))
	}
	for i, line := range lines {
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("\t{}, ", r) })
		got, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-accounted[i].epsilon) > 1e-4 {
			t.Errorf("%s: the table has %g", line, accounted[i].epsilon)
		}
	}
}

func TestEpsilon_OutOfRange(t *testing.T) {
	for _, c := range []struct {
		m     Mechanism
		delta float64
	}{
		{Mechanism{Sigma: 0, Rate: 1}, 1e-5},
		{Mechanism{Sigma: 1, Rate: 0}, 1e-5},
		{Mechanism{Sigma: 1, Rate: 1}, 1e-12},
		{Mechanism{Sigma: 0.01, Rate: 0.1}, 1e-5},
	} {
		if e, err := c.m.Epsilon(20, c.delta); err == nil {
			t.Errorf("%+v: %g", c, e)
		}
	}
}
