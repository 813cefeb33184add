package learn

import "fedpace/actors/learn/internal/kernel"

// stack is dense layers with ReLU between them and softmax cross-entropy behind:
// all of an mlp, the end of the other networks. It keeps, for every layer and
// every block of the batch, what the backward pass needs again.
type stack struct {
	layers []dense
	x      [][]float32 // inputs of layer l, blocks feature-major
	rows   [][]float32 // the same sample by sample; its owner sets layer 0's
	dy     [][]float32 // logits of the last layer; gradients of layer l's outputs
	head   head
}

// newStack takes the layers' widths and the offset of the first one's weight.
func newStack(c kernel.Class, widths []int, offset, maxBatch int) *stack {
	blocks := (maxBatch + kernel.Lanes - 1) / kernel.Lanes
	layers := len(widths) - 1
	s := &stack{rows: make([][]float32, layers), head: head{class: c, classes: widths[layers]}}
	for l := range layers {
		d := dense{class: c, in: widths[l], out: widths[l+1], offset: offset, relu: l+1 < layers}
		offset += (d.in + 1) * d.out
		s.layers = append(s.layers, d)
		s.x = append(s.x, aligned(blocks*d.in*kernel.Lanes))
		s.dy = append(s.dy, aligned(blocks*d.out*kernel.Lanes))
		if l > 0 {
			s.rows[l] = aligned(maxBatch * d.in)
		}
	}
	return s
}

// input is where block k of the first layer's input goes, feature-major.
func (s *stack) input(k int) []float32 { return block(s.x[0], k, s.layers[0].in) }

// forward runs block k, of n samples, from its input to its logits.
func (s *stack) forward(params []float32, k, n int) []float32 {
	x := s.input(k)
	for l := range s.layers {
		d := &s.layers[l]
		y := block(s.dy[l], k, d.out)
		if d.relu {
			y = block(s.x[l+1], k, d.out)
		}
		d.forward(y, params, x, n)
		x = y
	}
	return x
}

// backward goes on from the logits of block k to the gradients of every layer's
// outputs, scaled, and returns the sum of the samples' losses.
func (s *stack) backward(params []float32, k int, labels []int32, scale float32) (loss float64) {
	n := len(labels)
	last := len(s.layers) - 1
	loss = s.head.gradient(block(s.dy[last], k, s.layers[last].out), labels, scale)
	for l := last; l > 0; l-- {
		d := &s.layers[l]
		x := block(s.x[l], k, d.in)
		d.backward(block(s.dy[l-1], k, d.in), params, block(s.dy[l], k, d.out), x, n)
		s.keep(l, k, n)
	}
	return loss
}

// keep writes block k of layer l's inputs, of n samples, sample by sample.
func (s *stack) keep(l, k, n int) {
	d := &s.layers[l]
	d.class.Transpose(kernel.Matrix{Data: s.rows[l][k*kernel.Lanes*d.in:], LD: d.in}, kernel.Block(block(s.x[l], k, d.in)), d.in, n)
}

// inputGradient writes the gradient of block k's input. Where the input is a
// ReLU's output, relu, it goes through that too.
func (s *stack) inputGradient(dx, params []float32, k, n int, relu bool) {
	d := &s.layers[0]
	var x []float32
	if relu {
		x = s.input(k)
	}
	d.backward(dx, params, block(s.dy[0], k, d.out), x, n)
}

// update adds alpha times the gradient of the whole batch to dst, or stores it.
func (s *stack) update(dst []float32, samples int, op kernel.Op, alpha float32) {
	for l := range s.layers {
		d := &s.layers[l]
		op := op
		for k, from := 0, 0; from < samples; k, from = k+1, from+kernel.Lanes {
			n := min(kernel.Lanes, samples-from)
			d.update(dst, block(s.dy[l], k, d.out), s.rows[l][from*d.in:], n, op, alpha)
			op = kernel.Add
		}
	}
}
