package learn

import (
	"fmt"

	"fedpace/actors/learn/internal/kernel"
)

func init() { Models.Register("linear", "one layer; its sizes are those of the data", Linear{}) }

// Linear is one layer: on bags of words, of which only the columns of a batch's words
// are read and written, or on dense rows. Sizes that are 0 are those of the data.
type Linear struct{ Features, Classes int }

func (a Linear) Model(of Samples) (Model, error) {
	if a == (Linear{}) && of.Input != Sparse {
		return MLP{[]int{of.Features, of.Classes}}.Model(of)
	}
	if a == (Linear{}) {
		a = Linear{of.Features, of.Classes}
	}
	if err := checkSizes(product(a.Features+1, a.Classes), a.Classes, a.Features, a.Classes); err != nil {
		return nil, err
	}
	spec := fmt.Sprintf("linear:%d,%d", a.Features, a.Classes)
	m := &model{of: a, spec: spec, samples: Samples{Input: Sparse, Features: a.Features, Classes: a.Classes}, metrics: accuracy}
	m.addLayer("", fanIn(a.Features), a.Classes, a.Features)
	m.arithmetic = func(int, kernel.ISA) arithmetic {
		return &linearWork{a.Features, make([]float32, a.Classes), make([]float32, m.params)}
	}
	return m, nil
}

func (Linear) Parse(sizes string) (Architecture, error) {
	var n [2]int
	err := scan(sizes, "FEATURES,CLASSES", &n)
	return Linear{n[0], n[1]}, err
}

// linearWork is plain Go whatever the kernel: the sums are short and gathered.
type linearWork struct {
	features int
	z        []float32 // a sample's logits, then their gradient
	sum      []float32 // gradient of the columns in use, all zero between steps
}

// forward computes the logits of sample i.
func (w *linearWork) forward(params []float32, b *Batch, i int) (index []int32, value []float32) {
	f := w.features
	index, value = b.row(i)
	bias := params[f*len(w.z):]
	for k := range w.z {
		row := params[k*f:][:f]
		s := bias[k]
		for j, x := range index {
			s += float32(row[x] * value[j])
		}
		w.z[k] = s
	}
	return index, value
}

func (w *linearWork) gradients(params []float32, b *Batch) (loss float64) {
	f := w.features
	for i := range b.N {
		index, value := w.forward(params, b, i)
		loss += softmax(w.z, int(b.Labels[i]), 1/float32(b.N))
		for k, d := range w.z {
			row := w.sum[k*f:][:f]
			for j, x := range index {
				row[x] += float32(d * value[j])
			}
			w.sum[f*len(w.z)+k] += d
		}
	}
	return loss / float64(b.N)
}

func (w *linearWork) update(dst []float32, b *Batch, op kernel.Op, alpha float32) {
	if op == kernel.Store {
		copy(dst, w.sum)
		clear(w.sum)
		return
	}
	f, c := w.features, len(w.z)
	for k := range c {
		row := dst[k*f:][:f]
		sum := w.sum[k*f:][:f]
		// A word that several samples have is applied once: its sum is zero after.
		for _, x := range b.Index {
			row[x] += float32(alpha * sum[x])
			sum[x] = 0
		}
		dst[f*c+k] += float32(alpha * w.sum[f*c+k])
		w.sum[f*c+k] = 0
	}
}

func (w *linearWork) evaluate(params []float32, b *Batch, scores []Score) (loss float64) {
	correct := 0
	for i, y := range b.Labels {
		w.forward(params, b, i)
		s, right := score(w.z, int(y))
		loss += s
		correct += right
	}
	scores[0].count(correct, b.N)
	return loss
}

// score is one sample's cross-entropy, and 1 where its label is the first largest
// logit, else 0. It overwrites the logits.
func score(z []float32, label int) (loss float64, correct int) {
	if first(z) == label {
		correct = 1
	}
	return softmax(z, label, 1), correct
}

// first is the index of the first largest.
func first(z []float32) int {
	at := 0
	for k, v := range z {
		if v > z[at] {
			at = k
		}
	}
	return at
}

// softmax replaces one sample's logits by the gradient of its cross-entropy
// times scale, and returns the cross-entropy.
func softmax(z []float32, label int, scale float32) float64 {
	top := z[first(z)]
	right := float64(z[label]) - float64(top)
	var sum float32
	for k, v := range z {
		e := kernel.Exp(v - top)
		z[k] = e
		sum += e
	}
	s := scale / sum
	for k := range z {
		z[k] *= s
	}
	z[label] -= scale
	return kernel.Log(float64(sum)) - right
}
