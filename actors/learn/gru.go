package learn

import (
	"fmt"
	"math"

	"fedpace/actors/learn/internal/kernel"
	"fedpace/internal/keyed"
)

func init() {
	Models.Register("gru", "stacked gated recurrent units that predict the next character", GRU{})
}

// GRU predicts the character after a sequence (Shakespeare's is 80,79,8,128,2).
type GRU struct {
	Length     int `key:"length" range:"[1,1048576]" help:"characters of a sample"`
	Vocabulary int `key:"vocabulary" range:"[2,256]" help:"characters, which are the classes, too"`
	Embedding  int `key:"embedding" range:"[1,1048576]" help:"width of a character's embedding"`
	State      int `key:"state" range:"[1,1048576]" help:"width of a layer's state"`
	Layers     int `key:"layers" range:"[1,64]" help:"layers"`
}

// Model implements [Architecture].
func (a GRU) Model(Input, int, int) (Model, error) {
	switch {
	case a.Vocabulary > 256:
		return nil, fmt.Errorf("a vocabulary of %d; a token is a byte, at most 256", a.Vocabulary)
	case a.Layers > maxLayers:
		return nil, fmt.Errorf("%d layers are more than %d", a.Layers, maxLayers)
	}
	params := product(a.Vocabulary, a.Embedding+a.State) + product(3*a.State, a.Embedding+a.State) + product(6*(a.Layers-1), a.State, a.State)
	params = max(params, product(a.Length, a.State, a.Layers)) // the states kept for the way back
	if err := checkSizes(params, a.Vocabulary, a.Length, a.Vocabulary, a.Embedding, a.State, a.Layers); err != nil {
		return nil, err
	}
	return newGRU(a.Length, a.Vocabulary, a.Embedding, a.State, a.Layers), nil
}

// Parse implements [Architecture].
func (GRU) Parse(sizes string) (Architecture, error) {
	n, err := widths(sizes, "LENGTH,VOCABULARY,EMBEDDING,STATE,LAYERS", 5)
	if err != nil {
		return nil, err
	}
	return GRU{n[0], n[1], n[2], n[3], n[4]}, nil
}

// gru predicts the character after a sequence: an embedding, stacked GRU layers
// in PyTorch's form (two bias vectors, gates in the order r, z, n) and a linear
// layer on the last step's state.
type gru struct {
	layout
	length, vocabulary, embedding, hidden, layers int
}

func newGRU(length, vocabulary, embedding, hidden, layers int) *gru {
	m := &gru{length: length, vocabulary: vocabulary, embedding: embedding, hidden: hidden, layers: layers}
	m.spec = fmt.Sprintf("gru:%d,%d,%d,%d,%d", length, vocabulary, embedding, hidden, layers)
	m.add("embedding.weight", 0, vocabulary, embedding)
	bound := fanIn(hidden) // for all of a GRU's parameters
	for l := range layers {
		in := m.in(l)
		m.add(fmt.Sprintf("gru.weight_ih_l%d", l), bound, 3*hidden, in)
		m.add(fmt.Sprintf("gru.weight_hh_l%d", l), bound, 3*hidden, hidden)
		m.add(fmt.Sprintf("gru.bias_ih_l%d", l), bound, 3*hidden)
		m.add(fmt.Sprintf("gru.bias_hh_l%d", l), bound, 3*hidden)
	}
	m.add("linear.weight", bound, vocabulary, hidden)
	m.add("linear.bias", bound, vocabulary)
	return m
}

func (m *gru) Input() Input  { return Tokens }
func (m *gru) Features() int { return m.length }
func (m *gru) Classes() int  { return m.vocabulary }

// in is the width of layer l's input.
func (m *gru) in(l int) int {
	if l == 0 {
		return m.embedding
	}
	return m.hidden
}

// Init draws the embedding from N(0, 1) by Marsaglia's polar method, everything
// else as the layout does.
func (m *gru) Init(params []float32, seed uint64) {
	m.layout.Init(params, seed)
	r := keyed.New(seed, keyed.Weights, 0)
	e := params[:m.vocabulary*m.embedding]
	for i := 0; i < len(e); {
		u, v := 2*r.Float64()-1, 2*r.Float64()-1
		s := float64(u*u) + float64(v*v)
		if s >= 1 || s < 1e-300 {
			continue
		}
		f := math.Sqrt(-2 * kernel.Log(s) / s)
		e[i] = float32(u * f)
		if i+1 < len(e) {
			e[i+1] = float32(v * f)
		}
		i += 2
	}
}

func (m *gru) NewWorkspace(maxBatch int) Workspace { return m.workspace(maxBatch, class()) }

// groupSteps is how many time steps' gradients meet in one product with the
// inputs: it saves as many passes over the weights' gradient.
const groupSteps = 4

func (m *gru) workspace(maxBatch int, c kernel.Class) *gruWork {
	h, lanes := m.hidden*kernel.Lanes, kernel.Lanes
	w := &gruWork{m: m, max: maxBatch, class: c,
		end:    newStack(c, []int{m.hidden, m.vocabulary}, m.params-(m.hidden+1)*m.vocabulary, lanes),
		x:      aligned(m.length * m.embedding * lanes),
		zero:   aligned(h),
		in:     aligned(3 * h),
		state:  aligned(3 * h),
		dx:     aligned(m.embedding * lanes),
		grad:   aligned(m.params),
		groups: make([]kernel.Segment, groupSteps),
	}
	w.end.rows[0] = aligned(lanes * m.hidden)
	for l := range m.layers {
		in := m.in(l)
		g := gruLayer{in: in, wih: m.tensors[1+4*l].Offset, whh: m.tensors[2+4*l].Offset,
			bih: m.tensors[3+4*l].Offset, bhh: m.tensors[4+4*l].Offset,
			saved: aligned(m.length * 5 * h),
			rows:  aligned((m.length + 1) * h),
			da:    aligned(groupSteps * 4 * h),
			dh:    aligned(h),
		}
		w.layers = append(w.layers, g)
	}
	w.xrows = aligned(m.length * lanes * m.embedding)
	return w
}

// gruWork runs one block of samples at a time through all time steps.
type gruWork struct {
	m      *gru
	max    int
	class  kernel.Class
	layers []gruLayer
	end    *stack
	x      []float32 // embedded tokens: time × embedding × lanes
	xrows  []float32 // the same, time × samples × embedding
	zero   []float32 // the state before the first step
	in     []float32 // shares of the gates, 3 × hidden × lanes
	state  []float32
	dx     []float32
	grad   []float32
	groups []kernel.Segment
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

func (w *gruWork) check(params []float32, b *Batch) error {
	w.m.check(params)
	if err := checkBatch(b, w.max, w.m.vocabulary); err != nil {
		return err
	}
	return checkTokens(b, w.m.length, w.m.vocabulary)
}

// output is layer l's state after step t, before the first for t = -1.
func (w *gruWork) output(l, t int) []float32 {
	h := w.m.hidden * kernel.Lanes
	if t < 0 {
		return w.zero
	}
	return w.layers[l].saved[(5*t+4)*h:][:h]
}

// forward runs n samples through all time steps and returns the logits. Where
// keep is set it leaves what backward needs.
func (w *gruWork) forward(params []float32, tokens []uint8, n int, keep bool) []float32 {
	m, c := w.m, w.class
	h, e := m.hidden*kernel.Lanes, m.embedding
	block := func(x []float32) kernel.Matrix { return kernel.Matrix{Data: x, LD: kernel.Lanes} }
	for t := range m.length {
		x := w.x[t*e*kernel.Lanes:][:e*kernel.Lanes]
		rows := w.xrows[t*kernel.Lanes*e:]
		for s := range n {
			row := params[int(tokens[s*m.length+t])*e:][:e]
			copy(rows[s*e:], row)
			for i, v := range row {
				x[i*kernel.Lanes+s] = v
			}
		}
		for l := range w.layers {
			g := &w.layers[l]
			before := w.output(l, t-1)
			c.Gemm(3*m.hidden, kernel.Filled(n), g.in, kernel.Operand{Data: params[g.wih:], Row: g.in, Col: 1},
				block(x), block(w.in), kernel.Bias, params[g.bih:], 0)
			c.Gemm(3*m.hidden, kernel.Filled(n), m.hidden, kernel.Operand{Data: params[g.whh:], Row: m.hidden, Col: 1},
				block(before), block(w.state), kernel.Bias, params[g.bhh:], 0)
			c.GRUForward(h, w.in, w.state, before, g.saved[5*t*h:][:5*h])
			x = w.output(l, t)
			if keep {
				c.Transpose(kernel.Matrix{Data: g.rows[(t+1)*h:], LD: m.hidden}, block(x), m.hidden, n)
			}
		}
	}
	last := w.output(m.layers-1, m.length-1)
	copy(w.end.input(0), last)
	if keep {
		copy(w.end.rows[0], w.layers[m.layers-1].rows[m.length*h:])
	}
	return w.end.forward(params, 0, n)
}

// backward adds the gradient of n samples, whose logits forward has left, to grad.
func (w *gruWork) backward(grad, params []float32, tokens []uint8, labels []int32, scale float32) (loss float64) {
	m, c := w.m, w.class
	n := len(labels)
	filled := kernel.Filled(n)
	h, e := m.hidden*kernel.Lanes, m.embedding
	block := func(x []float32) kernel.Matrix { return kernel.Matrix{Data: x, LD: kernel.Lanes} }

	loss = w.end.backward(params, 0, labels, scale)
	w.end.update(grad, n, kernel.Add, 1)
	top := m.layers - 1
	for l := range w.layers {
		clear(w.layers[l].dh)
	}
	w.end.inputGradient(w.layers[top].dh, params, 0, n, false)

	// The gradients of the input's shares are parts 0, 1 and 3 of da.
	shares := w.shares[:]
	shares[1].B, shares[2].B = h, 3*h
	for t := m.length - 1; t >= 0; t-- {
		slot := t % groupSteps
		for l := top; l >= 0; l-- {
			g := &w.layers[l]
			da := g.da[slot*4*h:][:4*h]
			c.GRUBackward(h, g.dh, g.saved[5*t*h:][:4*h], w.output(l, t-1), da)
			if t > 0 {
				c.Gemm(m.hidden, filled, 3*m.hidden, kernel.Operand{Data: params[g.whh:], Row: 1, Col: m.hidden},
					block(da), block(g.dh), kernel.Add, nil, 1)
			}
			shares[1].A, shares[2].A = m.hidden*g.in, 2*m.hidden*g.in
			weight := kernel.Operand{Data: params[g.wih:], Row: 1, Col: g.in}
			if l > 0 {
				c.GemmSum(g.in, filled, m.hidden, shares, weight, block(da), block(w.layers[l-1].dh), kernel.Add, nil, 1)
			} else {
				c.GemmSum(e, filled, m.hidden, shares, weight, block(da), block(w.dx), kernel.Store, nil, 0)
			}
			c.AddRowSums(grad[g.bih:][:2*m.hidden], da, n, kernel.Add, 1)
			c.AddRowSums(grad[g.bih+2*m.hidden:][:m.hidden], da[3*h:], n, kernel.Add, 1)
			c.AddRowSums(grad[g.bhh:][:3*m.hidden], da, n, kernel.Add, 1)
		}
		for s := range n {
			row := grad[int(tokens[s*m.length+t])*e:][:e]
			for i := range row {
				row[i] += w.dx[i*kernel.Lanes+s]
			}
		}
		if slot == 0 {
			w.weights(grad, t, min(groupSteps, m.length-t), n)
		}
	}
	return loss
}

// weights adds to grad the products of the gates' gradients of `steps` time steps
// from t on with what the gates read.
func (w *gruWork) weights(grad []float32, t, steps, n int) {
	m, c := w.m, w.class
	h, e := m.hidden*kernel.Lanes, m.embedding
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
		for _, part := range [2]struct{ row, from, rows int }{{0, 0, 2 * m.hidden}, {2 * m.hidden, 3 * h, m.hidden}} {
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
			c.GemmSum(3*m.hidden, m.hidden, n, groups, kernel.Operand{Data: g.da, Row: kernel.Lanes, Col: 1},
				kernel.Matrix{Data: rows, LD: m.hidden}, kernel.Matrix{Data: grad[g.whh:], LD: m.hidden}, kernel.Add, nil, 1)
		}
	}
}

// gradients writes the gradient of the batch's mean loss, which it returns.
func (w *gruWork) gradients(grad, params []float32, b *Batch) (loss float64) {
	clear(grad)
	for from := 0; from < b.N; from += kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		tokens := b.Tokens[from*w.m.length:]
		w.forward(params, tokens, n, true)
		loss += w.backward(grad, params, tokens, b.Labels[from:from+n], 1/float32(b.N))
	}
	return loss / float64(b.N)
}

func (w *gruWork) Step(params []float32, b *Batch, rate float32) (float64, error) {
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(w.grad, params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	w.class.AddScaled(params, -rate, w.grad)
	return loss, nil
}

func (w *gruWork) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.m.check(grad)
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(grad, params, b)
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	return loss, nil
}

func (w *gruWork) Evaluate(params []float32, b *Batch) (loss float64, correct int, err error) {
	if err := w.check(params, b); err != nil {
		return 0, 0, err
	}
	for from := 0; from < b.N; from += kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		z := w.forward(params, b.Tokens[from*w.m.length:], n, false)
		s, c := w.end.head.evaluate(z, b.Labels[from:from+n])
		loss += s
		correct += c
	}
	if !finite(loss) {
		return loss, 0, ErrNotFinite
	}
	return loss, correct, nil
}
