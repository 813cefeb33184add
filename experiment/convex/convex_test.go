package convex

import (
	"math"
	"math/rand/v2"
	"testing"

	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/learn"
)

type maker interface{ Set() (federated.Set, error) }

// problems are small ones of either kind, with their models.
var problems = []struct {
	name, model string
	width       int // of a sample
	of          maker
}{
	{"quadratic", "quadratic:6", 3 * 6, synthetic.Quadratics{Clients: 5, Dimension: 6, Samples: 12, Mu: 0.2, L: 3, Noise: 1, Heterogeneity: 1, Seed: 4}},
	{"logistic, a class missing", "logistic:20,5,0.05", 20, synthetic.Mixtures{Clients: 4, Features: 20, Classes: 5, Samples: 12, Heterogeneity: 3, Seed: 1}},
	{"logistic", "logistic:4,3,0.1", 4, synthetic.Mixtures{Clients: 5, Features: 4, Classes: 3, Samples: 12, Heterogeneity: 1, Seed: 4}},
}

func read(t *testing.T, of maker, spec string, batch int) (*Problem, federated.Set, learn.Model) {
	t.Helper()
	set, err := of.Set()
	if err != nil {
		t.Fatal(err)
	}
	model, err := learn.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(set, model, batch, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, set, model
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > within*(1+math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func random(r *rand.Rand, n int, scale float64) []float64 {
	x := make([]float64, n)
	for j := range x {
		x[j] = scale * r.NormFloat64()
	}
	return x
}

// What is calculated here is what the trainers train: losses and gradients are
// the model's.
func TestConvex_AgainstModel(t *testing.T) {
	for _, test := range problems {
		t.Run(test.name, func(t *testing.T) {
			p, set, model := read(t, test.of, test.model, 3)
			r := rand.New(rand.NewPCG(1, 1))
			work := model.NewWorkspace(100, learn.Kernel{})
			x := random(r, model.Params(), 1)
			params, grad := make([]float32, len(x)), make([]float32, len(x))
			for j := range x {
				params[j] = float32(x[j])
				x[j] = float64(params[j])
			}
			mean, dst := make([]float64, len(x)), make([]float64, len(x))
			value := 0.0
			for c := range p.Clients {
				b, err := clientSamples(set, c, test.width)
				if err != nil {
					t.Fatal(err)
				}
				loss, err := work.Gradient(grad, params, b)
				if err != nil {
					t.Fatal(err)
				}
				near(t, "f_c", p.objective.value(c, x), loss, 1e-6)
				p.objective.gradient(dst, c, x)
				for j, g := range grad {
					near(t, "∇f_c", dst[j], float64(g), 1e-5)
					mean[j] += dst[j] / float64(p.Clients)
				}
				value += loss / float64(p.Clients)
			}
			near(t, "F", p.Value(x), value, 1e-6)
			p.Gradient(dst, x)
			for j := range dst {
				near(t, "∇F", dst[j], mean[j], 1e-12)
			}
		})
	}
}

// x* has no gradient; every client has the promised smoothness and convexity,
// along lines through random points; Γ is not negative and what its definition
// says.
func TestConvex_Constants(t *testing.T) {
	for _, test := range problems {
		t.Run(test.name, func(t *testing.T) {
			p, _, model := read(t, test.of, test.model, 3)
			n := model.Params()
			dst, other := make([]float64, n), make([]float64, n)
			if g := p.Gradient(dst, p.Star); g > 1e-20 {
				t.Errorf("‖∇F(x*)‖² is %v", g)
			}
			r := rand.New(rand.NewPCG(2, 1))
			for range 200 {
				x, y := random(r, n, 2), random(r, n, 2)
				if f := p.Value(x); f < p.FStar {
					t.Errorf("F is %v at a point, its minimum %v", f, p.FStar)
				}
				way, grown, square := 0.0, 0.0, 0.0
				c := r.IntN(p.Clients)
				p.objective.gradient(dst, c, x)
				p.objective.gradient(other, c, y)
				for j := range x {
					d, g := x[j]-y[j], dst[j]-other[j]
					way += d * d
					grown += d * g
					square += g * g
				}
				if square > p.L*p.L*way*(1+1e-9) || grown < p.Mu*way*(1-1e-9) {
					t.Errorf("client %d: gradients %v apart over %v, along it %v; L = %v, mu = %v", c, math.Sqrt(square), math.Sqrt(way), grown, p.L, p.Mu)
				}
			}
			sum := 0.0
			for c := range p.Clients {
				least := math.Inf(1)
				own := make([]float64, p.Clients)
				own[c] = 1
				x, err := p.objective.minimise(own)
				if err != nil {
					t.Fatal(err)
				}
				p.objective.gradient(dst, c, x)
				near(t, "‖∇f_c‖ at its minimum", math.Sqrt(norm2(dst)), 0, 1e-9)
				least = min(least, p.objective.value(c, x))
				sum += least / float64(p.Clients)
			}
			near(t, "Γ", p.Gamma, p.FStar-sum, 1e-9)
			if p.Gamma <= 0 {
				t.Errorf("Γ is %v for clients that differ", p.Gamma)
			}
		})
	}
}

// The variance of a minibatch is that over all choices of three from twelve.
func TestConvex_NoiseOfAllMinibatches(t *testing.T) {
	for _, test := range problems {
		t.Run(test.name, func(t *testing.T) {
			p, set, model := read(t, test.of, test.model, 3)
			n := model.Params()
			x := random(rand.New(rand.NewPCG(3, 1)), n, 1)
			params, grad := make([]float32, n), make([]float32, n)
			for j := range x {
				params[j] = float32(x[j])
				x[j] = float64(params[j])
			}
			work := model.NewWorkspace(3, learn.Kernel{})
			mean, square, count := make([]float64, n), 0.0, 0.0
			for i := range int32(12) {
				for j := range i {
					for k := range j {
						b := new(learn.Batch)
						if err := set.Batch(b, 1, []int32{i, j, k}); err != nil {
							t.Fatal(err)
						}
						if _, err := work.Gradient(grad, params, b); err != nil {
							t.Fatal(err)
						}
						for j, g := range grad {
							mean[j] += float64(g)
							square += float64(g) * float64(g)
						}
						count++
					}
				}
			}
			for j := range mean {
				mean[j] /= count
			}
			near(t, "σ²", p.Noise(1, x), square/count-norm2(mean), 1e-5)
			second, _ := p.SecondMoment(mean, 1, x)
			near(t, "E‖∇f_c(x; ξ)‖²", second, square/count, 1e-5)
		})
	}
	// All samples at once leave no noise.
	p, _, model := read(t, problems[0].of, problems[0].model, 12)
	if v := p.Noise(0, make([]float64, model.Params())); v != 0 {
		t.Errorf("a full batch has variance %v", v)
	}
}

// Two clients on a line: ½(x+1)² and 0.05(x−1)², minimum at −9/11, Γ = 1/11.
func TestConvex_WorkedByHand(t *testing.T) {
	q := &quadratic{size: 1, a: [][]float64{{1}, {0.1}}, v: [][]float64{{0}, {0}}, b: [][]float64{{-1}, {1}}, floor: []float64{0, 0}, noise: []float64{0, 0}}
	p := &Problem{Clients: 2, Batch: 1, Weights: []float64{0.5, 0.5}, samples: []int{1, 1}, objective: q}
	if err := p.solve(); err != nil {
		t.Fatal(err)
	}
	near(t, "x*", p.Star[0], -9.0/11, 1e-15)
	near(t, "F*", p.FStar, 1.0/11, 1e-15)
	near(t, "Γ", p.Gamma, 1.0/11, 1e-15)
	near(t, "L", p.L, 1, 0)
	near(t, "mu", p.Mu, 0.1, 0)
	c := p.Constants([]float64{1}, 1)
	near(t, "G", c.G, 2, 1e-15) // client 1 at the start
	near(t, "the distance", p.Distance([]float64{1}), 20.0/11, 1e-15)
}

func TestConvex_OthersRefused(t *testing.T) {
	set, err := synthetic.New("femnist", 2, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	model, err := learn.Parse("mlp:784,2,62")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(set, model, 1, nil); err == nil {
		t.Error("a network is convex")
	}
	wide, err := learn.Parse("logistic:784,62,1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(set, wide, 1, nil); err == nil {
		t.Error("a model of 48,670 parameters is solved for")
	}
	if _, err := New(set, wide, 0, nil); err == nil {
		t.Error("empty minibatches are taken")
	}
}
