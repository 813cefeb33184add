package learn

import (
	"fmt"

	"fedpace/actors/learn/internal/kernel"
)

func init() {
	Models.Register("cnn", "two convolutions with pooling and two dense layers, on images", CNN{})
}

// CNN is two 3×3 convolutions, each with ReLU and 2×2 max pooling, a dense layer
// and the classes (CIFAR-100's is 3x32x32,32,64,512,100).
type CNN struct {
	Image   []int `key:"image" range:"[1,1048576]" help:"channels, height and width of a sample"`
	Maps    []int `key:"maps" range:"[1,1048576]" help:"channels of the two convolutions"`
	Hidden  int   `key:"hidden" range:"[1,1048576]" help:"width of the dense layer"`
	Classes int   `key:"classes" range:"[2,1048576]" help:"labels"`
}

// pooled is what a convolution and a pooling leave of n.
func pooled(n int) int { return (n - 2) / 2 }

func (a CNN) Model(Samples) (Model, error) {
	if len(a.Image) != 3 || len(a.Maps) != 2 {
		return nil, fmt.Errorf("an image of %d sizes and %d convolutions, want 3 (channels, height, width) and 2", len(a.Image), len(a.Maps))
	}
	c, h, w := a.Image[0], a.Image[1], a.Image[2]
	y, x := pooled(pooled(h)), pooled(pooled(w))
	switch {
	case y < 1 || x < 1:
		return nil, fmt.Errorf("an image of %d×%d leaves nothing after two convolutions and poolings; at least 10×10", h, w)
	case product(c, h, w) > maxWidth:
		return nil, fmt.Errorf("an image of more than %d values", maxWidth)
	}
	params := product(9, c+a.Maps[1], a.Maps[0]) + product(a.Maps[1], y*x, a.Hidden) + product(a.Hidden, a.Classes)
	if err := checkSizes(params, a.Classes, c, h, w, a.Maps[0], a.Maps[1], a.Hidden, a.Classes); err != nil {
		return nil, err
	}
	spec := fmt.Sprintf("cnn:%dx%dx%d,%d,%d,%d,%d", c, h, w, a.Maps[0], a.Maps[1], a.Hidden, a.Classes)
	m := &model{of: a, spec: spec, metrics: accuracy,
		samples: Samples{Input: Dense, Features: c * h * w, Classes: a.Classes, Image: [3]int{c, h, w}}}
	// As in a PyTorch Sequential of conv, ReLU, pool, conv, ReLU, pool, flatten,
	// linear, ReLU, linear.
	in := c
	for i, out := range a.Maps {
		m.addLayer(fmt.Sprintf("%d.", 3*i), fanIn(9*in), out, in, 3, 3)
		in = out
	}
	flat := a.Maps[1] * y * x
	m.addLayer("7.", fanIn(flat), a.Hidden, flat)
	m.addLayer("9.", fanIn(a.Hidden), a.Classes, a.Hidden)
	m.arithmetic = func(maxBatch int, isa kernel.ISA) arithmetic {
		w := &cnnWork{height: h, width: w, dflat: aligned(flat * kernel.Lanes)}
		w.stack = newStack(isa, []int{flat, a.Hidden, a.Classes}, m.tensors[4].Offset, maxBatch)
		w.layers[0].rows = aligned(maxBatch * flat)
		// What no pooling reads is not computed, nor is its gradient anything but zero.
		w.first = newConv(isa, c, a.Maps[0], 2*y+2, 2*x+2, m.tensors[0].Offset, false)
		w.second = newConv(isa, a.Maps[0], a.Maps[1], y, x, m.tensors[2].Offset, true)
		return blockwise{w, &w.head}
	}
	return m, nil
}

func (CNN) Parse(sizes string) (Architecture, error) {
	var n [7]int
	err := scan(sizes, "an image's CHANNELSxHEIGHTxWIDTH,CHANNELS,CHANNELS,HIDDEN,CLASSES", &n)
	return CNN{n[:3], n[3:5], n[5], n[6]}, err
}

type cnnWork struct {
	height, width int
	first, second *conv
	*stack
	dflat []float32 // gradient of the dense layers' input
}

func (w *cnnWork) begin(params []float32, _ *Batch) {
	w.first.begin(params)
	w.second.begin(params)
}

func (w *cnnWork) forward(params []float32, b *Batch, k, from, n int, keep bool) []float32 {
	first, second := w.first, w.second
	first.image(b.X[from*first.in*w.height*w.width:], n, w.height, w.width)
	// The next layer reads positions, the dense layers read channels first.
	first.forward(second.x, first.out*kernel.Lanes, kernel.Lanes, n)
	if keep {
		second.transpose(n)
	}
	flat := w.layers[0].input(k)
	second.forward(flat, kernel.Lanes, second.py*second.px*kernel.Lanes, n)
	if keep {
		w.layers[0].keep(k, n)
	}
	return w.stack.forward(params, k, n)
}

// backward leaves the gradients of the convolutions in them and those of the dense
// layers' outputs in the stack.
func (w *cnnWork) backward(params []float32, b *Batch, k, from, n int) (loss float64) {
	first, second := w.first, w.second
	loss = w.stack.backward(params, b, k, from, n)
	w.layers[0].backward(w.dflat, params, k, n, true)
	second.backward(w.dflat, kernel.Lanes, second.py*second.px*kernel.Lanes, n)
	second.inputGradient(n)
	first.backward(second.dx, first.out*kernel.Lanes, kernel.Lanes, n)
	return loss
}

func (w *cnnWork) update(dst []float32, b *Batch, op kernel.Op, alpha float32) {
	w.stack.update(dst, b.N, op, alpha)
	w.first.update(dst, op, alpha)
	w.second.update(dst, op, alpha)
}
