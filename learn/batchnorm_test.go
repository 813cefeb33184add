package learn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/internal/kernel"
	"fedpace/learn/metric"
)

// normed is a batch norm of two features, and an output that is their sum.
const normed = "layers:values=2,targets=1;batch_norm,dense(1)"

// normedParams are γ, β, the weights and the bias, the running values and the number of batches.
func normedParams() []float32 { return []float32{1, 2, 0, 0.5, 1, 1, 0, 10, 20, 4, 9, 7} }

// Running values go a tenth of the way to a minibatch's mean and unbiased variance, which one computes by
// hand: of 1, 3, 8 they are 4 and 13, and of 2, 2, 5 they are 3 and 3.
func TestBatchNorm_RunningValuesByHand(t *testing.T) {
	m := parse(t, normed)
	b := &Batch{N: 3, X: []float32{1, 2, 3, 2, 8, 5}, Targets: []float32{0, 0, 0}}
	want := []float32{0.9*10 + 0.4, 0.9*20 + 0.3, 0.9*4 + 1.3, 0.9*9 + 0.3, 8}
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		for name, move := range map[string]func(w Workspace, params []float32) (float64, error){
			"step": func(w Workspace, params []float32) (float64, error) { return w.Step(params, b, 0.1) },
			"gradient": func(w Workspace, params []float32) (float64, error) {
				return w.Gradient(make([]float32, 12), params, b)
			},
		} {
			params := normedParams()
			if _, err := move(on(m, 3, isa), params); err != nil {
				t.Fatal(err)
			}
			for i, v := range want {
				if math.Abs(float64(params[7+i]-v)) > 1e-6 {
					t.Errorf("%s: buffers are %v, want %v", name, params[7:], want)
				}
			}
			if moved := !slices.Equal(params[:7], normedParams()[:7]); moved != (name == "step") {
				t.Errorf("%s: parameters are %v", name, params[:7])
			}
		}
	})
}

// An evaluation goes by the running values, sample by sample, and changes nothing: at (12, 23) they make
// 1 and 2·1 + 0.5 of the features.
func TestBatchNorm_EvaluationByHand(t *testing.T) {
	m := parse(t, normed)
	params := normedParams()
	for _, samples := range []int{1, 40} {
		b := &Batch{N: samples}
		for range samples {
			b.X = append(b.X, 12, 23)
			b.Targets = append(b.Targets, 0)
		}
		loss, err := m.NewWorkspace(40, here()).Evaluate(params, b, make([]Score, 1))
		if want := 3.5 * 3.5 * float64(samples); err != nil || math.Abs(loss-want) > 1e-4*want {
			t.Errorf("%d samples: the loss is %v, want %v (%v)", samples, loss, want, err)
		}
	}
	if !slices.Equal(params, normedParams()) {
		t.Errorf("an evaluation left %v", params)
	}
}

// An evaluation keeps the outputs of all blocks in the order of the samples, and measures absolute errors in
// the unit of the user's data, as that of a model without a batch norm does.
func TestBatchNorm_EvaluationKeepsOutcomes(t *testing.T) {
	m := parse(t, normed)
	const samples = 40
	b := &Batch{N: samples, Units: []float64{10}, Outcomes: new(metric.Outcomes)}
	var want []float32
	for i := range samples {
		// The running values make i of the first feature, and 0.5 of the second.
		b.X = append(b.X, 10+2*float32(i), 20)
		b.Targets = append(b.Targets, 0)
		want = append(want, float32(i)+0.5)
	}
	scores := make([]Score, 1)
	if _, err := m.NewWorkspace(samples, here()).Evaluate(normedParams(), b, scores); err != nil {
		t.Fatal(err)
	}
	got := b.Outcomes.Outputs
	if len(got) != samples || b.Outcomes.Width != 1 {
		t.Fatalf("%d outputs in rows of %d, want %d in rows of 1", len(got), b.Outcomes.Width, samples)
	}
	sum := 0.0
	for i, y := range want {
		sum += float64(y)
		if math.Abs(float64(got[i]-y)) > 1e-3 {
			t.Errorf("output %d is %v, want %v", i, got[i], y)
		}
	}
	if math.Abs(scores[0].Sum-10*sum) > 1e-2*sum || scores[0].Weight != samples {
		t.Errorf("the absolute errors are %v, want %v", scores[0], 10*sum)
	}
}

// A frozen batch norm takes its running values in training, too, on one sample as well, and keeps them. It
// is an affine layer then: the gradient before it is that behind it times γ/sqrt(σ² + ε).
func TestBatchNorm_Frozen(t *testing.T) {
	for _, layers := range []string{"dense(2),batch_norm(frozen),dense(1)", "dense(2),residual([batch_norm],frozen),dense(1)"} {
		m := parse(t, "layers:values=2,targets=1;"+layers)
		if m.Trainable() != 9 || Communicated(m) != 9 || m.Params() != 18 || LeastBatch(m) != 1 {
			t.Fatalf("%s: %d of %d parameters train, %d travel, from %d samples on", layers, m.Trainable(), m.Params(), Communicated(m), LeastBatch(m))
		}
		// Both dense layers keep what they read, or add it up. γ is 1 and 2, β 0 and 0.5, the running means
		// are 10 and 20, the variances 4 and 9.
		params := []float32{1, 0, 0, 1, 0, 0, 1, 1, 0, 1, 2, 0, 0.5, 10, 20, 4, 9, 7}
		before := slices.Clone(params)
		b := &Batch{N: 1, X: []float32{12, 23}, Targets: []float32{0}}
		gradient := make([]float32, 18)
		loss, err := m.NewWorkspace(1, here()).Gradient(gradient, params, b)
		output, slope := 3.5, [2]float64{0.5, 2.0 / 3}
		// A residual layer adds its input.
		if strings.Contains(layers, "residual") {
			output += 35
			slope[0]++
			slope[1]++
		}
		if err != nil || math.Abs(loss-output*output) > 1e-3 {
			t.Fatalf("%s: the loss is %v, want %v (%v)", layers, loss, output*output, err)
		}
		for i, s := range slope {
			if got, want := float64(gradient[4+i]), 2*output*s; math.Abs(got-want) > 1e-4*want {
				t.Errorf("%s: the gradient of bias %d is %v, want %v", layers, i, got, want)
			}
		}
		if _, err := m.NewWorkspace(1, here()).Step(params, b, 0.01); err != nil || !slices.Equal(params[9:], before[9:]) {
			t.Errorf("%s: a step left %v behind what trains (%v)", layers, params[9:], err)
		}
	}
}

// One value has no variance, so a minibatch of one sample is refused, as PyTorch does, unless a channel
// has several positions.
func TestBatchNorm_OneSample(t *testing.T) {
	for layers, least := range map[string]int{
		"values=2,targets=1;batch_norm,dense(1)":                                         2,
		"values=2,targets=1;residual([batch_norm]),dense(1)":                             2,
		"image=1x4x4,targets=1;batch_norm,flatten,dense(1)":                              1,
		"image=1x4x4,targets=1;conv(2,4,0,1),batch_norm,flatten,dense(1)":                2,
		"tokens=5x7,targets=1;embedding(2),batch_norm,average,dense(1)":                  1,
		"tokens=5x7,targets=1;embedding(2),average,batch_norm,dense(1)":                  2,
		"values=2,targets=1;norm(1),dense(1)":                                            1,
		"values=2,targets=1;dense(3),batch_norm(frozen),residual([batch_norm]),dense(1)": 2,
	} {
		m := parse(t, "layers:"+layers)
		if got := LeastBatch(m); got != least {
			t.Errorf("%s trains on %d samples, want %d", layers, got, least)
		}
		params := make([]float32, m.Params())
		m.Init(params, 1)
		w := m.NewWorkspace(2, here())
		b := layeredBatch(m, 1)
		_, err := w.Step(slices.Clone(params), b, 0.1)
		if refused := err != nil && strings.Contains(err.Error(), "batch of 1 sample; batch_norm trains on at least 2"); refused != (least == 2) {
			t.Errorf("%s: %v", layers, err)
		}
		if _, err := w.Evaluate(params, b, make([]Score, 1)); err != nil {
			t.Errorf("%s: %v", layers, err)
		}
	}
}

// Whatever layers a network with batch norms has, the order of a minibatch's samples does not matter, in one
// block or in several, and layers that are computed together make what they make one by one. Buffers
// follow likewise.
func TestBatchNorm_DrawnLayers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := "layers:" + rapid.SampledFrom([]string{
			"values=6,classes=3;batch_norm,", "image=2x7x8,classes=3;", "image=4x6x5,targets=3;batch_norm,", "tokens=5x7,classes=3;embedding(4),batch_norm,",
		}).Draw(t, "samples")
		list, apart := drawList(t, before, 0, "batch_norm", "batch_norm", "batch_norm")
		const end = ",flatten,dense(4),batch_norm,relu,dense(3)"
		m, err := Parse(before + list + end)
		if err != nil {
			t.Fatal(err)
		}
		one, err := Parse(before + apart + ",dropout(0),flatten,dropout(0),dense(4),dropout(0),batch_norm,dropout(0),relu,dense(3)")
		if err != nil {
			t.Fatal(err)
		}
		isa := rapid.SampledFrom(kernel.Available()).Draw(t, "instructions")
		b := layeredBatch(m, rapid.SampledFrom([]int{3, 32, 37, 70}).Draw(t, "minibatch"))
		take := func(m Model, b *Batch) (gradient, buffers []float64) {
			params, g := layeredWeights(m, isScale(m)), make([]float32, m.Params())
			if _, err := on(m, 70, isa).Gradient(g, params, b); err != nil {
				t.Fatal(m, err)
			}
			return wide(g), wide(params[m.Trainable():])
		}
		gradient, buffers := take(m, b)
		scale := euclid(gradient)
		for i := range b.N {
			scale += euclid(gradientOf(t, m, b, i, isa)) / float64(b.N)
		}
		for name, other := range map[string]func() (gradient, buffers []float64){
			"the reverse order": func() (gradient, buffers []float64) { return take(m, reversed(b)) },
			"layers one by one": func() (gradient, buffers []float64) { return take(one, b) },
		} {
			g, running := other()
			if d := apartBy(g, gradient); d > far*scale {
				t.Errorf("%s, %d samples on %v: the gradient is %.2g of its scale from that of %s", m, b.N, isa, d/scale, name)
			}
			if d := apartBy(running, buffers); d > far*euclid(buffers) {
				t.Errorf("%s, %d samples on %v: buffers are %.2g from those of %s", m, b.N, isa, d, name)
			}
		}
	})
}

// gradientOf is the gradient of two samples, number i of a batch and the next.
func gradientOf(t *rapid.T, m Model, b *Batch, i int, isa kernel.ISA) []float64 {
	pair := joined(only(b, i), only(b, (i+1)%b.N))
	g := make([]float32, m.Params())
	if _, err := on(m, 2, isa).Gradient(g, layeredWeights(m, isScale(m)), pair); err != nil {
		t.Fatal(m, err)
	}
	return wide(g)
}

// joined has the samples of both batches.
func joined(a, b *Batch) *Batch {
	return &Batch{
		N:       a.N + b.N,
		Labels:  slices.Concat(a.Labels, b.Labels),
		Targets: slices.Concat(a.Targets, b.Targets),
		X:       slices.Concat(a.X, b.X),
		Tokens:  slices.Concat(a.Tokens, b.Tokens),
	}
}

// reversed has the samples of a batch in the reverse order.
func reversed(b *Batch) *Batch {
	all := &Batch{}
	for i := range b.N {
		all = joined(only(b, i), all)
	}
	return all
}
