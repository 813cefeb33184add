package network

import "fedpace/learn/internal/kernel"

// linearWork is a model of one dense layer on bags of words with softmax cross-entropy. It works sample
// by sample.
type linearWork struct{ columns }

// Gradients implements [Arithmetic]: it returns the batch's mean loss and leaves its gradient in
// w.sum, which Update reads.
func (w *linearWork) Gradients(params []float32, b *Batch) (loss float64) {
	for i := range b.N {
		index, value := w.forward(params, b, i)
		loss += Softmax(w.z, int(b.Labels[i]), 1/float32(b.N))
		w.addGradient(index, value)
	}
	return loss / float64(b.N)
}

// Evaluate implements [Arithmetic]: it returns the sum of the samples' losses, and adds the number
// of those that are classified correctly to the first score.
func (w *linearWork) Evaluate(params []float32, b *Batch, scores []Score) (loss float64) {
	correct := 0
	for i, y := range b.Labels {
		w.forward(params, b, i)
		// Metrics over all samples take the logits from the batch, before CrossEntropy overwrites them.
		b.KeepSample(w.z)
		s, right := CrossEntropy(w.z, int(y))
		loss += s
		correct += right
	}
	scores[0].Count(correct, b.N)
	return loss
}

// CrossEntropy returns one sample's cross-entropy, and whether it is classified correctly: 1 if label is
// the first largest logit, otherwise 0. It overwrites the logits z.
func CrossEntropy(z []float32, label int) (loss float64, correct int) {
	if firstLargest(z) == label {
		correct = 1
	}
	return Softmax(z, label, 1), correct
}

// firstLargest returns the index of the largest value, the first one of equal ones. z must not be empty.
func firstLargest(z []float32) int {
	index := 0
	for k, v := range z {
		if v > z[index] {
			index = k
		}
	}
	return index
}

// Softmax replaces one sample's logits by the gradient of its cross-entropy
// times scale, and returns the cross-entropy.
func Softmax(z []float32, label int, scale float32) float64 {
	top := z[firstLargest(z)]
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
