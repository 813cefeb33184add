package learn

import (
	"fmt"
	"strings"

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

// Model implements [Architecture].
func (a CNN) Model(Input, int, int) (Model, error) {
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
	return newCNN(c, h, w, [2]int{a.Maps[0], a.Maps[1]}, a.Hidden, a.Classes), nil
}

// Parse implements [Architecture].
func (CNN) Parse(sizes string) (Architecture, error) {
	image, rest, _ := strings.Cut(sizes, ",")
	if strings.Count(image, "x") != 2 {
		return nil, fmt.Errorf("%q is not an image's CHANNELSxHEIGHTxWIDTH", image)
	}
	n, err := widths(strings.ReplaceAll(image, "x", ",")+","+rest, "CHANNELSxHEIGHTxWIDTH,CHANNELS,CHANNELS,HIDDEN,CLASSES", 7)
	if err != nil {
		return nil, err
	}
	return CNN{n[:3], n[3:5], n[5], n[6]}, nil
}

// cnn is two 3×3 convolutions without padding, each with ReLU and 2×2 max
// pooling, and dense layers on what they leave.
type cnn struct {
	layout
	channels, height, width int
	maps                    [2]int
	hidden, classes         int
}

// pooled is what a convolution and a pooling leave of n.
func pooled(n int) int { return (n - 2) / 2 }

func newCNN(channels, height, width int, maps [2]int, hidden, classes int) *cnn {
	m := &cnn{channels: channels, height: height, width: width, maps: maps, hidden: hidden, classes: classes}
	m.spec = fmt.Sprintf("cnn:%dx%dx%d,%d,%d,%d,%d", channels, height, width, maps[0], maps[1], hidden, classes)
	// As in a PyTorch Sequential of conv, ReLU, pool, conv, ReLU, pool, flatten,
	// linear, ReLU, linear.
	in := channels
	for i, out := range maps {
		m.add(fmt.Sprintf("%d.weight", 3*i), fanIn(9*in), out, in, 3, 3)
		m.add(fmt.Sprintf("%d.bias", 3*i), fanIn(9*in), out)
		in = out
	}
	flat := m.flat()
	m.add("7.weight", fanIn(flat), hidden, flat)
	m.add("7.bias", fanIn(flat), hidden)
	m.add("9.weight", fanIn(hidden), classes, hidden)
	m.add("9.bias", fanIn(hidden), classes)
	return m
}

func (m *cnn) Input() Input  { return Dense }
func (m *cnn) Features() int { return m.channels * m.height * m.width }
func (m *cnn) Classes() int  { return m.classes }

// Image is the shape of a sample, see [Imager].
func (m *cnn) Image() (channels, height, width int) { return m.channels, m.height, m.width }

// flat is the number of features that reach the dense layers.
func (m *cnn) flat() int { return m.maps[1] * pooled(pooled(m.height)) * pooled(pooled(m.width)) }

func (m *cnn) NewWorkspace(maxBatch int) Workspace { return m.workspace(maxBatch, class()) }

func (m *cnn) workspace(maxBatch int, c kernel.Class) *cnnWork {
	w := &cnnWork{m: m, max: maxBatch, class: c}
	w.dense = newStack(c, []int{m.flat(), m.hidden, m.classes}, m.tensors[4].Offset, maxBatch)
	w.dense.rows[0] = aligned(maxBatch * m.flat())
	w.dflat = aligned(m.flat() * kernel.Lanes)
	// From the end: what no pooling reads is not computed, nor is its gradient
	// anything but zero.
	y, x := pooled(pooled(m.height)), pooled(pooled(m.width))
	for i := 1; i >= 0; i-- {
		in := m.channels
		if i > 0 {
			in = m.maps[0]
		}
		w.conv[i] = newConv(c, in, m.maps[i], y, x, m.tensors[2*i].Offset, i > 0)
		y, x = 2*y+2, 2*x+2
	}
	return w
}

type cnnWork struct {
	m     *cnn
	max   int
	class kernel.Class
	conv  [2]*conv
	dense *stack
	dflat []float32 // gradient of the dense layers' input
}

func (w *cnnWork) check(params []float32, b *Batch) error {
	w.m.check(params)
	if err := checkBatch(b, w.max, w.m.classes); err != nil {
		return err
	}
	return checkDense(b, w.m.Features())
}

// forward runs n samples, row by row in x, up to the logits of the dense layers'
// block k. Where keep is set it leaves what backward needs.
func (w *cnnWork) forward(params, x []float32, k, n int, keep bool) []float32 {
	w.conv[0].image(x, n, w.m.height, w.m.width)
	first, second := w.conv[0], w.conv[1]
	// The next layer reads positions, the dense layers read channels first.
	first.forward(second.x, first.out*kernel.Lanes, kernel.Lanes, params, n)
	if keep {
		second.transpose(n)
	}
	flat := w.dense.input(k)
	second.forward(flat, kernel.Lanes, second.py*second.px*kernel.Lanes, params, n)
	if keep {
		w.dense.layers[0].transpose(w.dense.rows[0], flat, k, n)
	}
	return w.dense.forward(params, k, n)
}

// gradients runs the batch forward and back; it leaves the gradients of the
// convolutions in them and those of the dense layers' outputs in the stack.
func (w *cnnWork) gradients(params []float32, b *Batch) (loss float64) {
	for _, c := range w.conv {
		c.begin(params)
	}
	first, second := w.conv[0], w.conv[1]
	for k, from := 0, 0; from < b.N; k, from = k+1, from+kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		w.forward(params, b.X[from*w.m.Features():], k, n, true)
		loss += w.dense.backward(params, k, b.Labels[from:from+n], 1/float32(b.N))
		w.dense.inputGradient(w.dflat, params, k, n, true)
		second.backward(w.dflat, kernel.Lanes, second.py*second.px*kernel.Lanes, n)
		second.inputGradient(n)
		first.backward(second.dx, first.out*kernel.Lanes, kernel.Lanes, n)
	}
	return loss / float64(b.N)
}

func (w *cnnWork) Step(params []float32, b *Batch, rate float32) (float64, error) {
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	w.dense.update(params, b.N, kernel.Add, -rate)
	for _, c := range w.conv {
		c.update(params, -rate)
	}
	return loss, nil
}

func (w *cnnWork) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.m.check(grad)
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	w.dense.update(grad, b.N, kernel.Store, 1)
	for _, c := range w.conv {
		clear(grad[c.offset:][:c.params()])
		c.update(grad, 1)
	}
	return loss, nil
}

func (w *cnnWork) Evaluate(params []float32, b *Batch) (loss float64, correct int, err error) {
	if err := w.check(params, b); err != nil {
		return 0, 0, err
	}
	for _, c := range w.conv {
		c.begin(params)
	}
	for from := 0; from < b.N; from += kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		z := w.forward(params, b.X[from*w.m.Features():], 0, n, false)
		s, c := w.dense.head.evaluate(z, b.Labels[from:from+n])
		loss += s
		correct += c
	}
	if !finite(loss) {
		return loss, 0, ErrNotFinite
	}
	return loss, correct, nil
}
