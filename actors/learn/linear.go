package learn

import (
	"fmt"

	"fedpace/actors/learn/internal/kernel"
)

func init() { Models.Register("linear", "one layer; its sizes are those of the data", Linear{}) }

// Linear is one layer: on bags of words, whose columns alone are touched, or on
// dense rows. Sizes that are 0 are those of the data.
type Linear struct{ Features, Classes int }

// Model implements [Architecture].
func (a Linear) Model(input Input, features, classes int) (Model, error) {
	if a == (Linear{}) && input != Sparse {
		return MLP{[]int{features, classes}}.Model(input, features, classes)
	}
	if a == (Linear{}) {
		a = Linear{features, classes}
	}
	if err := checkSizes(product(a.Features+1, a.Classes), a.Classes, a.Features, a.Classes); err != nil {
		return nil, err
	}
	return newLinear(a.Features, a.Classes), nil
}

// Parse implements [Architecture].
func (Linear) Parse(sizes string) (Architecture, error) {
	n, err := widths(sizes, "FEATURES,CLASSES", 2)
	if err != nil {
		return nil, err
	}
	return Linear{n[0], n[1]}, nil
}

// linear is one layer on a sparse bag of words. Only the columns of the batch's
// words are read and written.
type linear struct {
	layout
	features, classes int
}

func newLinear(features, classes int) *linear {
	m := &linear{features: features, classes: classes}
	m.spec = fmt.Sprintf("linear:%d,%d", features, classes)
	m.add("weight", fanIn(features), classes, features)
	m.add("bias", fanIn(features), classes)
	return m
}

func (m *linear) Input() Input  { return Sparse }
func (m *linear) Features() int { return m.features }
func (m *linear) Classes() int  { return m.classes }

func (m *linear) NewWorkspace(maxBatch int) Workspace {
	// The sums are short and gathered: plain Go in every class.
	return &linearWork{m: m, max: maxBatch,
		z: make([]float32, maxBatch*m.classes), sum: make([]float32, m.params)}
}

type linearWork struct {
	m   *linear
	max int
	z   []float32 // logits, then their gradient: max × classes
	sum []float32 // gradient of the columns in use, all zero between steps
}

func (w *linearWork) check(params []float32, b *Batch) error {
	w.m.check(params)
	if err := checkBatch(b, w.max, w.m.classes); err != nil {
		return err
	}
	return checkSparse(b, w.m.features)
}

// forward computes the logits.
func (w *linearWork) forward(params []float32, b *Batch) {
	f, c := w.m.features, w.m.classes
	bias := params[f*c:]
	for i := range b.N {
		from, to := b.RowStart[i], b.RowStart[i+1]
		index := b.Index[from:to]
		value := b.Value[from:to]
		value = value[:len(index)]
		z := w.z[i*c:][:c]
		for k := range z {
			row := params[k*f:][:f]
			s := bias[k]
			for j, x := range index {
				s += float32(row[x] * value[j])
			}
			z[k] = s
		}
	}
}

// gradients turns the logits into their gradient and sums it over the batch in
// w.sum. It returns the mean loss.
func (w *linearWork) gradients(b *Batch) (loss float64) {
	f, c := w.m.features, w.m.classes
	scale := 1 / float32(b.N)
	for i := range b.N {
		z := w.z[i*c:][:c]
		loss += softmax(z, int(b.Labels[i]), scale)
		from, to := b.RowStart[i], b.RowStart[i+1]
		index := b.Index[from:to]
		value := b.Value[from:to]
		value = value[:len(index)]
		for k, d := range z {
			row := w.sum[k*f:][:f]
			for j, x := range index {
				row[x] += float32(d * value[j])
			}
			w.sum[f*c+k] += d
		}
	}
	return loss / float64(b.N)
}

func (w *linearWork) Step(params []float32, b *Batch, rate float32) (float64, error) {
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	w.forward(params, b)
	loss := w.gradients(b)
	f, c := w.m.features, w.m.classes
	for k := range c {
		row := params[k*f:][:f]
		sum := w.sum[k*f:][:f]
		// A word that several samples have is applied once: its sum is zero after.
		for _, x := range b.Index {
			row[x] -= float32(rate * sum[x])
			sum[x] = 0
		}
		params[f*c+k] -= float32(rate * w.sum[f*c+k])
		w.sum[f*c+k] = 0
	}
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	return loss, nil
}

func (w *linearWork) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.m.check(grad)
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	w.forward(params, b)
	loss := w.gradients(b)
	copy(grad, w.sum)
	clear(w.sum)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	return loss, nil
}

func (w *linearWork) Evaluate(params []float32, b *Batch) (loss float64, correct int, err error) {
	if err := w.check(params, b); err != nil {
		return 0, 0, err
	}
	w.forward(params, b)
	c := w.m.classes
	for i, y := range b.Labels {
		z := w.z[i*c:][:c]
		if first(z) == int(y) {
			correct++
		}
		loss += softmax(z, int(y), 1)
	}
	if !finite(loss) {
		return loss, 0, ErrNotFinite
	}
	return loss, correct, nil
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
