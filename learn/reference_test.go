package learn

import "math"

// The references recompute each model's loss in float64, one sample at a time,
// straight from its definition.

func denseReference(params []float64, widths []int, x []float64) []float64 {
	at := 0
	for l := 1; l < len(widths); l++ {
		in, out := widths[l-1], widths[l]
		w, bias := params[at:at+in*out], params[at+in*out:at+in*out+out]
		at += in*out + out
		y := make([]float64, out)
		for o := range y {
			y[o] = bias[o]
			for i, v := range x {
				y[o] += w[o*in+i] * v
			}
			if l < len(widths)-1 {
				y[o] = max(0, y[o])
			}
		}
		x = y
	}
	return x
}

func crossEntropy(z []float64, label int32) float64 {
	top := math.Inf(-1)
	for _, v := range z {
		top = max(top, v)
	}
	var sum float64
	for _, v := range z {
		sum += math.Exp(v - top)
	}
	return math.Log(sum) + top - z[label]
}

// convolutionReference is a 3×3 convolution without padding, ReLU and 2×2 max
// pooling of channels × height × width.
func convolutionReference(w, bias, x []float64, in, out, height, width int) []float64 {
	var y []float64
	at := func(o, r, c int) float64 {
		s := bias[o]
		for i := range in {
			for k := range 9 {
				s += w[(o*in+i)*9+k] * x[(i*height+r+k/3)*width+c+k%3]
			}
		}
		return max(0, s)
	}
	for o := range out {
		for r := 0; r+4 <= height; r += 2 {
			for c := 0; c+4 <= width; c += 2 {
				y = append(y, max(at(o, r, c), at(o, r, c+1), at(o, r+1, c), at(o, r+1, c+1)))
			}
		}
	}
	return y
}

func cnnReference(m *model, a CNN, params, x []float64) []float64 {
	p := func(i int) []float64 { return params[m.tensors[i].Offset:][:m.tensors[i].Len()] }
	channels, height, width := a.Image[0], a.Image[1], a.Image[2]
	maps := a.Maps
	x = convolutionReference(p(0), p(1), x, channels, maps[0], height, width)
	x = convolutionReference(p(2), p(3), x, maps[0], maps[1], (height-2)/2, (width-2)/2)
	return denseReference(params[m.tensors[4].Offset:], []int{len(x), a.Hidden, m.samples.Classes}, x)
}

func gruReference(m *model, a GRU, params []float64, tokens []uint8) []float64 {
	p := func(i int) []float64 { return params[m.tensors[i].Offset:][:m.tensors[i].Len()] }
	sigma := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	states := make([][]float64, a.Layers)
	for l := range states {
		states[l] = make([]float64, a.State)
	}
	for _, token := range tokens {
		x := p(0)[int(token)*a.Embedding:][:a.Embedding]
		for l, h := range states {
			affine := func(w, b, x []float64, row int) float64 {
				s := b[row]
				for i, v := range x {
					s += w[row*len(x)+i] * v
				}
				return s
			}
			in := func(row int) float64 { return affine(p(1+4*l), p(3+4*l), x, row) }
			state := func(row int) float64 { return affine(p(2+4*l), p(4+4*l), h, row) }
			next := make([]float64, a.State)
			for j := range next {
				r := sigma(in(j) + state(j))
				z := sigma(in(a.State+j) + state(a.State+j))
				n := math.Tanh(in(2*a.State+j) + r*state(2*a.State+j))
				next[j] = (1-z)*n + z*h[j]
			}
			states[l], x = next, next
		}
	}
	return denseReference(params[m.tensors[len(m.tensors)-2].Offset:], []int{a.State, a.Vocabulary}, states[a.Layers-1])
}

// referenceLogits returns each sample's logits.
func referenceLogits(m Model, params []float64, b *Batch) [][]float64 {
	var all [][]float64
	for s := range b.N {
		x := make([]float64, m.Samples().Features)
		switch m.Samples().Input {
		case Sparse:
			for j := b.RowStart[s]; j < b.RowStart[s+1]; j++ {
				x[b.Index[j]] += float64(b.Value[j])
			}
		case Dense:
			for i := range x {
				x[i] = float64(b.X[s*len(x)+i])
			}
		}
		m := m.(*model)
		a, _, err := parseArchitecture(m.name)
		if err != nil {
			panic(err)
		}
		switch a := a.(type) {
		case Linear:
			all = append(all, denseReference(params, []int{m.samples.Features, m.samples.Classes}, x))
		case MLP:
			all = append(all, denseReference(params, a.Layers, x))
		case CNN:
			all = append(all, cnnReference(m, a, params, x))
		case GRU:
			all = append(all, gruReference(m, a, params, b.Tokens[s*a.Length:][:a.Length]))
		}
	}
	return all
}

func referenceLoss(m Model, params []float64, b *Batch) float64 {
	var loss float64
	for s, z := range referenceLogits(m, params, b) {
		loss += crossEntropy(z, b.Labels[s])
	}
	return loss / float64(b.N)
}
