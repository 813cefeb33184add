package algorithm_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "fedpace/algorithm"
	_ "fedpace/internal/testkit/testseed"
)

// written is an optimiser as its paper writes it down, for one parameter and in
// the order of the paper's lines.
type written func(d float64) (step float64)

func momentumWritten(rate, beta float64) written {
	v := 0.0
	return func(d float64) float64 {
		v = beta*v + d // Hsu et al. 2019
		return rate * v
	}
}

// nesterovWritten is the step of PyTorch's SGD with momentum and nesterov, without dampening, for
// the gradient -d: buf = β buf + g, x = x - lr (g + β buf).
func nesterovWritten(rate, beta float64) written {
	buf := 0.0
	return func(d float64) float64 {
		g := -d
		buf = beta*buf + g
		return -rate * (g + beta*buf)
	}
}

// adaptiveWritten is Reddi et al. 2021, Algorithm 2; second is its choice of v_t.
func adaptiveWritten(rate, beta1, tau float64, second func(v, d float64) float64) written {
	m, v := 0.0, tau*tau
	return func(d float64) float64 {
		m = beta1*m + (1-beta1)*d
		v = second(v, d)
		return rate * m / (math.Sqrt(v) + tau)
	}
}

func adagradWritten(v, d float64) float64 { return v + d*d }

func adamWritten(beta2 float64) func(v, d float64) float64 {
	return func(v, d float64) float64 { return beta2*v + (1-beta2)*d*d }
}

func yogiWritten(beta2 float64) func(v, d float64) float64 {
	return func(v, d float64) float64 {
		sign := 0.0
		if v != d*d {
			sign = (v - d*d) / math.Abs(v-d*d)
		}
		return v - (1-beta2)*d*d*sign
	}
}

// Every optimiser moves the model as its paper says, over several rounds.
func TestServers_AgreeWithPapers(t *testing.T) {
	const rate, beta1, beta2, tau = 0.3, 0.9, 0.99, 1e-3
	for _, c := range []struct {
		name   string
		server func(params int) ServerOptimizer
		paper  func() written
		floats int
	}{
		{"FedAvg", FedAvg{Rate: 1}.Server, func() written { return func(d float64) float64 { return d } }, 0},
		{"generalised FedAvg", FedAvg{Rate: rate}.Server, func() written { return func(d float64) float64 { return rate * d } }, 0},
		{"FedAvgM", FedAvgM{Rate: rate, Momentum: beta1}.Server, func() written { return momentumWritten(rate, beta1) }, 1},
		{"DiLoCo's outer step", FedAvgM{Rate: 0.7, Momentum: 0.9, Nesterov: true}.Server, func() written { return nesterovWritten(0.7, 0.9) }, 1},
		{"FedAdagrad", FedAdagrad{Rate: rate, Beta1: 0, Tau: tau}.Server, func() written { return adaptiveWritten(rate, 0, tau, adagradWritten) }, 2},
		{"FedAdam", FedAdam{Rate: rate, Beta1: beta1, Beta2: beta2, Tau: tau}.Server, func() written { return adaptiveWritten(rate, beta1, tau, adamWritten(beta2)) }, 2},
		{"FedYogi", FedYogi{FedAdam{Rate: rate, Beta1: beta1, Beta2: beta2, Tau: tau}}.Server, func() written { return adaptiveWritten(rate, beta1, tau, yogiWritten(beta2)) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(1, 5).Draw(t, "parameters")
				server := c.server(n)
				papers := make([]written, n)
				for i := range papers {
					papers[i] = c.paper()
				}
				if len(server.State()) != c.floats {
					t.Fatalf("%d vectors, want %d", len(server.State()), c.floats)
				}
				model := make([]float32, n)
				for range rapid.IntRange(1, 6).Draw(t, "rounds") {
					scale := rapid.SampledFrom([]float64{1, 1, 4. / 3}).Draw(t, "scale")
					sum, before := make([]int64, n), slices.Clone(model)
					for i := range sum {
						sum[i] = rapid.Int64Range(-Unit, Unit).Draw(t, "sum")
					}
					server.Apply(model, sum, scale)
					for i, x := range before {
						want := float64(x) + papers[i](float64(sum[i])/Unit*scale)
						if d := math.Abs(float64(model[i]) - want); d > 1e-12*math.Abs(want)+math.Abs(want)*0x1p-24 {
							t.Fatalf("parameter %d goes from %v to %v, the paper says %v", i, x, model[i], want)
						}
					}
				}
			})
		})
	}
}

// A constant Δ = d has closed forms: m_t = (1 − β1^t) d and v_t as below.
func TestServers_ConstantUpdates(t *testing.T) {
	const rate, beta1, beta2, tau, d = 0.05, 0.8, 0.95, 0.125, 0.5
	for name, c := range map[string]struct {
		server ServerOptimizer
		beta1  float64
		v      func(t float64) float64
	}{
		"adagrad": {FedAdagrad{Rate: rate, Beta1: beta1, Tau: tau}.Server(1), beta1, func(t float64) float64 { return tau*tau + t*d*d }},
		"adam": {FedAdam{Rate: rate, Beta1: beta1, Beta2: beta2, Tau: tau}.Server(1), beta1, func(t float64) float64 {
			return math.Pow(beta2, t)*tau*tau + (1-math.Pow(beta2, t))*d*d
		}},
		// v grows by (1 − β2) d² while it is below d², here in its first 18 rounds.
		"yogi": {FedYogi{FedAdam{Rate: rate, Beta1: beta1, Beta2: beta2, Tau: tau}}.Server(1), beta1, func(t float64) float64 { return tau*tau + t*(1-beta2)*d*d }},
	} {
		x, model := 0.0, []float32{0}
		for round := 1.0; round <= 18; round++ {
			m := (1 - math.Pow(c.beta1, round)) * d
			x += rate * m / (math.Sqrt(c.v(round)) + tau)
			c.server.Apply(model, []int64{d * Unit}, 1)
			if math.Abs(float64(model[0])-x) > 1e-6*x {
				t.Errorf("%s, round %v: %v, want %v", name, round, model[0], x)
			}
		}
	}
}

// Gradient descent with heavy-ball momentum on a x²/2: the distance obeys
// z_{t+1} = (1 + β − h a) z_t − β z_{t−1}, whose solution is written with the
// roots of its characteristic equation.
func TestServers_MomentumOnQuadratic(t *testing.T) {
	const ha, beta = 0.08, 0.5
	root := math.Sqrt((1+beta-ha)*(1+beta-ha) - 4*beta)
	r1, r2 := (1+beta-ha+root)/2, (1+beta-ha-root)/2
	// z_0 = 1, z_1 = 1 − h a.
	b := (1 - ha - r1) / (r2 - r1)
	server, model := FedAvgM{Rate: 1, Momentum: beta}.Server(1), []float32{1}
	for round := 1.0; round <= 30; round++ {
		server.Apply(model, []int64{int64(-ha * float64(model[0]) * Unit)}, 1)
		want := (1-b)*math.Pow(r1, round) + b*math.Pow(r2, round)
		if math.Abs(float64(model[0])-want) > 1e-6 {
			t.Fatalf("round %v: %v, want %v", round, model[0], want)
		}
	}
}

func servers(params int) map[string]ServerOptimizer {
	return map[string]ServerOptimizer{
		"average":  FedAvg{Rate: 0.5}.Server(1),
		"momentum": FedAvgM{Rate: 1, Momentum: 0.9}.Server(params),
		"adagrad":  FedAdagrad{Rate: 0.1, Beta1: 0.5, Tau: 0.01}.Server(params),
		"adam":     FedAdam{Rate: 0.1, Beta1: 0.9, Beta2: 0.99, Tau: 0.01}.Server(params),
		"yogi":     FedYogi{FedAdam{Rate: 0.1, Beta1: 0.9, Beta2: 0.99, Tau: 0.01}}.Server(params),
	}
}

// A server that was restored goes on to the bits of one that was never stopped.
func TestServers_RestoredContinue(t *testing.T) {
	fresh := servers(2)
	for name, s := range servers(2) {
		model := []float32{1, 2}
		round := func(s ServerOptimizer, model []float32, k int64) { s.Apply(model, []int64{k * 1e12, -k * 3e11}, 1) }
		for k := range int64(4) {
			round(s, model, k)
		}
		var state [][]float64
		for _, v := range s.State() {
			state = append(state, slices.Clone(v))
		}
		second := slices.Clone(model)
		other := fresh[name]
		if err := other.Restore(state); err != nil {
			t.Fatal(err)
		}
		for k := range int64(4) {
			round(s, model, 9-k)
			round(other, second, 9-k)
		}
		if !slices.Equal(model, second) || !cmp.Equal(s.State(), other.State()) {
			t.Errorf("%s: %v after a restart, %v without", name, second, model)
		}
	}
}

func TestServers_RestoreRefuses(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		server string
		state  [][]float64
		want   string
	}{
		{"average", [][]float64{{1, 2}}, "a state of 1 vectors, want 0"},
		{"momentum", nil, "a state of 0 vectors, want 1"},
		{"momentum", [][]float64{{1}}, "vector 0 of a state has 1 values, want 2"},
		{"adam", [][]float64{{1, nan}, {1, 1}}, "vector 0 of a state holds NaN for parameter 1"},
		{"yogi", [][]float64{{1, 1}, {1, -1}}, "vector 1 of a state holds -1 for parameter 1"},
		{"adagrad", [][]float64{{1, 1}, {math.Inf(1), 1}}, "vector 1 of a state holds +Inf for parameter 0"},
	} {
		s := servers(2)[c.server]
		before := fmt.Sprint(s.State())
		if err := s.Restore(c.state); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want it to say %q", c.server, c.state, err, c.want)
		}
		if after := fmt.Sprint(s.State()); after != before {
			t.Errorf("%s: a refused state left its traces: %s, was %s", c.server, after, before)
		}
	}
}

func BenchmarkServers(b *testing.B) {
	const n = 209_662 // FEMNIST's parameters
	sum, model := make([]int64, n), make([]float32, n)
	for i := range sum {
		sum[i] = int64(i-n/2) << 24
	}
	for name, s := range servers(n) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(8 * n)
			for b.Loop() {
				s.Apply(model, sum, 1)
			}
		})
	}
}
