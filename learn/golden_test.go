package learn

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"fedpace/internal/testkit/slow"
	"fedpace/learn/internal/kernel"
)

// testdata/golden.py has the same hash, weights and batches.

func goldenHash(stream, i int) uint64 {
	x := (uint64(i) + uint64(stream)<<40 + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func goldenUniform(stream, i int) float32 {
	return float32(goldenHash(stream, i)>>40)*0x1p-24*2 - 1
}

func goldenWeights(m Model, spec string) []float32 {
	params := make([]float32, m.Params())
	fan := 0
	for i, t := range m.Tensors() {
		if len(t.Shape) > 1 {
			fan = t.Len() / t.Shape[0]
		}
		if spec[:3] == "gru" {
			fan = 128
		}
		bound := float32(1 / math.Sqrt(float64(fan)))
		for j := range t.Len() {
			params[t.Offset+j] = goldenUniform(1000+i, j) * bound
		}
	}
	return params
}

func goldenBatch(m Model, stream, n int) *Batch {
	b := &Batch{N: n}
	for s := range n {
		b.Labels = append(b.Labels, int32(goldenHash(stream, s)%uint64(m.Samples().Classes)))
	}
	switch m.Samples().Input {
	case Dense:
		for i := range n * m.Samples().Features {
			b.X = append(b.X, goldenUniform(stream+1, i))
		}
	case Tokens:
		for i := range n * m.Samples().Features {
			b.Tokens = append(b.Tokens, uint8(goldenHash(stream+1, i)%79))
		}
	case Sparse:
		b.RowStart = append(b.RowStart, 0)
		for s := range n {
			for w := range 12 {
				b.Index = append(b.Index, int32(goldenHash(stream+1, s)%40*7)+int32(400*w))
				b.Value = append(b.Value, float32(math.Abs(float64(goldenUniform(stream+2, s*12+w)))))
			}
			b.RowStart = append(b.RowStart, int32(len(b.Index)))
		}
	}
	return b
}

type goldenSummary struct {
	Norm, Moved float64
	Signs       []float64
}

// distance estimates the norm of the difference between params and the golden
// ones: each signed sum of a vector d has mean square |d|², whatever d is.
func (g goldenSummary) distance(params []float32) float64 {
	sums := make([]float64, len(g.Signs))
	for i, v := range params {
		h := ^goldenHash(1, i)
		bits := math.Float64bits(float64(v))
		for j := range sums {
			sums[j] += math.Float64frombits(bits ^ h>>j<<63) // negative where the hash's bit is 0
		}
	}
	var square float64
	for j, s := range sums {
		square += (s - g.Signs[j]) * (s - g.Signs[j])
	}
	return math.Sqrt(square / float64(len(sums)))
}

// From the same weights and the same batches every instruction set does what
// PyTorch does.
func TestModels_GoldenValuesOfPyTorch(t *testing.T) {
	onlyLonger(t)
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Spec            string
		Batch           int
		Rate            float32
		Optimizer       json.RawMessage // none: plain SGD
		Losses          []float64
		After1, After50 goldenSummary
		LossSum         float64
		Correct         int
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	for _, g := range golden {
		name, optimizer := g.Spec, Optimizer(nil)
		if g.Optimizer != nil {
			optimizer, err = Optimizers.Decode(string(g.Optimizer))
			if err != nil {
				t.Fatal(err)
			}
			name += " by " + Optimizers.Text(optimizer)
		}
		t.Run(name, func(t *testing.T) {
			everyISA(t, func(t *testing.T, isa kernel.ISA) {
				m := parse(t, g.Spec)
				steps := len(g.Losses)
				if isa != fastest() && m.Params() > 100_000 && m.Samples().Input != Sparse && !slow.On() {
					steps = 8
					if isa == kernel.Go {
						steps = 1 // half a minute in plain Go, several with the race detector
					}
				}
				t.Parallel()
				params := goldenWeights(m, g.Spec)
				w := on(m, g.Batch, isa)
				take := w.Step
				if optimizer != nil {
					take = stepsOf(optimizer, w, m.Params())
				}
				for step, want := range g.Losses[:steps] {
					n := g.Batch
					if step%7 == 3 {
						n -= 13 * n / 32
					}
					loss, err := take(params, goldenBatch(m, 10_000+3*step, n), g.Rate)
					if err != nil {
						t.Fatal(err)
					}
					within := 1e-5
					if step > 0 {
						within = 1e-3
					}
					if math.Abs(loss-want) > within*want {
						t.Errorf("step %d: loss %v, PyTorch %v", step+1, loss, want)
					}
					switch step {
					case 0:
						// The step itself, not only the weights it hardly moves, must agree.
						d := g.After1.distance(params)
						if d > 1e-5*g.After1.Norm || d > 1e-4*g.After1.Moved {
							t.Errorf("after 1 step %g from PyTorch's parameters (norm %g, moved %g)", d, g.After1.Norm, g.After1.Moved)
						}
					case 49:
						d := g.After50.distance(params)
						if d > 1e-3*g.After50.Norm || d > 1e-3*g.After50.Moved {
							t.Errorf("after 50 steps %g from PyTorch's parameters (norm %g, moved %g)", d, g.After50.Norm, g.After50.Moved)
						}
						t.Logf("after 50 steps %.2g of the norm and %.2g of the way", d/g.After50.Norm, d/g.After50.Moved)
					}
				}
				if steps < len(g.Losses) {
					t.Skipf("only the first %d of %d steps: set FEDPACE_LONG=1 for all of them", steps, len(g.Losses))
				}
				loss, correct, err := evaluate(m, w, params, goldenBatch(m, 20_000, g.Batch))
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(loss-g.LossSum) > 1e-3*g.LossSum || correct != g.Correct {
					t.Errorf("evaluation: %v and %d correct, PyTorch %v and %d", loss, correct, g.LossSum, g.Correct)
				}
			})
		})
	}
}

// stepsOf takes steps as [Workspace.Step] does, by an optimizer.
func stepsOf(o Optimizer, w Workspace, params int) func([]float32, *Batch, float32) (float64, error) {
	gradient, stepper := make([]float32, params), o.Stepper(params)
	stepper.Start()
	return func(params []float32, b *Batch, rate float32) (float64, error) {
		loss, err := w.Gradient(gradient, params, b)
		stepper.Step(params, gradient, rate)
		return loss, err
	}
}

// Plain Go gives the same bits on every architecture and with every compiler: no
// product is fused with an addition.
func TestPlainGo_FixedBits(t *testing.T) {
	for spec, want := range map[string]string{
		"linear:5000,2":         "d673b17869401e47",
		"mlp:784,20,62":         "dd5c3579f27bde4b",
		"cnn:3x12x12,5,7,11,10": "114705e65eb5e370",
		"gru:7,79,8,12,2":       "26a8ea2e09566ab3",
		"logistic:12,4,0.1":     "09032b3c9e7f6e24",
	} {
		m := parse(t, spec)
		params := make([]float32, m.Params())
		m.Init(params, 1)
		w := on(m, 32, kernel.Go)
		h := sha256.New()
		for step := range 4 {
			b := goldenBatch(m, 100*step, 32-7*step)
			loss, err := w.Step(params, b, 0.5)
			if err != nil {
				t.Fatal(err)
			}
			sum, _, err := evaluate(m, w, params, b)
			if err != nil {
				t.Fatal(err)
			}
			if err := binary.Write(h, binary.LittleEndian, []float64{loss, sum}); err != nil {
				t.Fatal(err)
			}
		}
		if err := binary.Write(h, binary.LittleEndian, params); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil))[:16]; got != want {
			t.Errorf("%s: losses and parameters hash to %s, want %s", spec, got, want)
		}
	}
}

// Optimizers and the arithmetic of exact sums give the same bits on every architecture, too: the moments,
// their powers and the weight decay are rounded one by one.
func TestOptimizers_FixedBits(t *testing.T) {
	for name, test := range map[string]struct {
		optimizer Optimizer
		want      string
	}{
		"adam":     {Adam{Moments: moments, WeightDecay: 0.01}, "2a99cde0053e3f90"},
		"adamw":    {AdamW{Moments: moments, WeightDecay: 0.01}, "ed7367bdd6a7c580"},
		"nesterov": {SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 0.01}, "cbec96ea3e87d06e"},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 257
			params := make([]float32, n)
			gradient := make([]float32, n)
			stepper := test.optimizer.Stepper(n)
			stepper.Start()
			for step := range 7 {
				for i := range gradient {
					gradient[i] = float32((i*31+step*17)%101-50) / 37
				}
				stepper.Step(params, gradient, 0.013)
			}
			h := sha256.New()
			if err := binary.Write(h, binary.LittleEndian, params); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(h.Sum(nil))[:16]; got != test.want {
				t.Errorf("parameters hash to %s, want %s", got, test.want)
			}
		})
	}
}

// moments are PyTorch's options of Adam.
var moments = Moments{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
