package learn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"fedpace/actors/learn/internal/kernel"
)

func init() {
	Models.Register("gru", "stacked gated recurrent units that predict the next character", GRU{})
}

// GRU predicts the character after a sequence (Shakespeare's is 80,79,8,128,2): an
// embedding, stacked GRU layers in PyTorch's form (two bias vectors, gates in the
// order r, z, n) and a linear layer on the last step's state.
type GRU struct {
	Length     int `key:"length" range:"[1,1048576]" help:"characters of a sample"`
	Vocabulary int `key:"vocabulary" range:"[2,256]" help:"characters, which are the classes, too"`
	Embedding  int `key:"embedding" range:"[1,1048576]" help:"width of a character's embedding"`
	State      int `key:"state" range:"[1,1048576]" help:"width of a layer's state"`
	Layers     int `key:"layers" range:"[1,64]" help:"layers"`
}

func (a GRU) Model(Samples) (Model, error) {
	switch {
	case a.Vocabulary > 256:
		return nil, fmt.Errorf("a vocabulary of %d; a token is a byte, at most 256", a.Vocabulary)
	case a.Layers > maxLayers:
		return nil, fmt.Errorf("%d layers are more than %d", a.Layers, maxLayers)
	case product(a.Length, a.State, a.Layers) > MaxParams: // kept for the way back
		return nil, fmt.Errorf("more than %d states of a sample", MaxParams)
	}
	params := product(a.Vocabulary, a.Embedding+a.State) + product(3*a.State, a.Embedding+a.State) + product(6*(a.Layers-1), a.State, a.State)
	if err := checkSizes(params, a.Vocabulary, a.Length, a.Vocabulary, a.Embedding, a.State, a.Layers); err != nil {
		return nil, err
	}
	spec := fmt.Sprintf("gru:%d,%d,%d,%d,%d", a.Length, a.Vocabulary, a.Embedding, a.State, a.Layers)
	m := &model{of: a, spec: spec, metrics: accuracy,
		samples: Samples{Input: Tokens, Features: a.Length, Classes: a.Vocabulary, Vocabulary: a.Vocabulary}}
	m.add("embedding.weight", normal, a.Vocabulary, a.Embedding)
	bound := fanIn(a.State) // for all of a GRU's parameters
	for l := range a.Layers {
		m.add(fmt.Sprintf("gru.weight_ih_l%d", l), bound, 3*a.State, a.inputWidth(l))
		m.add(fmt.Sprintf("gru.weight_hh_l%d", l), bound, 3*a.State, a.State)
		m.add(fmt.Sprintf("gru.bias_ih_l%d", l), bound, 3*a.State)
		m.add(fmt.Sprintf("gru.bias_hh_l%d", l), bound, 3*a.State)
	}
	m.addLayer("linear.", bound, a.Vocabulary, a.State)
	m.arithmetic = func(_ int, isa kernel.ISA) arithmetic { return a.work(m, isa) }
	return m, nil
}

func (GRU) Parse(sizes string) (Architecture, error) {
	var n [5]int
	err := scan(sizes, "LENGTH,VOCABULARY,EMBEDDING,STATE,LAYERS", &n)
	return GRU{n[0], n[1], n[2], n[3], n[4]}, err
}

// inputWidth is the width of layer l's input.
func (a GRU) inputWidth(l int) int {
	if l == 0 {
		return a.Embedding
	}
	return a.State
}

// normal draws from N(0, 1) by Marsaglia's polar method.
func normal(part []float32, r *rand.Rand) {
	for i := 0; i < len(part); {
		u, v := 2*r.Float64()-1, 2*r.Float64()-1
		s := float64(u*u) + float64(v*v)
		if s >= 1 || s < 1e-300 {
			continue
		}
		f := math.Sqrt(-2 * kernel.Log(s) / s)
		part[i] = float32(u * f)
		if i+1 < len(part) {
			part[i+1] = float32(v * f)
		}
		i += 2
	}
}

// groupSteps is how many time steps' gradients meet in one product with the
// inputs: it saves as many passes over the weights' gradient.
const groupSteps = 4

func (a GRU) work(m *model, isa kernel.ISA) arithmetic {
	h, lanes := a.State*kernel.Lanes, kernel.Lanes
	w := &gruWork{GRU: a,
		end:   newStack(isa, []int{a.State, a.Vocabulary}, m.params-(a.State+1)*a.Vocabulary, lanes),
		x:     aligned(a.Length * a.Embedding * lanes),
		xrows: aligned(a.Length * lanes * a.Embedding),
		zero:  aligned(h),
		in:    aligned(3 * h),
		state: aligned(3 * h),
		dx:    aligned(a.Embedding * lanes),
		flat:  flat{isa, aligned(m.params)},
	}
	w.end.layers[0].rows = aligned(lanes * a.State)
	for l := range a.Layers {
		t := m.tensors[1+4*l:]
		w.layers = append(w.layers, gruLayer{in: a.inputWidth(l), wih: t[0].Offset, whh: t[1].Offset, bih: t[2].Offset, bhh: t[3].Offset,
			saved: aligned(a.Length * 5 * h),
			rows:  aligned((a.Length + 1) * h),
			da:    aligned(groupSteps * 4 * h),
			dh:    aligned(h),
		})
	}
	return blockwise{w, &w.end.head}
}

// gruWork runs one block of samples at a time through all time steps.
type gruWork struct {
	GRU
	flat
	layers []gruLayer
	end    *stack
	x      []float32 // embedded tokens: time × embedding × lanes
	xrows  []float32 // the same, time × samples × embedding
	zero   []float32 // the state before the first step
	in     []float32 // shares of the gates, 3 × hidden × lanes
	state  []float32
	dx     []float32
	groups [groupSteps]kernel.Segment
	shares [3]kernel.Segment // of a layer's gates in its input
}

type gruLayer struct {
	in                 int
	wih, whh, bih, bhh int       // offsets of the parameters
	saved              []float32 // of every time step: r, z, m, g and the new state (kernel.GRUForward)
	rows               []float32 // states sample by sample; the one before step t at t
	da                 []float32 // of groupSteps time steps (kernel.GRUBackward)
	dh                 []float32
}

// begin forgets the gradients of the last step.
func (w *gruWork) begin([]float32, *Batch) { clear(w.grad) }

// output is layer l's state after step t, before the first for t = -1.
func (w *gruWork) output(l, t int) []float32 {
	h := w.State * kernel.Lanes
	if t < 0 {
		return w.zero
	}
	return w.layers[l].saved[(5*t+4)*h:][:h]
}

func (w *gruWork) forward(params []float32, b *Batch, _, from, n int, keep bool) []float32 {
	c, tokens := w.isa, b.Tokens[from*w.Length:]
	h, e := w.State*kernel.Lanes, w.Embedding
	for t := range w.Length {
		x := w.x[t*e*kernel.Lanes:][:e*kernel.Lanes]
		rows := w.xrows[t*kernel.Lanes*e:]
		for s := range n {
			row := params[int(tokens[s*w.Length+t])*e:][:e]
			copy(rows[s*e:], row)
			for i, v := range row {
				x[i*kernel.Lanes+s] = v
			}
		}
		for l := range w.layers {
			g := &w.layers[l]
			before := w.output(l, t-1)
			c.Gemm(3*w.State, kernel.Filled(n), g.in, kernel.Operand{Data: params[g.wih:], Row: g.in, Col: 1},
				kernel.Block(x), kernel.Block(w.in), kernel.Bias, params[g.bih:], 0)
			c.Gemm(3*w.State, kernel.Filled(n), w.State, kernel.Operand{Data: params[g.whh:], Row: w.State, Col: 1},
				kernel.Block(before), kernel.Block(w.state), kernel.Bias, params[g.bhh:], 0)
			c.GRUForward(h, w.in, w.state, before, g.saved[5*t*h:][:5*h])
			x = w.output(l, t)
			if keep {
				c.Transpose(kernel.Matrix{Data: g.rows[(t+1)*h:], LD: w.State}, kernel.Block(x), w.State, n)
			}
		}
	}
	last := w.output(w.Layers-1, w.Length-1)
	copy(w.end.layers[0].input(0), last)
	if keep {
		copy(w.end.layers[0].rows, w.layers[w.Layers-1].rows[w.Length*h:])
	}
	return w.end.forward(params, 0, n)
}

// backward adds the gradient of n samples, whose logits forward has left, to grad.
func (w *gruWork) backward(params []float32, b *Batch, _, from, n int) (loss float64) {
	c, grad, tokens := w.isa, w.grad, b.Tokens[from*w.Length:]
	filled := kernel.Filled(n)
	h, e := w.State*kernel.Lanes, w.Embedding

	loss = w.end.backward(params, b, 0, from, n)
	w.end.update(grad, n, kernel.Add, 1)
	top := w.Layers - 1
	for l := range w.layers {
		clear(w.layers[l].dh)
	}
	w.end.layers[0].backward(w.layers[top].dh, params, 0, n, false)

	// The gradients of the input's shares are parts 0, 1 and 3 of da.
	shares := w.shares[:]
	shares[1].B, shares[2].B = h, 3*h
	for t := w.Length - 1; t >= 0; t-- {
		slot := t % groupSteps
		for l := top; l >= 0; l-- {
			g := &w.layers[l]
			da := g.da[slot*4*h:][:4*h]
			c.GRUBackward(h, g.dh, g.saved[5*t*h:][:4*h], w.output(l, t-1), da)
			if t > 0 {
				c.Gemm(w.State, filled, 3*w.State, kernel.Operand{Data: params[g.whh:], Row: 1, Col: w.State},
					kernel.Block(da), kernel.Block(g.dh), kernel.Add, nil, 1)
			}
			shares[1].A, shares[2].A = w.State*g.in, 2*w.State*g.in
			weight := kernel.Operand{Data: params[g.wih:], Row: 1, Col: g.in}
			if l > 0 {
				c.GemmSum(g.in, filled, w.State, shares, weight, kernel.Block(da), kernel.Block(w.layers[l-1].dh), kernel.Add, nil, 1)
			} else {
				c.GemmSum(e, filled, w.State, shares, weight, kernel.Block(da), kernel.Block(w.dx), kernel.Store, nil, 0)
			}
			c.AddRowSums(grad[g.bih:][:2*w.State], da, n, kernel.Add, 1)
			c.AddRowSums(grad[g.bih+2*w.State:][:w.State], da[3*h:], n, kernel.Add, 1)
			c.AddRowSums(grad[g.bhh:][:3*w.State], da, n, kernel.Add, 1)
		}
		for s := range n {
			row := grad[int(tokens[s*w.Length+t])*e:][:e]
			for i := range row {
				row[i] += w.dx[i*kernel.Lanes+s]
			}
		}
		if slot == 0 {
			w.weights(t, min(groupSteps, w.Length-t), n)
		}
	}
	return loss
}

// weights adds to grad the products of the gates' gradients of `steps` time steps
// from t on with what the gates read.
func (w *gruWork) weights(t, steps, n int) {
	c, grad := w.isa, w.grad
	h, e := w.State*kernel.Lanes, w.Embedding
	for l := range w.layers {
		g := &w.layers[l]
		x, width := w.xrows[t*kernel.Lanes*e:], kernel.Lanes*e
		if l > 0 {
			x, width = w.layers[l-1].rows[(t+1)*h:], h
		}
		groups := w.groups[:steps]
		for i := range groups {
			groups[i] = kernel.Segment{A: i * 4 * h, B: i * width}
		}
		in := kernel.Matrix{Data: x, LD: g.in}
		for _, part := range [2]struct{ row, from, rows int }{{0, 0, 2 * w.State}, {2 * w.State, 3 * h, w.State}} {
			c.GemmSum(part.rows, g.in, n, groups, kernel.Operand{Data: g.da[part.from:], Row: kernel.Lanes, Col: 1},
				in, kernel.Matrix{Data: grad[g.wih+part.row*g.in:], LD: g.in}, kernel.Add, nil, 1)
		}
		// The state before the first step is zero: its product adds nothing.
		for i := range groups {
			groups[i].B = i * h
		}
		rows := g.rows[t*h:]
		if t == 0 {
			groups = groups[1:]
		}
		if len(groups) > 0 {
			c.GemmSum(3*w.State, w.State, n, groups, kernel.Operand{Data: g.da, Row: kernel.Lanes, Col: 1},
				kernel.Matrix{Data: rows, LD: w.State}, kernel.Matrix{Data: grad[g.whh:], LD: w.State}, kernel.Add, nil, 1)
		}
	}
}
