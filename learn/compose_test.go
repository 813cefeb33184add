package learn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/internal/kernel"
)

// pieces are layers of which lists are drawn; a residual's own are drawn, too.
var pieces = []string{
	"dense(6)", "dense(4)", "relu", "norm(2)", "layer_norm", "conv(4,3,1,1)", "conv(6,1,0,1)", "conv(4,3,1,2)", "conv(4,2,0,1)", "pool(2)", "pool(3)",
	"average", "flatten", "gru(4,2,all)", "gru(6,1,last)", "residual", "residual", "residual",
}

// drawList draws layers that fit those before them, which are the beginning of a name, from pieces and
// others. It returns them as they are, and with a layer between all of them that does nothing and keeps
// them from being computed together.
func drawList(t *rapid.T, before string, depth int, others ...string) (list, apart string) {
	var parts, spaced []string
	for range rapid.IntRange(1, 5).Draw(t, "layers") {
		part := rapid.SampledFrom(slices.Concat(pieces, others)).Draw(t, "layer")
		alone := part
		if part == "residual" {
			if depth == 3 {
				continue
			}
			body, apart := drawList(t, before+strings.Join(append(slices.Clone(parts), ""), ","), depth+1, others...)
			part, alone = "residual(["+body+"])", "residual(["+apart+"])"
		}
		if _, err := Parse(before + strings.Join(append(slices.Clone(parts), part, "flatten", "dense(3)"), ",")); err == nil {
			parts, spaced = append(parts, part), append(spaced, alone)
		}
	}
	if parts == nil {
		return "relu", "relu"
	}
	return strings.Join(parts, ","), strings.Join(spaced, ",dropout(0),")
}

// far is how much gradients may differ by rounding, which norms of few values make larger.
const far = 1e-4

// Whatever layers a network has, the gradient of a minibatch is the mean of its samples'
// gradients, and that of the same layers computed one by one.
func TestGradient_DrawnLayers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := "layers:" + rapid.SampledFrom([]string{
			"values=6,classes=3;", "values=6,targets=3;", "image=2x7x8,classes=3;", "image=4x6x5,targets=3;", "tokens=5x7,classes=3;embedding(4),",
		}).Draw(t, "samples")
		list, apart := drawList(t, before, 0)
		name := before + list + ",flatten,dense(3)"
		m, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		isa := rapid.SampledFrom(kernel.Available()).Draw(t, "instructions")
		params, b := layeredWeights(m, isScale(m)), layeredBatch(m, rapid.SampledFrom([]int{3, 32, 37, 70}).Draw(t, "minibatch"))
		gradient := func(m Model, b *Batch) []float64 {
			g := make([]float32, m.Params())
			if _, err := on(m, 70, isa).Gradient(g, params, b); err != nil {
				t.Fatal(name, err)
			}
			return wide(g)
		}
		got, mean, scale := gradient(m, b), make([]float64, len(params)), 0.0
		for i := range b.N {
			g := gradient(m, only(b, i))
			for j, v := range g {
				mean[j] += v / float64(b.N)
			}
			scale += euclid(g) / float64(b.N)
		}
		if d := apartBy(got, mean); d > far*scale {
			t.Errorf("%s, %d samples on %v: the gradient is %.2g of its scale from the samples'", name, b.N, isa, d/scale)
		}
		one, err := Parse(before + apart + ",dropout(0),flatten,dropout(0),dense(3)")
		if err != nil {
			t.Fatal(err)
		}
		if d := apartBy(got, gradient(one, b)); d > far*scale {
			t.Errorf("%s, %d samples on %v: the gradient is %.2g of its scale from that of its layers one by one", name, b.N, isa, d/scale)
		}
	})
}

// only is sample i of a batch.
func only(b *Batch, i int) *Batch {
	return &Batch{N: 1, Labels: part(b.Labels, b.N, i), Targets: part(b.Targets, b.N, i), X: part(b.X, b.N, i), Tokens: part(b.Tokens, b.N, i)}
}

// part is part i of n equal ones.
func part[T any](all []T, n, i int) []T { return all[len(all)/n*i:][:len(all)/n] }

func euclid(x []float64) float64 { return apartBy(x, make([]float64, len(x))) }

// apartBy is the Euclidean distance.
func apartBy(a, b []float64) float64 {
	var sum float64
	for i, v := range a {
		sum += (v - b[i]) * (v - b[i])
	}
	return math.Sqrt(sum)
}
