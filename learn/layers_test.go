package learn

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/learn/internal/kernel"
	"fedpace/learn/network"
)

// layered is what testdata/layers.py says of a network.
type layered struct {
	Name    string
	Tensors []string
	Batches []struct {
		N        int
		Loss     float64
		Gradient goldenSummary
		// Buffers are those after the batch, and Evaluation is the loss of an evaluation then. They are
		// there for networks with batch norms.
		Buffers    []float64
		Evaluation *float64
	}
}

func layeredNetworks(t testing.TB) (list []layered) {
	raw, err := os.ReadFile("testdata/layers.json")
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// testdata/layers.json is what testdata/layers.py writes by the PyTorch of this machine.
func TestLayers_FileOfPyTorch(t *testing.T) {
	slow.Test(t, "it starts PyTorch")
	python := installed.Python(t, "torch")
	out, err := exec.Command(python, "testdata/layers.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	var today []layered
	if err := json.Unmarshal(out, &today); err != nil {
		t.Fatal(err)
	}
	file := layeredNetworks(t)
	if len(today) != len(file) {
		t.Fatalf("PyTorch writes %d networks, the file has %d", len(today), len(file))
	}
	worst := 0.0
	for i, l := range today {
		if l.Name != file[i].Name || !slices.Equal(l.Tensors, file[i].Tensors) {
			t.Errorf("PyTorch writes %s %v, the file has %s %v", l.Name, l.Tensors, file[i].Name, file[i].Tensors)
			continue
		}
		for j, b := range l.Batches {
			want := file[i].Batches[j]
			var d float64
			for k, s := range b.Gradient.Signs {
				d = max(d, math.Abs(s-want.Gradient.Signs[k]))
			}
			if math.Abs(b.Loss-want.Loss) > 1e-5 || d > 1e-4*want.Gradient.Norm {
				t.Errorf("%s, %d samples: PyTorch and the file are %g apart", l.Name, b.N, d/want.Gradient.Norm)
			}
			worst = max(worst, d/want.Gradient.Norm)
		}
	}
	t.Logf("sums of gradients are at most %.2g of their norm from the file's", worst)
}

// layeredWeights are as layers.py has them. Buffers begin as they do.
func layeredWeights(m Model, scales func(tensor string) bool) []float32 {
	params := make([]float32, m.Params())
	m.Init(params, 1)
	for i, t := range m.Tensors() {
		if isBuffer(t) {
			continue
		}
		fan := 16
		if len(t.Shape) > 1 {
			fan = t.Len() / t.Shape[0]
		}
		bound := float32(1 / math.Sqrt(float64(fan)))
		for j := range t.Len() {
			params[t.Offset+j] = goldenUniform(1000+i, j) * bound
			if scales(t.Name) {
				params[t.Offset+j]++
			}
		}
	}
	return params
}

// isBuffer reports whether a tensor is a batch norm's running mean, running variance or number of batches.
func isBuffer(t Tensor) bool {
	return strings.Contains(t.Name, "running_") || strings.HasSuffix(t.Name, "num_batches_tracked")
}

// isScale reports whether a tensor is the weight of a norm: one of a single dimension.
func isScale(m Model) func(string) bool {
	return func(name string) bool {
		i := slices.IndexFunc(m.Tensors(), func(t Tensor) bool { return t.Name == name })
		return strings.HasSuffix(name, "weight") && len(m.Tensors()[i].Shape) == 1
	}
}

// layeredBatch is as layers.py has it.
func layeredBatch(m Model, n int) *Batch {
	of, b := m.Samples(), &Batch{N: n}
	for s := range n {
		if of.Targets == 0 {
			b.Labels = append(b.Labels, int32(goldenHash(2003, s)%uint64(of.Classes)))
		}
	}
	for i := range n * of.Targets {
		b.Targets = append(b.Targets, goldenUniform(2003, i))
	}
	switch of.Input {
	case Dense:
		for i := range n * of.Features {
			b.X = append(b.X, goldenUniform(2001, i))
		}
	case Tokens:
		for i := range n * of.Features {
			b.Tokens = append(b.Tokens, uint8(goldenHash(2001, i)%uint64(of.Vocabulary)))
		}
	case Sparse:
		b.RowStart = append(b.RowStart, 0)
		for s := range n {
			for w := range 3 {
				b.Index = append(b.Index, int32(goldenHash(2001, s)%20)+int32(20*w))
				b.Value = append(b.Value, float32(math.Abs(float64(goldenUniform(2002, 3*s+w)))))
			}
			b.RowStart = append(b.RowStart, int32(len(b.Index)))
		}
	}
	return b
}

// Every layer, alone and in networks, has PyTorch's gradient within a part in 100,000,
// and the names of its state_dict, by every instruction set.
func TestLayers_GradientsOfPyTorch(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for _, l := range layeredNetworks(t) {
			m := parse(t, l.Name)
			var names []string
			for _, part := range m.Tensors() {
				names = append(names, part.Name)
			}
			if !slices.Equal(names, l.Tensors) {
				t.Errorf("%s: tensors %v, PyTorch's are %v", l.Name, names, l.Tensors)
				continue
			}
			params, gradient := layeredWeights(m, isScale(m)), make([]float32, m.Params())
			w := on(m, 70, isa)
			for _, want := range l.Batches {
				if isa == kernel.Go && want.N > 32 && m.Params() > 50_000 && !slow.On() {
					continue
				}
				b := layeredBatch(m, want.N)
				loss, err := w.Gradient(gradient, params, b)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(loss-want.Loss) > 1e-5*want.Loss {
					t.Errorf("%s, %d samples: loss %v, PyTorch %v", l.Name, want.N, loss, want.Loss)
				}
				if d := want.Gradient.distance(gradient) / want.Gradient.Norm; d > 1e-5 {
					t.Errorf("%s, %d samples: the gradient is %.2g from PyTorch's", l.Name, want.N, d)
				}
				for i, v := range want.Buffers {
					got := float64(params[m.Trainable()+i])
					if math.Abs(got-v) > 1e-5*math.Max(1, math.Abs(v)) {
						t.Errorf("%s, %d samples: buffer %d is %v, PyTorch's %v", l.Name, want.N, i, got, v)
					}
				}
				// Without batch norms training and evaluation have one loss.
				evaluation := want.Loss
				if want.Evaluation != nil {
					evaluation = *want.Evaluation
				}
				scores := make([]Score, 1)
				if sum, err := w.Evaluate(params, b, scores); err != nil || math.Abs(sum/float64(want.N)-evaluation) > 1e-5*evaluation || scores[0].Weight != float64(want.N) {
					t.Errorf("%s, %d samples: evaluation %v with weight %g, %v", l.Name, want.N, sum/float64(want.N), scores[0].Weight, err)
				}
			}
		}
	})
}

// A list's name in messages is read back, and what is no list is refused with what is
// wrong.
func TestLayers_Parsed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                                   "(layers)",
		"values=3;dense(2)":                                                  "does not begin with values=N",
		"rows=3,classes=2;relu":                                              "values=N",
		"image=3x4,classes=2;":                                               "values=N",
		"values=0,classes=2;":                                                "0 features",
		"values=3,labels=2;":                                                 "classes=N or targets=N",
		"values=3,classes=two;":                                              "classes=N or targets=N",
		"values=3,classes=2;":                                                "a list without layers",
		"values=3,classes=2;dense(2),":                                       "not a layer",
		"values=3,classes=2;lstm(2)":                                         `"lstm" is not a layer`,
		"values=3,classes=2;dense":                                           "dense: \"\" is not (width)",
		"values=3,classes=2;dense(2":                                         "shortest form",
		"values=3,classes=2;dense(x)":                                        `dense.width: "x" is no int`,
		"values=3,classes=2;dense(-1)":                                       "dense.width: -1 is out of range",
		"values=3,classes=2;dense(2))":                                       "shortest form",
		"values=3,classes=2;dense(02)":                                       "shortest form",
		"values=3,classes=2;dense(0)":                                        "shortest form",
		"values=3,classes=1;dense(1)":                                        "at least 2 classes",
		"values=3,classes=2;dense(3)":                                        "the last layer makes a vector of 3 values; the samples have 2 classes",
		"values=3,targets=2;relu":                                            "the last layer makes a vector of 3 values; the samples have 2 targets",
		"values=3,classes=3;relu":                                            "0 parameters",
		"values=3,classes=2;dense(0),relu,dense(2)":                          "layer 1 (dense): only the model's last layer",
		"values=3,classes=2;conv(3,3,1,1),dense(2)":                          "layer 1 (conv: 3 maps of 3×3): it reads an image, and is given a vector of 3 values",
		"image=1x7x7,classes=2;dense(2)":                                     "layer 1 (dense: 2): it reads a vector or a bag of words, and is given an image of 7×7 with 1 channels; put flatten",
		"image=1x7x7,classes=2;conv(3,9,0,1),dense(2)":                       "7×7 is smaller than its kernels of 9×9",
		"image=1x7x7,classes=2;conv(3,3,3,1),dense(2)":                       "a pad of 3",
		"image=1x7x7,classes=2;pool(4),pool(2)":                              "layer 2 (pool: 2): 1×1 cannot be pooled by 2",
		"image=3x7x7,classes=2;norm(2)":                                      "3 channels are not 2 equal groups",
		"image=3x7x7,classes=2;residual([flatten])":                          "which cannot be added",
		"image=3x7x7,classes=2;residual([conv(3,3,0,1)])":                    "a convolution of 1×1 does not",
		"image=3x7x7,classes=2;residual([])":                                 "a list without layers",
		"values=3,classes=2;residual([dense(2)])":                            "let the last one be as wide as the input",
		"values=3,classes=2;residual([dense(0)])":                            "layer 1 (residual): layer 1 (dense)",
		"values=3,classes=2;norm(3),dense(2)":                                "groups of one value",
		"tokens=5x300,classes=2;embedding(3)":                                "a vocabulary of 300",
		"tokens=5x30,classes=2;dense(3)":                                     "it reads a vector or a bag of words, and is given a text of 5 tokens; put embedding, and flatten or average, before it",
		"values=3,classes=2;embedding(3)":                                    "it reads a text of tokens",
		"values=3,classes=2;gru(3,1,last)":                                   "put embedding before it",
		"tokens=5x30,classes=2;embedding(3),gru(3,1,first)":                  `"first" is not one of last, all`,
		"values=3,classes=2;dropout(1),dense(2)":                             "dropout.rate: 1 is out of range",
		"image=3x1048576x1048576,classes=2;average":                          "not 1 to 1048576",
		"image=3x500x500,classes=2;conv(999,3,1,1),average,flatten,dense(2)": "more than 8388608 values of one sample",
		"tokens=65536x30,classes=2;embedding(1),gru(32,1,last),dense(2)":     "more than 8388608 values of one sample",
		"values=1048576,classes=2;dense(1048576),dense(2)":                   "parameters",
		"values=3,classes=2;" + strings.Repeat("relu,", 256) + "dense(2)":    "more than 256",
		"values=3,classes=2;" + strings.Repeat("residual([", 30) + "relu":    "residual layers within each other over 8 times",
		"values=3,classes=2;" + strings.Repeat("dropout(0.5),", 400):         "at most 4096",
	} {
		if _, err := Parse("layers:" + text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.80q): %v, want an error with %q", text, err, want)
		}
	}
	for _, l := range layeredNetworks(t) {
		if m := parse(t, l.Name); m.String() != l.Name {
			t.Errorf("%s calls itself %s", l.Name, m)
		}
	}
}

// odd is a layer with a list of numbers.
type odd struct {
	network.ReLULayer
	Sizes []int `key:"sizes" help:"sizes"`
}

func init() { network.Layers.Register("odd", "a layer with a list of numbers", odd{}) }

// A name holds a list of numbers.
func TestParse_LayerWithListOfNumbers(t *testing.T) {
	of := Samples{Features: 3, Targets: 3}
	m, err := Sequential{Layers: []network.Layer{odd{Sizes: []int{1, 20}}, network.DenseLayer{}}}.Model(of)
	if err != nil || m.String() != "layers:values=3,targets=3;odd(1,20),dense(3)" {
		t.Fatal(m, err)
	}
	if again := parse(t, m.String()); again.String() != m.String() {
		t.Error(again)
	}
}

// A linear model of samples with targets has an output for each.
func TestLinear_Targets(t *testing.T) {
	for want, of := range map[string]Samples{
		"layers:values=4,targets=2;dense(2)": {Features: 4, Targets: 2},
		"layers:words=9,targets=1;dense(1)":  {Input: Sparse, Features: 9, Targets: 1},
	} {
		if m, err := (Linear{}).Model(of); err != nil || m.String() != want {
			t.Errorf("%v, %v, want %s", m, err, want)
		}
	}
}

// Before the samples are known, lists that suit some samples are taken, and those that suit
// none are refused.
func TestLayers_CheckedWithoutSamples(t *testing.T) {
	for list, want := range map[string]string{
		"norm(1),dense(0)":                                           "",
		"relu,conv(3,3,1,1),flatten,dense(0)":                        "",
		"dropout(0.1),pool(2),flatten,dense(0)":                      "",
		"residual([dense(5)]),dense(0)":                              "",
		"residual([relu,residual([norm(1),dense(5)])]),dense(0)":     "",
		"residual([norm(1),conv(3,3,1,1)]),average,flatten,dense(0)": "",
		"average,dense(0)":                                           "layer 2 (dense): it reads a vector or a bag of words, and is given an image of 1×1 with ? channels; put flatten before it",
		"relu,dense(4),pool(2)":                                      "layer 3 (pool: 2): it reads an image, and is given a vector of 4 values",
		"residual([dense(5)]),conv(3,3,1,1)":                         "layer 2 (conv: 3 maps of 3×3): it reads an image, and is given a vector of 5 values",
		"residual([conv(3,3,1,1)]),dense(0)":                         "layer 2 (dense): it reads a vector or a bag of words, and is given an image of ?×? with 3 channels",
		"residual([flatten]),dense(0)":                               "layer 1 (residual): its layers make a vector of ? values of samples of any form, which cannot be added",
		"embedding(3),residual([average,dense(3)]),dense(0)":         "which cannot be added",
		"embedding(3),gru(3,1,last),gru(3,1,last)":                   "layer 3 (gru: 3): it reads a sequence, and is given a vector of 3 values",
	} {
		var a Sequential
		if err := parseField(&a.Layers, list); err != nil {
			t.Fatal(err)
		}
		if err := a.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
}

// drops is a network whose dropouts are drawn in training.
const drops = "layers:image=2x5x5,classes=3;conv(4,3,1,1),relu,dropout(0.5),flatten,dropout(0.25),dense(3)"

// Dropout leaves values out by the batch's seed alone, and none in an evaluation.
func TestDropout_Values(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		m, plain := parse(t, drops), parse(t, strings.ReplaceAll(strings.ReplaceAll(drops, "0.5", "0"), "0.25", "0"))
		params := make([]float32, m.Params())
		m.Init(params, 1)
		b := layeredBatch(m, 37)
		loss := func(m Model, seed uint64) float64 {
			b.Seed = seed
			l, err := on(m, 40, isa).Gradient(make([]float32, len(params)), params, b)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		if a, again, other, without := loss(m, 1), loss(m, 1), loss(m, 2), loss(plain, 1); a != again || a == other || a == without {
			t.Errorf("losses %v, %v again, %v by another seed, %v without dropout", a, again, other, without)
		}
		dropped, _, err := evaluate(m, on(m, 40, isa), params, b)
		if err != nil {
			t.Fatal(err)
		}
		if all, _, err := evaluate(plain, on(plain, 40, isa), params, b); err != nil || dropped != all {
			t.Errorf("an evaluation has the loss %v with dropout and %v without (%v)", dropped, all, err)
		}
	})
}

// A network of one dropout and a sum shows what is left: values are 0 or divided by one
// less the rate, as often as the rate says, and gradients likewise.
func TestDropout_Rate(t *testing.T) {
	const features, n = 1000, 40
	m := parse(t, "layers:values=1000,targets=1;dropout(0.3),dense(1)")
	params, grad := make([]float32, m.Params()), make([]float32, m.Params())
	for i := range features {
		params[i] = 1
	}
	b := &Batch{N: 1, X: make([]float32, features), Targets: []float32{0}}
	for i := range b.X {
		b.X[i] = 1
	}
	left := 0
	for seed := range uint64(n) {
		b.Seed = seed
		loss, err := m.NewWorkspace(1, here()).Gradient(grad, params, b)
		if err != nil {
			t.Fatal(err)
		}
		// The output is the sum of what is left; the weight's gradient is 2·output·input.
		output, kept := math.Sqrt(loss), 0
		for _, g := range grad[:features] {
			switch {
			case g == 0:
			case math.Abs(float64(g)/(2*output)-1/0.7) > 1e-4:
				t.Fatalf("an input of 1 becomes %v", float64(g)/(2*output))
			default:
				kept++
			}
		}
		if math.Abs(output-float64(kept)/0.7) > 1e-3*output {
			t.Errorf("%d values are left and their sum is %v", kept, output)
		}
		left += kept
	}
	// Six standard errors of a share of 40,000.
	if share := float64(left) / (features * n); math.Abs(share-0.7) > 6*math.Sqrt(0.21/(features*n)) {
		t.Errorf("%v of the values are left, want 0.7", share)
	}
}
