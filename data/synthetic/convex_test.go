package synthetic

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/learn"
)

func setOf(t *testing.T, of interface{ Set() (federated.Set, error) }) federated.Set {
	t.Helper()
	s, err := of.Set()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every matrix has eigenvalues from exactly mu to L, its axis is a unit vector,
// and clients share both only where they are alike.
func TestQuadratics_Constants(t *testing.T) {
	for _, h := range []float64{0, 1, 50} {
		q := Quadratics{Clients: 7, Dimension: 5, Samples: 9, Mu: 0.25, L: 4, Noise: 2, Heterogeneity: h, Seed: 3}
		s := setOf(t, q)
		var axes, means [][]float32
		held := datatest.HeldOut(t, s, 0, s.HeldOut())
		for c := range s.Clients() {
			b := datatest.All(t, s, c)
			datatest.CheckBatch(t, s.Info(), b, 9)
			a, v := b.X[5:10], b.X[10:15]
			if a[0] != 0.25 || a[4] != 4 {
				t.Errorf("eigenvalues %v, want 0.25 to 4", a)
			}
			square := 0.0
			for _, x := range v {
				square += float64(x) * float64(x)
			}
			if math.Abs(square-1) > 1e-6 {
				t.Errorf("the axis of client %d has norm² %v", c, square)
			}
			mean := make([]float64, 5)
			for i := range 9 {
				for j := range mean {
					mean[j] += float64(b.X[i*15+j]) / 9
				}
			}
			for j, m := range mean {
				if got := held.X[c*15+j]; math.Abs(float64(got)-m) > 1e-6*(1+math.Abs(m)) {
					t.Errorf("client %d is measured at %v, the mean of its samples is %v", c, got, m)
				}
			}
			axes, means = append(axes, v), append(means, held.X[c*15:][:5])
		}
		if alike := fmt.Sprint(axes[1]) == fmt.Sprint(axes[2]); alike != (h == 0) {
			t.Errorf("heterogeneity %g: clients with one matrix: %v", h, alike)
		}
		if fmt.Sprint(means[1]) == fmt.Sprint(means[2]) {
			t.Error("clients share their noise")
		}
	}
}

// Noise and heterogeneity are the standard deviations that they say, within six
// standard errors.
func TestQuadratics_Spread(t *testing.T) {
	const clients, samples, n = 60, 80, 20
	q := Quadratics{Clients: clients, Dimension: n, Samples: samples, Mu: 0.1, L: 1, Noise: 0.5, Heterogeneity: 2, Seed: 1}
	s := setOf(t, q)
	within, total, between := 0.0, make([]float64, n), 0.0
	means := make([][]float64, clients)
	for c := range clients {
		b := datatest.All(t, s, c)
		mean := make([]float64, n)
		for i := range samples {
			for j := range n {
				mean[j] += float64(b.X[i*3*n+j]) / samples
			}
		}
		for i := range samples {
			for j := range n {
				d := float64(b.X[i*3*n+j]) - mean[j]
				within += d * d / (samples - 1) / n / clients
			}
		}
		means[c] = mean
		for j, m := range mean {
			total[j] += m / clients
		}
	}
	for _, mean := range means {
		for j, m := range mean {
			between += (m - total[j]) * (m - total[j]) / (clients - 1) / n
		}
	}
	// The relative error of a variance of k values is at most sqrt(2/k).
	if math.Abs(within/0.25-1) > 6*math.Sqrt(2.0/(clients*samples*n)) {
		t.Errorf("noise of variance %v, want 0.25", within)
	}
	if want := 4 + 0.25/samples; math.Abs(between/want-1) > 6*math.Sqrt(2.0/(clients*n)) {
		t.Errorf("clients of variance %v, want %v", between, want)
	}
}

// Alike clients see all classes equally; others do not.
func TestMixtures_Differ(t *testing.T) {
	skew := func(h float64) float64 {
		d, err := federated.Describe(t.Context(), setOf(t, Mixtures{Clients: 30, Features: 4, Classes: 5, Samples: 100, Heterogeneity: h, Seed: 2}))
		if err != nil {
			t.Fatal(err)
		}
		return d.Skew
	}
	if alike, some, much := skew(0), skew(1), skew(20); alike > 0.02 || some < 2*alike || much < 1.5*some {
		t.Errorf("label skew %.3f, %.3f, %.3f for heterogeneity 0, 1, 20", alike, some, much)
	}
	s := setOf(t, Mixtures{Clients: 3, Features: 4, Classes: 2, Samples: 10, Seed: 2})
	if s.HeldOut() != 6 || s.Samples(0) != 10 {
		t.Errorf("%d held out, %d a client", s.HeldOut(), s.Samples(0))
	}
	datatest.CheckBatch(t, s.Info(), datatest.HeldOut(t, s, 1, 5), 5)
}

// The bits of a seed are kept from version to version and machine to machine.
func TestConvex_Golden(t *testing.T) {
	for task, want := range map[string]string{
		"quadratic": "023534b04e9e40a2",
		"logistic":  "024130446c65c971",
	} {
		h := sha256.New()
		s := newSynthetic(t, task, 4, 7, 1.5)
		for c := range 4 {
			b := datatest.All(t, s, c)
			for _, x := range b.X {
				fmt.Fprintf(h, "%08x", math.Float32bits(x))
			}
			fmt.Fprint(h, b.Labels)
		}
		if got := fmt.Sprintf("%x", h.Sum(nil)[:8]); got != want {
			t.Errorf("%s: %s, want %s", task, got, want)
		}
	}
}

func TestConvex_Errors(t *testing.T) {
	q, m := DefaultQuadratics, DefaultMixtures
	for want, of := range map[string]interface{ Set() (federated.Set, error) }{
		"are more than":                 func() Quadratics { q := q; q.Clients, q.Samples = 1<<20, 1<<20; return q }(),
		"values are more than 67108864": func() Mixtures { m := m; m.Features = 1 << 30; return m }(),
	} {
		if _, err := of.Set(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	s := newSynthetic(t, "quadratic", 2, 1, 1)
	var b learn.Batch
	for _, err := range []error{s.Batch(&b, 2, []int32{0}), s.Batch(&b, 0, []int32{50}), s.HeldOutBatch(&b, 1, 2), s.HeldOutBatch(&b, -1, 1)} {
		if err == nil {
			t.Error("what is not there is given")
		}
	}
}
