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
	samples := Samples{Input: Sparse, Features: a.Features, Classes: a.Classes}
	return sequential(a, fmt.Sprintf("linear:%d,%d", a.Features, a.Classes), samples, []Layer{DenseLayer{a.Classes}}, ""), nil
}

func (Linear) Parse(sizes string) (Architecture, error) {
	var n [2]int
	err := scan(sizes, "FEATURES,CLASSES", &n)
	return Linear{n[0], n[1]}, err
}

// linearWork is a dense layer on bags of words and softmax cross-entropy, sample by
// sample.
type linearWork struct{ columns }

func (w *linearWork) gradients(params []float32, b *Batch) (loss float64) {
	for i := range b.N {
		index, value := w.forward(params, b, i)
		loss += softmax(w.z, int(b.Labels[i]), 1/float32(b.N))
		w.add(index, value)
	}
	return loss / float64(b.N)
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
